"""Plan of a group of chunks as stages: what is merged in which order inside one target transaction. Pure: no database.

Between two stages lies something that may not be merged over: a TRUNCATE, the end of a table's load window (for tables
that cascades reach, its beginning, too), a cascade that later images depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from anabranch.apply.aside.permitted import refuse_touched
from anabranch.apply.cascades import cascade
from anabranch.apply.cascades.cuts import cuts
from anabranch.apply.compact import compact
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.filter import with_filter_columns
from anabranch.apply.images import END, ORDINAL_BITS, Images, gather, order_of, sequence_of
from anabranch.apply.pair import refuse_truncates, refuse_unfit
from anabranch.apply.stage import Group, Ignored, Parked, Stage
from anabranch.apply.unconverted import refuse_unconverted
from anabranch.apply.waiting_rows import without_waiting
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.net import Cascade, TableNet, TargetTable

FilterImages = Callable[[Followed, Images], Images]


def group(chunks: Sequence[Chunk], context: ApplyContext, filtered: FilterImages | None = None) -> Group:
    """Gather what `context` follows. Rows of a table after its PARK barrier are left out."""
    base = chunks[0].first_sequence
    barriers = [(order_of(c.first_sequence + b.tx, base, b.ordinal), c, b) for c in chunks for b in c.barriers]
    parks = [
        (b.table, order, c.first_sequence + b.tx)
        for order, c, b in reversed(barriers)
        if b.kind is BarrierKind.PARK and c.first_sequence + b.tx > _low(context, b.table)
    ]
    parked = {table: order for table, order, _ in parks}
    parked_at = {table: sequence for table, _, sequence in parks}
    present = {rows.table for chunk in chunks for rows in chunk.tables} & context.tables.keys()
    whole = {
        table: _images(chunks, context.tables[table], base, filtered, parked_at.get(table, END))
        for table in sorted(present)
    }
    seen = {table: images for table, images in whole.items() if images is not None}
    mine = {
        table: _not_loaded(images, context.tables[table], base).between(-END, parked.get(table, END))
        for table, images in seen.items()
    }
    clean = {t: without_waiting(i, context.tables[t]) for t, i in mine.items() if context.tables[t].waiting and len(i)}
    mine |= {table: images for table, (images, _) in clean.items()}
    return Group(
        base,
        {table: images for table, images in mine.items() if len(images)},
        cascade.parent_changes(seen, context, base),
        [(o, t) for o, t in _truncates(barriers, context, base) if o < parked.get(t.source, END)],
        [_parked(c, b) for _, c, b in barriers if b.kind is BarrierKind.PARK],
        {table: waiting for table, (_, waiting) in clean.items()},
        list(_ignored(barriers, context, base)),
    )


def _low(context: ApplyContext, table: TableId) -> int:
    return context.tables[table].low if table in context.tables else 0


def _images(
    chunks: Sequence[Chunk], followed: Followed, base: int, filtered: FilterImages | None, parked: int
) -> Images | None:
    images = gather(chunks, with_filter_columns(followed), followed.schema, base, followed.low, parked)
    if images is None or followed.filter is None:
        return images
    assert filtered is not None, "a table with a filter is planned where Spark SQL can be asked"
    # For rows that the load has read, the log need not have the filter's columns.
    left = _not_loaded(images, followed, base)
    return filtered(followed, left) if len(left) else None


def _truncates(
    barriers: Sequence[tuple[int, Chunk, Barrier]], context: ApplyContext, base: int
) -> list[tuple[int, TargetTable]]:
    found = []
    for order, _, barrier in barriers:
        followed = context.tables.get(barrier.table)
        if barrier.kind is BarrierKind.TRUNCATE and followed and not is_loaded(followed, sequence_of(order, base)):
            found.append((order, followed.table))
    return found


def _ignored(barriers: Sequence[tuple[int, Chunk, Barrier]], context: ApplyContext, base: int) -> Iterator[Ignored]:
    """Yield the statements behind which followed tables go on as they are. One before a table's load is none."""
    for order, chunk, barrier in barriers:
        followed = context.tables.get(barrier.table)
        if barrier.kind is BarrierKind.NOTE and followed and not is_loaded(followed, sequence_of(order, base)):
            kinds = tuple(barrier.reason.split(", "))
            yield Ignored(barrier.table, chunk.first_sequence + barrier.tx, kinds, barrier.statement)


def is_loaded(followed: Followed, sequence: int) -> bool:
    return sequence <= followed.low or bool(followed.loaded and sequence in followed.loaded)


def _not_loaded(images: Images, followed: Followed, base: int) -> Images:
    left = images.between(order_of(followed.low + 1, base), END)
    if not followed.loaded or not len(left):
        return left
    sequences = (left.order >> ORDINAL_BITS) + base
    return left.where(~np.isin(sequences, list(followed.loaded)))


def _parked(chunk: Chunk, barrier: Barrier) -> Parked:
    return Parked(barrier.table, chunk.first_sequence + barrier.tx, barrier.reason, barrier.statement)


def stages(part: Group, context: ApplyContext) -> list[Stage]:
    """Return the group's stages in order. Raises NeedsSlowWay."""
    refuse_touched(part, context)
    refuse_unconverted(part.images, {table: context.tables[table].table for table in part.images})
    refuse_truncates(part.truncates, context)
    starts = [-END, *sorted(_bounds(part, context))]
    found = []
    for start, stop in zip(starts, [*starts[1:], END], strict=True):
        stage = _stage(part.within(start, stop) if len(starts) > 1 else part, context, start)
        if stage != Stage():
            found.append(stage)
    return found


def _bounds(part: Group, context: ApplyContext) -> set[int]:
    """Return the orders at which a stage ends and the next one begins, whatever the reason. The way a table is merged
    does not change inside a stage, so a definition that changes would be one more reason here."""
    found = {order for order, _ in part.truncates}
    found.update(cuts(part.images, part.changes, context, part.base))
    found.update(order_of(f.high + 1, part.base) for f in context.tables.values() if f.high >= part.base)
    if part.changes:  # cascades reach a table only from its window on
        children = (context.tables[rule.child.source] for rule in context.cascades)
        found.update(order_of(child.low + 1, part.base) for child in children if child.low >= part.base)
    return found


def _stage(part: Group, context: ApplyContext, start: int) -> Stage:
    nets: list[TableNet] = []
    reread = []
    for table, images in part.images.items():
        followed = context.tables[table]
        checked = followed.is_strict_from(part.base) or start >= order_of(followed.high + 1, part.base)
        if context.keys:
            context.keys.refuse_hidden(followed.table, images)
        newest_by, in_pair = followed.on_conflict.newest_by, followed.on_conflict.pair
        if in_pair and checked:
            refuse_unfit(images, followed.table, followed.on_conflict)
        net, again = compact(
            images,
            followed.table,
            checked=checked,
            unique=followed.unique,
            newest_by=newest_by,
            from_first=in_pair,
            computed=context.computed.get(table),
        )
        if net.row_count:
            nets.append(net)
        if again.num_rows:
            reread.append((table, again))
    follow = cascade.cascades(part.changes, context, part.base)
    ahead, last = dict[int, tuple[Cascade, ...]](), tuple(found.cascade for found in follow)
    if context.keys:
        context.keys.refuse_exchanges(nets, last)
        nets = list(context.keys.ordered(nets))
        ahead, last = _ahead(nets, follow, context)
    return Stage(tuple(table for _, table in part.truncates), tuple(nets), last, ahead, tuple(reread))


def _ahead(
    nets: Sequence[TableNet], follow: Sequence[cascade.Follow], context: ApplyContext
) -> tuple[dict[int, tuple[Cascade, ...]], tuple[Cascade, ...]]:
    """Split cascades: some come just before the net at a place, the others last. A parent that gets another value may
    be deleted in the end, and children may come under its former value meanwhile, so what clears them comes each time."""
    checked = [(place, net) for place, net in enumerate(nets) if net.checked]
    go = {net.table.source: place for place, net in checked if _only_deletes(net)}
    change = {net.table.source: place for place, net in checked if net.updates}
    ahead: dict[int, tuple[Cascade, ...]] = {}
    last: tuple[Cascade, ...] = ()
    for found in follow:
        first = found.ahead(context)
        found_at = [places.get(found.rule.parent.source) for places in ((go,) if found.is_removal else (change, go))]
        places = [place for place in found_at if place is not None]
        if first is not None:
            ahead |= {place: (*ahead.get(place, ()), first) for place in places}
        if not (places and found.is_removal and first is found.cascade):
            last += (found.cascade,)
    return ahead, last


def _only_deletes(net: TableNet) -> bool:
    return net.deletes is not None and net.inserts is None and not net.updates
