"""Capture instances that come and go while a job runs, whatever database has them: marks for what the next epoch is to begin or
end, and the columns of a batch that each instance has.

Whoever makes an instance cannot say where it begins, since apply may commit meanwhile. So it is marked, and the writer that has
the checkpoint puts the place of its next epoch there, in that epoch: from then on it appends to it.
What does not live here: statements that differ (a database's `target/change_tables/`), rows (`appended.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.errors import StateError, TargetError
from anabranch.model.change_names import table_of_instance
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.appended import TableChanges
from anabranch.rows.change_table import same_values
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable

# In place of start_lsn: behind every place, so that no range of it is a good one.
NOT_MADE = b"\xff" * 10  # noted, and it is not certain that the table is there
BEGINS = b"\xff" * 9 + b"\xfe"  # with the next epoch
ENDS = BEGINS  # in place of end_lsn
KNOWN = "SELECT capture_instance, source_schema, source_table, start_lsn, end_lsn FROM cdc.change_tables"
COLUMNS = "SELECT capture_instance, column_name FROM cdc.captured_columns ORDER BY capture_instance, column_ordinal"
IS_MARKED = "SELECT 1 FROM cdc.change_tables WHERE start_lsn = %s OR end_lsn = %s LIMIT 1"  # BEGINS, ENDS
# Of to_settle. What is marked anew meanwhile is left for the next epoch.
SETTLE = """
UPDATE cdc.change_tables SET start_lsn = %s, end_lsn = %s
WHERE capture_instance = %s AND start_lsn = %s AND COALESCE(end_lsn, %s) = %s
"""
NO_END = NOT_MADE  # which no instance has for its end
MADE = (
    "UPDATE cdc.change_tables SET start_lsn = %s WHERE capture_instance = %s AND start_lsn = %s"  # BEGINS, _, NOT_MADE
)
KEPT = "UPDATE cdc.change_tables SET end_lsn = NULL WHERE capture_instance = %s AND end_lsn = %s"  # _, ENDS
TO_END = "UPDATE cdc.change_tables SET end_lsn = %s WHERE capture_instance = %s AND end_lsn IS NULL"  # ENDS
OTHER_NAME = "give it another name: [[tables]] instances"
GONE = LogicalType(Kind.TEXT)  # of a column that the table does not have any more: all of it is NULL

Wanted = tuple[TableSchema, TargetTable]


@dataclass(frozen=True, slots=True)
class Instance:
    """A capture instance as it is noted; `columns`: those that it has, by their names at the target."""

    name: str
    source: TableId
    start: bytes
    end: bytes | None
    columns: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """It has begun, and has not ended."""
        return self.start not in (NOT_MADE, BEGINS) and self.end in (None, ENDS)


def instances(known: Iterable[Sequence[Any]], columns: Iterable[Sequence[Any]] = ()) -> list[Instance]:
    """Return the instances that are noted, of the rows of KNOWN and COLUMNS."""
    of: dict[str, list[str]] = {}
    for name, column in columns:
        of.setdefault(str(name), []).append(str(column))
    return [
        Instance(
            str(name),
            TableId(str(schema), str(table)),
            bytes(start),
            None if end is None else bytes(end),
            tuple(of.get(str(name), ())),
        )
        for name, schema, table, start, end in known
    ]


def settled(known: Sequence[Instance], place: bytes) -> Iterator[Instance]:
    """Yield the instances of which a mark is due, as they are from `place` on. One of a table none of whose instances was open
    has ended as it begins: the table was parked meanwhile."""
    followed = {one.source for one in known if one.is_open}
    for one in known:
        ends = one.end == ENDS
        if one.start == BEGINS:
            yield replace(one, start=place, end=place if ends or one.source not in followed else one.end)
        elif ends:
            yield replace(one, start=place if one.start == NOT_MADE else one.start, end=place)


def to_settle(
    known: Sequence[Instance], place: bytes
) -> Iterator[tuple[bytes, bytes | None, str, bytes, bytes, bytes]]:
    """Yield the values of SETTLE for what is settled: what an instance is to have, and what it has."""
    now = {one.name: one for one in known}
    for one in settled(known, place):
        was = now[one.name]
        yield one.start, one.end, one.name, was.start, NO_END, was.end or NO_END


def ended(name: str, table: TableId | None = None) -> StateError:
    return StateError(f"capture instance {name} has ended", table=str(table) if table else None, hint=OTHER_NAME)


class ToFollow(NamedTuple):
    """Lists what to do: make the instances `new`, end those named in `ending`, and take back the mark of those named in `kept`,
    which a former call has marked as ending."""

    new: list[Wanted]
    ending: list[str]
    kept: list[str]


def to_follow(known: Sequence[Instance], tables: Sequence[Wanted]) -> ToFollow:
    """Return what is to be done so that these instances are there. One that has not been made is new, whatever is noted of it.
    Raises StateError for one that has ended and is wanted again: what is between is in no change table."""
    there = {table_of_instance(one.name): one for one in known}
    new, kept = [], []
    for schema, table in tables:
        one = there.get(table.target)
        if one is None or (one.start == NOT_MADE and one.end in (None, ENDS)):
            new.append((schema, table))
        elif one.source != table.source:
            what = f"capture instance {one.name} is one of {one.source}"
            raise StateError(what, table=str(table.source), hint=OTHER_NAME)
        elif one.end == ENDS:
            kept.append(one.name)
        elif one.end is not None:
            raise ended(one.name, table.source)
    wanted, sources = {table.target for _, table in tables}, {table.source for _, table in tables}
    ending = [
        one.name
        for one in known
        if one.source in sources and one.end is None and table_of_instance(one.name) not in wanted
    ]
    return ToFollow(new, ending, kept)


def by_source(known: Iterable[Instance]) -> Mapping[TableId, list[Instance]]:
    """Return the instances that changes come to, by the source's table."""
    found: dict[TableId, list[Instance]] = {}
    for one in known:
        if one.is_open:
            found.setdefault(one.source, []).append(one)
    return found


def refuse_again(known: Iterable[Instance], altered: AlteredTable) -> None:
    """Raise TargetError where a column comes whose name an instance has of one that went: its values would stand among those
    of the former one."""
    table = altered.table
    come = {
        table.columns[table.source_columns.index(one.name)] for one in altered.steps if isinstance(one, ColumnAdded)
    }
    for one in known:
        if again := sorted(come & {*one.columns}):
            what = f"capture instance {one.name} has a column {again[0]} of before, which went"
            raise TargetError(what, table=str(table.source))


def captured_by(instance: Instance, changes: TableChanges) -> TableChanges:
    """Return the changes that an instance has, with its columns: NULL where the table has one no more, and without updates in
    which none of them changed, where the table has others."""
    table, count = changes.table, len(changes.op)
    at = {name: place for place, name in enumerate(table.columns)}
    kept = [at.get(name) for name in instance.columns]
    shown = replace(
        table,
        target=table_of_instance(instance.name),
        columns=instance.columns,
        types=tuple(GONE if place is None else table.types[place] for place in kept),
        key=(),
        source_columns=(),
    )
    nothing = pa.nulls(count, pa.string())
    arrays = [nothing if place is None else changes.rows.column(place) for place in kept]
    presence = np.ones((len(changes.presence), len(kept)), dtype=np.bool_)
    for to, place in enumerate(kept):
        if place is not None:
            presence[:, to] = changes.presence[:, place]
    found = replace(
        changes, table=shown, presence=presence, rows=pa.Table.from_arrays(arrays, names=list(instance.columns))
    )
    return _without_untouched(found) if at.keys() - set(instance.columns) else found


def _without_untouched(changes: TableChanges) -> TableChanges:
    """Leave out both images of the updates in which no column has another value."""
    same = same_values(changes)
    if not same.any():
        return changes
    left = same | np.append(same[1:] & (changes.op[:-1] == Op.BEFORE), False)
    kept = np.flatnonzero(~left)
    return replace(
        changes,
        op=changes.op[kept],
        sequence=changes.sequence[kept],
        ordinal=changes.ordinal[kept],
        shape=changes.shape[kept],
        rows=changes.rows.take(pa.array(kept)),
    )
