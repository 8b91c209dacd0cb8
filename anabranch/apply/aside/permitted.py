"""Setting aside row changes that the target refuses (K26): which may be set aside, and which later ones may not be
applied.

While a row is set aside, the target differs from the source in that row and in nothing else. One rule keeps this
without looking ahead: a later change of the row itself waits behind it, in order; any other change that concerns the
row (`aside_values.py`, a cascade, a truncate) is not applied, and parks its table there, with the tables that foreign
keys connect it with. So what waits for a row, carried out in order, is always all that the source has done to it since.

What does not live here: setting a row aside (`set_row_aside.py`), carrying out (`row_by_row.py`), releasing and
discarding (`release.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from anabranch.apply.aside.aside_values import Known, Side, Watch, concerned, links
from anabranch.apply.cascades.cascade import changed_with
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.conflict import Where
from anabranch.apply.context import ApplyContext
from anabranch.apply.stage import Disputable, Group
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.model.schema import component
from anabranch.model.table_life import TableState
from anabranch.rows.aside import Aside, AsideChange
from anabranch.rows.net import DELETE, INSERT, RowChange

HINT = "anabranch parked ls JOB lists the rows that are set aside: release or discard them, then resume the table"


def with_aside(context: ApplyContext, found: Iterable[AsideChange], limit: int, may_be: bool) -> ApplyContext:
    """Return the context with what is set aside. `may_be`: more may be set aside, up to `limit` changes of a table."""
    by_table: dict[TableId, tuple[AsideChange, ...]] = {}
    for change in found:
        by_table[change.source] = (*by_table.get(change.source, ()), change)
    if not (may_be or by_table):
        return context
    tables = {
        table: replace(followed, aside=Aside(limit, by_table.get(table, ()))) if followed.table.key else followed
        for table, followed in context.tables.items()
    }
    return context.over(tables)


# --- what may not be applied past them --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Touch:
    """A change that concerns a set-aside row of table `by`. `waits`: it changes the row itself, and waits behind it."""

    by: TableId
    what: str
    waits: bool = False


def refuse_touched(part: Group, context: ApplyContext) -> None:
    """Raise NeedsSlowWay for a change that concerns a set-aside row: the quick way applies none."""
    for touch in touches(part, context).values():
        raise NeedsSlowWay(context.tables[touch.by].table, f"a row is set aside, and a later change {touch.what}")


def touches(part: Group, context: ApplyContext) -> dict[int, Touch]:
    """Return the changes that concern set-aside rows, by order. Costs nothing where no row is set aside."""
    found: dict[int, Touch] = {}
    if not context.watches:
        return found
    for table, images in part.images.items():
        for watch in context.watches.get(table, ()):
            for order, moves in concerned(images, context.tables[table].table, watch):
                if order not in found or found[order].waits:  # the stricter touch counts
                    found[order] = _touch(watch, moves)
    for order, target in part.truncates:
        for watch in context.watches.get(target.source, ()):
            if watch.side in (Side.ROW, Side.LEAVES):
                found[order] = Touch(watch.by, "empties its table, or one that it refers to")
    hidden = _hidden(context) if part.changes else {}
    for change in part.changes:
        by = hidden.get(change.rule.child.source)
        if by is not None:
            found[change.order] = Touch(by, "reaches its table by cascades")
    return found


def _touch(watch: Watch, moves: bool) -> Touch:
    is_row = watch.side is Side.ROW
    return Touch(watch.by, "gives it another key" if moves else watch.side.value, is_row and not moves)


def _hidden(context: ApplyContext) -> dict[TableId, TableId]:
    """Return child tables whose own cascades reach a table with set-aside rows without being seen, and that table.
    Children that reach it directly are found by values."""
    by = {watch.by for watches in context.watches.values() for watch in watches}
    found: dict[TableId, TableId] = {}
    for child in {rule.child.source for rule in context.cascades}:
        further = set().union(*(changed_with(rule.child.source, context) for rule in context.references.get(child, ())))
        if not by.isdisjoint(further):
            found[child] = min(by & further)
    return found


def parks(touch: Touch, where: Where) -> RowRefused:
    """Return the error that parks the table."""
    return RowRefused(
        f"a row of {touch.by} is set aside, and a change {touch.what}",
        table=str(touch.by),
        position=where.position,
        hint=HINT,
    )


# --- what may be set aside --------------------------------------------------------------------------------------------


def unfit(step: Disputable, context: ApplyContext, states: Mapping[TableId, TableState], is_first: bool) -> str:
    """Say why a change may not be set aside (`is_first`), or may not wait behind another change of its row; "" where it
    may."""
    change, table = step.change, step.change.table.source
    aside = context.tables[table].aside
    assert aside is not None
    known = {source: Known(followed.schema, followed.table) for source, followed in context.tables.items()}
    found = links(table, known)
    is_whole = change.operation == DELETE or change.values.keys() | step.unconverted.keys() >= set(change.table.columns)
    waits_behind_load = not is_first and is_whole and states[table].is_loading
    if (waits := _not_streaming(table, states)) is not None and not waits_behind_load:
        return f"{waits}{'' if waits == table else ', which foreign keys connect with it,'} is not streaming"
    if is_first and (why := next((link.why for link in found if link.why), "")):
        return why
    if is_first and context.keys is not None and table in context.keys.ranks:
        return "foreign keys of the target act on it"
    if step.ahead or step.follow or step.may_be_gone:
        return "foreign keys of the source change other rows with it"
    if any(change.values.get(name, value) != value for name, value in change.old_key.items()):
        return "it gives the row another key"
    linked = {name for link in found for name in link.own}
    if not linked.isdisjoint(step.unconverted):
        return "it is a column of a unique or foreign key"
    if not linked <= row_of(change).keys():
        return "the log's image of the row lacks columns of unique or foreign keys"
    if len(aside.changes) >= aside.limit:
        return f"{aside.limit:,} changes of its table are set aside already (set_aside_limit)"
    return ""


def _not_streaming(table: TableId, states: Mapping[TableId, TableState]) -> TableId | None:
    """Return the table, or one that foreign keys connect it with, that does not stream: not every change of it is seen.
    None if all stream."""
    schemas = {one: state.schema for one, state in states.items() if state.schema}
    return next((one for one in sorted(component([table], schemas)) if not states[one].is_streaming), None)


def row_of(change: RowChange) -> dict[str, str | None]:
    """Return the row before the change; for an insert, the new row."""
    return {**change.before, **change.old_key} if change.operation != INSERT else dict(change.values)
