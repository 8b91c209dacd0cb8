"""Updates of rows that take unique values, or keys, from each other (K8): all of them leave the table, then all arrive.

The server asks for each row whether its unique values are free, so no order helps where they go round. Changes that bring
every column of their rows replace them: the rows are removed by their keys, then inserted as they were sent (decision 219).
Where some bring less, the rows are put, whole, into a temporary table: as the target has them, with the new values where the
change sets some. Then they leave, then that table's rows come. So columns that the image does not carry, columns of the
target's own, numbers that it gave and times that would move by themselves stay; and what the target takes for equal ('a' and
'A', 'a' and 'a ') is its own affair, the spelling of a key that does not change among it.
https://dev.mysql.com/doc/refman/8.0/en/ansi-diff-foreign-keys.html

Where a row that leaves would take others along, because foreign keys refer to it and act in this session, it stays: its
unique values are parked as NULL, then set. Where triggers would see that, or nothing can be parked, it is a conflict, and
the rows go one by one as the source changed them. A server shows keys of those tables alone on which our user has a right, so
rows leave with keys off also where none refers to them that we see (decision 233).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from anabranch.connectors.mysql.target.carrying import carry_out
from anabranch.connectors.mysql.target.known_columns import KnownTable, assigned, has_triggers
from anabranch.connectors.mysql.target.merge import Part, Stage, beside_target, delete, old_key, on_old_key
from anabranch.connectors.mysql.target.session import (
    KEYS,
    Connection,
    ask,
    column_list,
    one,
    quoted,
    run,
    table_name,
)
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_warnings
from anabranch.connectors.mysql.target.unique import UniqueKey, unique_keys
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, StageColumn
from anabranch.contracts import Conflict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.net import TargetTable

Staged = tuple[MergePiece, Stage, int]  # an update, the table that holds its rows, their number
CANNOT_PARK = "rows hand unique values on, and foreign keys or triggers at the target forbid that they leave meanwhile"
# Types of which two values that are equal are the same: a key that does not change may be written as the change has it.
EXACT = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "date", "time", "datetime",
                   "timestamp", "binary", "varbinary"))  # fmt: skip
ANY = LogicalType(Kind.TEXT)  # the type of a column that is never sent
REFERRED = """
SELECT 1 FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s LIMIT 1
"""


def exchange(stages: StagingTables, parts: Sequence[Staged]) -> None:
    """Carry out updates of one table that contend. Raises Conflict; driver errors pass."""
    connection, table = stages.connection, parts[0][0].table
    stages.reading_in.contended(table.target, sum(number for _, _, number in parts))
    if has_triggers(connection, table.target):
        raise Conflict(table.source, CANNOT_PARK)
    if not may_leave(connection, table):
        _in_place(stages, table, parts)
        return
    if are_whole(stages, [piece for piece, _, _ in parts]):
        _replace(connection, parts)
        return
    known = stages.known.whole(table.target)
    whole = tuple(StageColumn(f"c{place}", ANY, name) for place, name in enumerate(known.written))
    with stages.empty(MergePiece(table, MergeAction.UPDATE, whole)) as held:
        came = sum(run(connection, _hold(known, piece, stage, held, whole)) for piece, stage, _ in parts)
        stages.holds(held, came)
        _leave(connection, parts, came)
        columns = column_list(column.name for column in whole)
        run(
            connection,
            f"INSERT INTO {table_name(table.target)} ({column_list(known.written)})"
            f" SELECT {columns} FROM {table_name(held)}",
        )
        refuse_warnings(connection, table.source)


def _leave(connection: Connection, parts: Sequence[Staged], came: int | None = None) -> None:
    """Remove the rows. Raises Conflict where they, or those put aside, are not as many as are staged."""
    rows = sum(number for _, _, number in parts)
    with leaving_alone(connection):
        left = sum(run(connection, delete(piece, stage, old_key(piece))) for piece, stage, _ in parts)
    if left != rows or came not in (None, rows):
        raise Conflict(parts[0][0].table.source, f"expected {rows} updates, not as many rows were found")


def may_leave(connection: Connection, table: TargetTable) -> bool:
    """Return whether nothing that we see refers to the table in a way that this session checks."""
    if not _asks_keys(connection):
        return True
    return not ask(connection, REFERRED, table.target.schema, table.target.name)


@contextmanager
def leaving_alone(connection: Connection) -> Iterator[None]:
    """Let rows that come back leave their table alone: a key of a table that our user cannot see would take rows along."""
    if not _asks_keys(connection):
        yield
        return
    run(connection, f"SET SESSION {KEYS} = 0")
    try:
        yield
    finally:
        if connection.open:
            run(connection, f"SET SESSION {KEYS} = 1")


def _asks_keys(connection: Connection) -> bool:
    return bool(int(one(connection, f"SELECT @@{KEYS}")))


# --- rows that are replaced -------------------------------------------------------------------------------------------


def are_whole(stages: StagingTables, pieces: Sequence[MergePiece]) -> bool:
    """Return whether these updates of one table bring every column that is written, so that no row has to be kept."""
    known = stages.known.whole(pieces[0].table.target)
    written = {name.lower() for name in known.written}
    return all(
        piece.checked
        and {name.lower() for name in _arriving(piece)} == written
        and (piece.moves or all(known.column(name).type in EXACT for name in piece.table.key))
        for piece in pieces
    )


def replaced(stages: StagingTables, parts: Sequence[Part]) -> Iterator[Part]:
    """Yield updates that contend as one removal, then as inserts of the same rows; nothing where it cannot be done so."""
    table, pieces = parts[0][0].table, [piece for piece, _ in parts]
    if not are_whole(stages, pieces) or has_triggers(stages.connection, table.target):
        return
    if may_leave(stages.connection, table):
        stages.reading_in.contended(table.target, sum(len(arrays[0]) for _, arrays in parts))
        yield _departure(parts)
        yield from (_arrival(*part) for part in parts)


def _departure(parts: Sequence[Part]) -> Part:
    """Return the removal of all rows by their keys, which knows how new each change is, too."""
    first = parts[0][0]
    by = list(range(len(first.table.key))) + [-1] * bool(first.newest_by)
    columns = tuple(first.columns[place] for place in by)
    gone = MergePiece(first.table, MergeAction.DELETE, columns, newest_by=first.newest_by)
    return gone, [_joined([arrays[at] for _, arrays in parts]) for at in by]


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _arrival(piece: MergePiece, arrays: Sequence[Any]) -> Part:
    """Return the insert of an update's rows, with the key that they keep where they do not move."""
    names = _arriving(piece)
    at = {name: place for place, name in enumerate(piece.table.key)}
    at |= {name: len(piece.table.key) + place for place, name in enumerate(piece.values)}
    chosen = [at[name] for name in names]
    types = [piece.columns[of].type for of in chosen]
    columns = tuple(StageColumn(f"v{place}", *pair) for place, pair in enumerate(zip(types, names, strict=True)))
    return MergePiece(piece.table, MergeAction.INSERT, columns, names), [arrays[place] for place in chosen]


def _arriving(piece: MergePiece) -> tuple[str, ...]:
    """Return the columns that a change brings, its key among them."""
    return (*(name for name in piece.table.key if name not in piece.values), *piece.values)


def _replace(connection: Connection, parts: Sequence[Staged]) -> None:
    """Let staged rows that are whole take the place of the target's."""
    _leave(connection, parts)
    for piece, stage, rows in parts:
        names, target = _arriving(piece), table_name(piece.table.target)
        staged = [*(f"k{i}" for i, name in enumerate(piece.table.key) if name not in piece.values)]
        staged += [f"v{i}" for i in range(len(piece.values))]
        columns = ", ".join(f"s.{name}" for name in staged)
        query = f"SELECT {columns} FROM {table_name(stage)} AS s"
        done = run(connection, f"INSERT INTO {target} ({column_list(names)}) {query}")
        refuse_warnings(connection, piece.table.source)
        if done != rows:
            raise Conflict(piece.table.source, f"expected {rows} updates, {done} rows came back")


# --- rows that are kept -----------------------------------------------------------------------------------------------


def _hold(known: KnownTable, piece: MergePiece, stage: Stage, held: Stage, whole: Sequence[StageColumn]) -> str:
    """Return the statement that puts the rows of a piece aside with their new values, under their locks."""
    sets = {name.lower(): f"s.v{place}" for place, name in enumerate(piece.values)}
    values = ", ".join(sets.get(name.lower(), f"t.{quoted(name)}") for name in known.written)
    columns = column_list(column.name for column in whole)
    joined = beside_target(piece.table, stage, on_old_key(piece))
    return f"INSERT INTO {table_name(held)} ({columns}) SELECT {values} FROM {joined} FOR UPDATE"


# --- rows that stay ---------------------------------------------------------------------------------------------------


def _in_place(stages: StagingTables, table: TargetTable, parts: Sequence[Staged]) -> None:
    keys = unique_keys(stages.connection, [table.target]).get(table.target, [])
    for piece, stage, _ in parts:
        _park(stages, piece, stage, keys)
    for piece, stage, rows in parts:
        carry_out(stages, piece, stage, rows)


def _park(stages: StagingTables, piece: MergePiece, stage: Stage, keys: Sequence[UniqueKey]) -> None:
    """Let the rows of an update hold no unique value meanwhile. Raises Conflict where that cannot be: keys that move, columns
    that may not be NULL, values that others refer to."""
    touched = [key for key in keys if key.columns.intersection(piece.values)]
    parking = [key.parking.intersection(piece.values) for key in touched]
    if piece.moves or not all(parking):
        raise Conflict(piece.table.source, CANNOT_PARK)
    if names := tuple(sorted(frozenset().union(*parking))):
        nothing = assigned(stages.known.of(piece.table.target), names, ("NULL",) * len(names), "t")
        run(stages.connection, f"UPDATE {beside_target(piece.table, stage, on_old_key(piece))} SET {nothing}")
