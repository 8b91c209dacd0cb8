"""The order of a stage's net changes that foreign keys accept, where the target enforces them (K7).

Rows come before those that refer to them, and go after them: inserts, then updates, parents first; deletes last,
children first. In between come all changes of the tables that nobody refers to: after the inserts and updates of their
parents, and before any parent goes. So a row that is given another parent has it when the old one is deleted, and a key
of the target that deletes or changes children finds none that the source has kept.

Tables that refer to each other in a circle have one rank. Keys that can be checked at the end of the transaction accept
any order; for others the epoch goes the slow way. What does not live here: statements (the Writer's).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.closure import closure
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.images import Bools, Images
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Op
from anabranch.rows.keys import EnforcedKey, differences, source_keys
from anabranch.rows.net import Cascade, CascadeAction, TableNet, TargetTable, Updates


@dataclass(frozen=True)
class KeyOrder:
    """The order that the keys need. It is made from the source's keys, which the target gets sooner or later, and from
    the target's own.

    - `ranks`: of tables that a key leads to or from; a parent's rank is lower than its children's.
    - `inner`: tables that others, or their own rows, refer to. `to_themselves`: tables whose own rows refer to each other.
    - `acting`: parents of keys that change children by themselves, with the columns that are referred to.
    """

    ranks: Mapping[TableId, int] = field(default_factory=dict)
    inner: frozenset[TableId] = frozenset()
    to_themselves: frozenset[TableId] = frozenset()
    acting: Mapping[TableId, frozenset[str]] = field(default_factory=dict)

    def ordered(self, nets: Sequence[TableNet]) -> tuple[TableNet, ...]:
        """Return the same changes in order. Those of tables that are referred to are split into parts."""
        # In a load's window no key is built yet.
        split = [n for n in nets if n.checked and n.table.source in self.inner]
        inner = sorted(split, key=lambda net: self.ranks[net.table.source])
        outer = [n for n in nets if not (n.checked and n.table.source in self.inner)]
        parts = [self._parts(net) for net in inner]
        come = [one for number in range(2) for each in parts for one in each[number]]
        go = [one for each in reversed(parts) for one in each[2]]
        return (*come, *outer, *go)

    def _parts(self, net: TableNet) -> tuple[list[TableNet], ...]:
        """Split a net into inserts, updates, deletes; each has one net or none."""
        is_own = net.table.source in self.to_themselves
        empty = replace(net, deletes=None, updates=(), inserts=None, multiset=None, refers_to_itself=is_own)
        come, go = _signed(net.multiset)
        found = (
            replace(empty, inserts=net.inserts, multiset=come),
            replace(empty, updates=net.updates),
            replace(empty, deletes=net.deletes, multiset=go),
        )
        return tuple([part] if part.row_count else [] for part in found)

    def refuse_exchanges(self, nets: Iterable[TableNet], cascades: Iterable[Cascade]) -> None:
        """Raise NeedsSlowWay for a value that one parent leaves and another takes over in the same stage.

        The target's key takes the children along at once, and what we do for the source's key would hit those of the
        other parent.
        """
        for net in nets:
            if net.table.source in self.acting and _is_exchanged(net.updates):
                raise NeedsSlowWay(net.table, "keys that children refer to move in a chain")
        for cascade in cascades:
            new = cascade.replacements if cascade.action is CascadeAction.UPDATE and self.acting else None
            if new is not None and _meet(cascade.parents, new):
                raise NeedsSlowWay(cascade.child, "values that it refers to go from one parent to another")

    def refuse_hidden(self, table: TargetTable, images: Images) -> None:
        """Raise NeedsSlowWay for rows that went or moved while the source's keys were off, where a key of the target
        would also change their children.

        The slow way asks row by row whether there are any children. Changed rows without a key go the slow way as well:
        the quick way would delete and insert them.
        """
        names = self.acting.get(table.source)
        off = ~images.is_followed_by_keys
        if names is not None and not table.key and (images.op == Op.AFTER).any():
            raise NeedsSlowWay(table, "rows that others refer to change, and have no key by which to find them")
        if names is None or not off.any():
            return
        if (off & (images.op == Op.DELETE)).any() or _changes(images, table, names, off):
            raise NeedsSlowWay(table, "rows that others refer to went while the source's foreign keys were off")


def key_order(
    schemas: Mapping[TableId, TableSchema], targets: Mapping[TableId, TargetTable], enforced: Sequence[EnforcedKey]
) -> KeyOrder:
    """Return the order that the target's keys need. Raises TargetError for a key that would change rows otherwise than
    the source's.
    """
    for difference in differences(enforced, schemas, targets):
        if difference.loses_rows:
            raise TargetError(
                f"{difference}: rows would be changed or lost that the source has kept",
                table=str(difference.key.child),
                hint="make it again at the target as the source has it, or let the job's user switch foreign keys off: "
                "preflight lists the statements",
            )
    sources = {table.target: source for source, table in targets.items()}
    keys = [key for _, key in source_keys(schemas, targets)]
    keys += [key for key in enforced if key.child in sources and key.parent in sources]
    above: dict[TableId, set[TableId]] = {}
    for key in keys:
        above.setdefault(sources[key.child], set()).add(sources[key.parent])
        above.setdefault(sources[key.parent], set())
    acting: dict[TableId, frozenset[str]] = {}
    for key in (*keys, *(key for key in enforced if key.parent in sources)):
        if key.acts:
            parent = sources[key.parent]
            acting[parent] = acting.get(parent, frozenset()) | frozenset(key.parent_columns)
    return KeyOrder(
        # the count is higher than that of any parent, and the same for all tables of a circle
        {table: len(closure(table, lambda one: above[one])) for table in above},
        frozenset(parent for parents in above.values() for parent in parents),
        frozenset(table for table, parents in above.items() if table in parents),
        acting,
    )


def _signed(multiset: pa.Table | None) -> tuple[pa.Table | None, pa.Table | None]:
    """Return the rows that come, and the rows that go."""
    if multiset is None:
        return None, None
    delta = multiset.column(multiset.num_columns - 1)
    return multiset.filter(pc.greater(delta, 0)), multiset.filter(pc.less(delta, 0))


def _is_exchanged(updates: Iterable[Updates]) -> bool:
    moves = [update for update in updates if update.moves_keys]
    if not moves:
        return False
    names = moves[0].old_keys.column_names
    old = pa.concat_tables([update.old_keys for update in moves])
    new = pa.concat_tables([_new_keys(update, names) for update in moves])
    return _meet(old, new)


def _new_keys(update: Updates, names: Sequence[str]) -> pa.Table:
    moved = set(update.values.column_names)
    return pa.table({name: (update.values if name in moved else update.old_keys).column(name) for name in names})


def _meet(one: pa.Table, other: pa.Table) -> bool:
    """Return whether the two tables share a row."""
    return not set(_tuples(one)).isdisjoint(_tuples(other))


def _tuples(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in sorted(rows.column_names)), strict=True)


def _changes(images: Images, table: TargetTable, names: frozenset[str], chosen: Bools) -> bool:
    """Return whether some of the chosen updates set one of these columns to another value."""
    after = np.flatnonzero(chosen & (images.op == Op.AFTER))
    for name in names & set(table.columns) if len(after) else ():
        place = table.columns.index(name)
        carried = after[images.present(place)[after]]
        column = images.rows.column(place)
        old, new = column.take(pa.array(carried - 1)), column.take(pa.array(carried))
        if not pc.all(pc.fill_null(pc.equal(old, new), False)).as_py() and old.to_pylist() != new.to_pylist():
            return True
    return False
