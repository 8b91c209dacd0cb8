"""Refusals of changes to a table that both ends write (K23), which would let a row get older, or the ends differ.

Both jobs of a pair keep of two rows with one key the one that is newer by a column. That makes both ends equal, in any order
and any batching, as long as each write of a row makes it newer, and no row comes to a key that another one has left. A delete
stands for the version that it has removed, and is decided alone. A change that does not raise the column, a changed key and a
TRUNCATE are refused: in the quick way by giving way to the slow one, there with the row's key. What does not live here: which
of two rows stays (`conflict.py`), older rows that come behind a delete (`pair_deletes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.images import Images
from anabranch.contracts import Conflict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.chunk import Op
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.lines import texts
from anabranch.rows.net import DELETE, INSERT, Cascade, RowChange, TargetTable

ALONE = "a delete of a row of a pair is decided alone"
DELETED = 'delete of a row of a pair, and [pair] deletes = "refuse": mark rows as deleted by a column'
CASCADES = (
    "delete of a row of a pair, whose children the source's foreign keys change without logging it: delete them first"
)
MOVED = "a row of a pair gets another key: nobody could tell whether the other site has changed it"
TRUNCATED = "TRUNCATE of a table of a pair: nobody could tell which rows of the other site it is to remove"
DIGITS = 100  # no column has as many


def older(column: str) -> str:
    """Say that a change has not raised the column by which the newest row is told."""
    return f"update of a row of a pair that does not make {column} greater: the newest row could not be told by it"


def refuse_unfit(images: Images, table: TargetTable, policy: ConflictPolicy) -> None:
    """Raise NeedsSlowWay unless these images are inserts, and whole updates that keep the key and make the column greater, of
    a table without columns that are added up: what to write into those depends on the row that is there. So does the fate of
    a row that is deleted."""
    column = policy.newest_by
    if not images.is_full:
        raise NeedsSlowWay(table, "a partial image of a row of a pair")
    if (images.op == Op.DELETE).any():
        raise NeedsSlowWay(table, ALONE)
    after = np.flatnonzero(images.op == Op.AFTER)
    if not len(after):
        return
    if policy.delta:
        raise NeedsSlowWay(table, f"{', '.join(policy.delta)} is added up")
    for name in table.key:
        of = images.rows.column(name)
        if not pc.all(pc.equal(_at(of, after - 1), _at(of, after))).as_py():
            raise NeedsSlowWay(table, MOVED)
    of = images.rows.column(column)
    if not _rises(table, column, _at(of, after - 1), _at(of, after)):
        raise NeedsSlowWay(table, older(column))


def refuse_change(change: RowChange, policy: ConflictPolicy) -> None:
    """Raise Conflict for a change that a table of a pair may not have."""
    what, column = "", policy.newest_by
    if change.operation == DELETE:
        if not policy.deletes:
            what = DELETED
    elif change.operation != INSERT:
        if any(change.values.get(name, value) != value for name, value in change.old_key.items()):
            what = MOVED
        elif not is_greater(change.before.get(column), change.values.get(column)):
            what = older(column)
    if what:
        raise Conflict(change.table.source, f"{change.table.target}: {what}", dict(change.old_key))


def added_up(change: RowChange, policy: ConflictPolicy, there: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the sums of a change and the row that is `there`: of an update what it adds, of an insert the whole of its value,
    since the row there began with a value of its own. The change must have passed `refuse_change`. Raises Conflict for a
    NULL, which has no sum."""
    found = dict[str, str | None]()
    for name in policy.delta:
        before = "0" if change.operation == INSERT else change.before.get(name)
        after, now = change.values.get(name, before), there.get(name)
        if before is None or after is None or now is None:
            what = f"{change.operation} in {change.table.target}: {name} is added up, and is NULL"
            raise Conflict(change.table.source, what, dict(change.old_key))
        with localcontext(prec=DIGITS):
            found[name] = f"{Decimal(now) + Decimal(after) - Decimal(before):f}"
    return found


def refuse_cascades(change: RowChange, policy: ConflictPolicy, cascades: Collection[Cascade]) -> None:
    """Raise Conflict for a delete whose children change with it: nobody could tell which of them are newer."""
    if policy.pair and change.operation == DELETE and cascades:
        raise Conflict(change.table.source, f"{change.table.target}: {CASCADES}", dict(change.old_key))


def refuse_truncates(truncates: Sequence[tuple[int, TargetTable]], context: ApplyContext) -> None:
    """Raise NeedsSlowWay for a table of a pair among those that are emptied."""
    for _, table in truncates:
        if _in_pair(table, context):
            raise NeedsSlowWay(table, TRUNCATED)


def refuse_emptied(tables: Iterable[TargetTable], context: ApplyContext) -> None:
    """Raise Conflict for a table of a pair among those that one statement empties."""
    for table in tables:
        if _in_pair(table, context):
            raise Conflict(table.source, TRUNCATED)


def is_greater(before: str | None, after: str | None) -> bool:
    """Return whether a number, a date or a time is greater than before, both in text form (rows/lines.py); NULL is not."""
    if before is None or after is None or "BC" in before + after:  # those go backwards
        return False
    try:
        return Decimal(after) > Decimal(before)
    except InvalidOperation:
        return _sortable(after) > _sortable(before)


def is_same(one: str | None, other: str | None) -> bool:
    """Return whether two numbers, both in text form, are one value."""
    return one == other or (one is not None and other is not None and Decimal(one) == Decimal(other))


def greater_than(table: TargetTable, column: str, value: str, key: Mapping[str, str | None]) -> str:
    """Return the next greater value of a number, a date or a time, all in text form. Raises Conflict where there is none."""
    type = table.type_of(column)
    try:
        with localcontext(prec=DIGITS):
            if type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT):
                return _later(value, type)
            greater = Decimal(value) + Decimal(1).scaleb(-type.scale if type.kind is Kind.DECIMAL else 0)
        if greater > _greatest(type):
            raise ValueError(value)
        return f"{greater:f}"
    except (ValueError, OverflowError, InvalidOperation):
        what = f"{table.target}: there is no {column} greater than {value}, by which the row of the site that wins could stay"
        raise Conflict(table.source, what, dict(key)) from None


def _later(text: str, type: LogicalType) -> str:
    zone = "+00" if text.endswith("+00") else ""
    if type.kind is Kind.DATE:
        return (date.fromisoformat(text) + timedelta(days=1)).isoformat()
    step = timedelta(microseconds=10 ** (6 - min(type.fraction, 6)))
    return (datetime.fromisoformat(text.removesuffix("+00")) + step).isoformat(" ", "microseconds") + zone


def _greatest(type: LogicalType) -> int | Decimal:
    if type.kind is Kind.DECIMAL:
        return Decimal("9" * type.precision).scaleb(-type.scale) if type.precision else Decimal("Infinity")
    bits = int(type.kind.value.lstrip("uint"))
    return (1 << bits if type.kind.value.startswith("u") else 1 << bits - 1) - 1


def _sortable(text: str) -> tuple[int, str, str]:
    """Return what sorts as the date or the time does, infinities outermost."""
    if text in ("infinity", "-infinity"):
        return (1 if text == "infinity" else -1), "", ""
    whole, _, fraction = text.removesuffix("+00").partition(".")
    return 0, whole.zfill(24), fraction.rstrip("0")


def _in_pair(table: TargetTable, context: ApplyContext) -> bool:
    followed = context.tables.get(table.source)
    return followed is not None and followed.on_conflict.pair


def _at(column: pa.ChunkedArray, places: Collection[int]) -> pa.ChunkedArray:
    return column.take(pa.array(places))


def _rises(table: TargetTable, name: str, before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Return whether each value is greater than the one before."""
    kind = before.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return bool(pc.all(pc.fill_null(pc.greater(after, before), False)).as_py())
    type = table.type_of(name)
    pairs = zip(texts(type, before).to_pylist(), texts(type, after).to_pylist(), strict=True)
    return all(is_greater(old, new) for old, new in pairs)
