"""Rows one by one: the slow way, where the row that cannot be applied is found and named, and net changes of so few rows
that a staging table costs more than they do.

Values are sent as text without a type and read by the server as the column's own. What does not live here: many rows
(`merge.py`), translation of errors (`apply.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target.keyless import REMOVE, REPLACE, match, readable_columns
from anabranch.connectors.postgresql.target.merge import CHAIN, Stage, copy_into, upsert
from anabranch.connectors.postgresql.target.staging import StagingTables
from anabranch.connectors.postgresql.target.swallowed_rows import UPSERT, reason, switches
from anabranch.connectors.sql.merge_pieces import NUMBER, MergeAction, MergePiece, StageColumn, Texts
from anabranch.connectors.sql.single_rows import named_key, refuse_other_than_one
from anabranch.contracts import Conflict
from anabranch.rows.lines import escaped_line, texts
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable

Names = tuple[str, ...]


def change(connection: Connection, stages: StagingTables, row: RowChange, nul: str) -> bool:
    """Carry out one change, and return whether it found a row. Raises Conflict where a checked one does not hit exactly
    one; psycopg errors pass."""
    keyless = not row.table.key and row.operation != INSERT
    found = _keyless(connection, stages, row, nul) if keyless else _keyed(connection, row, nul)
    if not found:
        _refuse_left_out(connection, [row], nul)
    refuse_other_than_one(row, found)
    return bool(found)


def _refuse_left_out(connection: Connection, missed: Sequence[RowChange], nul: str) -> None:
    """Raise Conflict for the first change that a trigger has left out: its row is there, or should be by now.

    `missed`: changes that hit no row. Asks for triggers first: in a load's window rows may well be missing.
    """
    row = missed[0]
    found = switches(connection, row.table.target, *(UPSERT if row.operation == INSERT else (row.operation,)))
    left = next((row for row in missed if _should_have_hit(connection, row, nul)), None) if found else None
    if left is not None:
        raise Conflict(
            left.table.source,
            f"{left.operation} in {left.table.target}: {reason(left.table.target, found)}",
            named_key(left),
        )


def _should_have_hit(connection: Connection, row: RowChange, nul: str) -> bool:
    """Return whether a change had to hit a row.

    An insert always has, except one without values beside its key, whose row may be there already; any other if its row
    is there. For a table without a key `_keyless` tells.
    """
    if not row.table.key:
        return row.operation == INSERT
    there = _run(connection, _exists(row.table), nul, _ordered(row.table, named_key(row))) > 0
    if row.operation != INSERT:
        return there
    return not there or not set(row.values) <= set(row.table.key)


def merge_few(connection: Connection, piece: MergePiece, arrays: Sequence[Any], nul: str) -> list[Texts]:
    """Merge a piece of a net change with a statement for each row. Returns keys to read again. Raises Conflict; psycopg
    errors pass.
    """
    columns = [texts(c.type, a).to_pylist() for c, a in zip(piece.columns, arrays, strict=True)]
    rows = list(zip(*columns, strict=True))
    changes = (_change(piece, row) for row in rows)
    if piece.moves:
        return _merge_moves(connection, piece, list(changes), nul)
    counts = _run_all(connection, _statement(piece), _parameters(piece, rows), nul)
    again = []
    made = list(changes)
    if missed := [change for change, found in zip(made, counts, strict=True) if not found]:
        _refuse_left_out(connection, missed, nul)
    for change, found in zip(made, counts, strict=True):
        refuse_other_than_one(change, found)
        again += [dict(change.old_key)] if not found and change.operation == UPDATE else []
    return again


def _merge_moves(connection: Connection, piece: MergePiece, changes: Sequence[RowChange], nul: str) -> list[Texts]:
    again = []
    if not piece.checked:
        _refuse_chains(changes)
    for change in changes:
        found = _keyed(connection, change, nul)
        if not found:
            _refuse_left_out(connection, [change], nul)
        refuse_other_than_one(change, found)
        if not found:
            again.append({**change.old_key, **{n: change.values[n] for n in change.old_key if n in change.values}})
    return again


_OPERATIONS = {MergeAction.DELETE: DELETE, MergeAction.UPDATE: UPDATE, MergeAction.INSERT: INSERT}


def _change(piece: MergePiece, row: Sequence[str | None]) -> RowChange:
    """Return a row of a piece as a single change."""
    table, width = piece.table, _key_width(piece)
    old, values = dict(zip(table.key, row[:width], strict=False)), dict(zip(piece.values, row[width:], strict=False))
    return RowChange(table, _OPERATIONS[piece.action], old, values, checked=piece.checked)


def _key_width(piece: MergePiece) -> int:
    return 0 if piece.action is MergeAction.INSERT else len(piece.table.key)


def _statement(piece: MergePiece) -> bytes:
    """Return the statement that all rows of a piece share."""
    if piece.action is MergeAction.INSERT:
        return _insert(piece.table, piece.values, piece.checked)
    return _delete(piece.table) if piece.action is MergeAction.DELETE else _update(piece.table, piece.values)


def _parameters(piece: MergePiece, rows: Sequence[Sequence[str | None]]) -> list[Sequence[str | None]]:
    """Return the parameters for each row: new values, then the key."""
    width, end = _key_width(piece), _key_width(piece) + len(piece.values)
    return [(*row[width:end], *row[:width]) for row in rows]


def _run_all(
    connection: Connection, statement: bytes, parameters: Sequence[Sequence[str | None]], nul: str
) -> list[int]:
    """Run a statement for each row; all are sent before the first answer is waited for. Returns how many rows each has hit."""
    if nul == "strip":
        parameters = [[value and value.replace("\0", "") for value in values] for values in parameters]
    with connection.cursor() as cursor:
        cursor.executemany(statement, parameters, returning=True)
        counts = [cursor.rowcount]
        while cursor.nextset():
            counts.append(cursor.rowcount)
    return counts


def _refuse_chains(rows: Sequence[RowChange]) -> None:
    """Raise Conflict for a chain of keys, as merge.py does for many rows."""
    left = {tuple(row.old_key.values()) for row in rows}
    for row in rows:
        if tuple(row.values.get(name, value) for name, value in row.old_key.items()) in left:
            raise Conflict(row.table.source, CHAIN)


def _keyed(connection: Connection, row: RowChange, nul: str) -> int:
    """Carry out a change of a table with a key, or any insert. Returns how many rows it has hit."""
    if row.operation == INSERT:
        return _run(connection, _insert(row.table, tuple(row.values), row.checked), nul, row.values)
    if row.operation == DELETE:
        return _run(connection, _delete(row.table), nul, _ordered(row.table, row.old_key))
    return _update_row(connection, row, nul)


def _run(connection: Connection, statement: bytes, nul: str, *rows: Texts) -> int:
    values = [value for row in rows for value in row.values()]
    if nul == "strip":
        values = [value and value.replace("\0", "") for value in values]
    return connection.execute(statement, values).rowcount


def _update_row(connection: Connection, row: RowChange, nul: str) -> int:
    """Update a row. If not checked, a row that moves may be at its new place already (K3): then the old one is removed,
    the new one is set.
    """
    sets, here = dict(row.values), _ordered(row.table, row.old_key)
    moved = {name: value for name, value in sets.items() if name in here and value != here[name]}
    if not moved:
        sets = {name: value for name, value in sets.items() if name not in here} or dict(here)
    elif not row.checked:
        there = {**here, **moved}
        if _run(connection, _exists(row.table), nul, there):
            if not _run(connection, _delete(row.table), nul, here):
                _refuse_left_out(connection, [RowChange(row.table, DELETE, here, checked=False)], nul)
            here = there
            sets = {name: value for name, value in sets.items() if name not in here} or dict(here)
    return _run(connection, _update(row.table, tuple(sets)), nul, sets, here)


def _keyless(connection: Connection, stages: StagingTables, row: RowChange, nul: str) -> int:
    """Change exactly one of the rows that equal `old_values`."""
    table, names = row.table, tuple(row.old_values)
    columns = (*(StageColumn(f"v{i}", table.type_of(n), n) for i, n in enumerate(names)), StageColumn("delta", NUMBER))
    piece = MergePiece(table, MergeAction.MULTISET, columns, names)
    with stages.empty(piece) as stage:
        _stage_one(connection, stage, piece, row.old_values, nul)
        same = match(names, readable_columns(connection, table))
        target = table_name(table.target)
        parts = {"target": target, "stage": table_name(stage), "same": same}
        if row.operation == DELETE:
            done = connection.execute(REMOVE.format(**parts)).rowcount
        else:
            sets = _equals(tuple(row.values), ", ")
            done = _run(connection, _with_values(REPLACE.format(**parts, sets=sets)), nul, row.values)
        if not done and (found := switches(connection, table.target, row.operation)):
            query = sql.SQL("SELECT FROM {target} AS t JOIN {stage} AS s ON {same} LIMIT 1").format(**parts)
            if connection.execute(query).rowcount > 0:
                raise Conflict(table.source, f"{row.operation} in {table.target}: {reason(table.target, found)}")
        return done


def _stage_one(connection: Connection, stage: Stage, piece: MergePiece, values: Texts, nul: str) -> None:
    line = escaped_line([*values.values(), "-1"])
    with connection.cursor() as cursor, cursor.copy(copy_into(stage, [c.name for c in piece.columns])) as copy:
        copy.write(line.replace(b"\0", b"") if nul == "strip" else line)


def _ordered(table: TargetTable, values: Texts) -> Texts:
    """Return a key's values in the order of the statements' conditions."""
    return {name: values[name] for name in table.key}


# --- statements, by table and columns ---------------------------------------------------------------------------------

VALUE = sql.SQL("\0")  # stands for a parameter until names with a percent sign are safe


@lru_cache(maxsize=1024)
def _insert(table: TargetTable, names: Names, checked: bool) -> bytes:
    query = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
        table_name(table.target), column_list(names), sql.SQL(", ").join([VALUE] * len(names))
    )
    return _with_values(query if checked or not table.key else query + upsert(table, names))


@lru_cache(maxsize=1024)
def _update(table: TargetTable, names: Names) -> bytes:
    query = sql.SQL("UPDATE {} SET {} WHERE {}")
    return _with_values(query.format(table_name(table.target), _equals(names, ", "), _equals(table.key, " AND ")))


@lru_cache(maxsize=1024)
def _delete(table: TargetTable) -> bytes:
    query = sql.SQL("DELETE FROM {} WHERE {}")
    return _with_values(query.format(table_name(table.target), _equals(table.key, " AND ")))


@lru_cache(maxsize=1024)
def _exists(table: TargetTable) -> bytes:
    query = sql.SQL("SELECT FROM {} WHERE {}")
    return _with_values(query.format(table_name(table.target), _equals(table.key, " AND ")))


def _equals(names: Names, separator: str) -> sql.Composed:
    return sql.SQL(separator).join(sql.SQL("{} = {}").format(sql.Identifier(name), VALUE) for name in names)


def _with_values(query: sql.Composed) -> bytes:
    return query.as_bytes().replace(b"%", b"%%").replace(b"\0", b"%s")
