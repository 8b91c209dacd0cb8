"""Rows one by one: the slow way, where the row that cannot be applied is found and named, and net changes of so few rows
that a staging table costs more than they do.

Values are sent as literals of their columns' kinds (literals.py). What does not live here: many rows (`merge.py`),
translation of errors (`apply.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from anabranch.connectors.mysql.target import keyless
from anabranch.connectors.mysql.target.carrying import carry_out
from anabranch.connectors.mysql.target.known_columns import assigned
from anabranch.connectors.mysql.target.literals import Literals, comparable, run_each
from anabranch.connectors.mysql.target.load_data import insert
from anabranch.connectors.mysql.target.merge import DIGEST, Stage, delete, old_key, update
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_replaced_nulls, refuse_warnings, way_into
from anabranch.connectors.mysql.target.standing import depends_on_definition
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, Texts, keys, values, whole_rows
from anabranch.connectors.sql.single_rows import named_key, refuse_other_than_one
from anabranch.contracts import Conflict
from anabranch.rows.lines import escaped_line, texts
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable

Row = Sequence[str | None]


def change(stages: StagingTables, row: RowChange, nul: str) -> bool:
    """Carry out one change, and return whether it found a row. Raises Conflict where a checked one does not hit exactly
    one; driver errors pass."""
    known = stages.known.of(row.table.target)
    if row.operation == INSERT:
        found = _insert_one(stages, row, nul)
    elif not row.table.key:
        found = _keyless(stages, row, nul)
    elif comparable(known, row.table):
        found = _keyed(stages, row, nul)
    else:
        found = _staged(stages, row, nul)
    refuse_other_than_one(row, found)
    return bool(found)


class Statements:
    """The statements for single rows of one table."""

    def __init__(self, stages: StagingTables, table: TargetTable, nul: str) -> None:
        self.known = stages.known.of(table.target)
        self.table, self.sql = table, Literals(stages.connection, table, self.known, nul)
        self._name = table_name(table.target)

    @cached_property
    def depends_on_definition(self) -> bool:
        """True where values are written for columns as they were: such a table has to be looked at in each transaction."""
        return depends_on_definition(self.table)

    def insert(self, names: Sequence[str], rows: Sequence[Row]) -> str:
        lines = ", ".join(f"({', '.join(map(self.sql.value, names, row))})" for row in rows)
        return f"INSERT INTO {self._name} ({column_list(names)}) VALUES {lines}"

    def update(self, names: Sequence[str], row: Row, here: Row) -> str:
        sets = assigned(self.known, tuple(names), tuple(map(self.sql.value, names, row)))
        return f"UPDATE {self._name} SET {sets} WHERE {self.sql.key(here)}"

    def delete(self, *rows: Row) -> str:
        return f"DELETE FROM {self._name} WHERE {' OR '.join(f'({self.sql.key(row)})' for row in rows)}"

    def others(self, there: Row, here: Row) -> str:
        """Return a query for the row at one key: is it another one than that at the other key, to the target's collation?"""
        return f"SELECT NOT ({self.sql.key(here)}) FROM {self._name} WHERE {self.sql.key(there)} FOR UPDATE"


# --- a net change of few rows -----------------------------------------------------------------------------------------


def takes_few(stages: StagingTables, piece: MergePiece) -> bool:
    """Return whether rows of a piece can be found without a staging table. Rows that move in a load's window may take keys from
    each other which the target alone knows to be equal: it is asked, of staged rows (carrying.py)."""
    if piece.action is MergeAction.MULTISET or piece.newest_by or (piece.moves and not piece.checked):
        return False
    known = stages.known.of(piece.table.target)
    return (piece.action is MergeAction.INSERT and piece.checked) or comparable(known, piece.table)


def merge_few(stages: StagingTables, piece: MergePiece, arrays: Sequence[Any], nul: str) -> list[Texts]:
    """Merge a piece of a net change with literals. Returns keys to read again. Raises Conflict; driver errors pass."""
    columns = [texts(c.type, a).to_pylist() for c, a in zip(piece.columns, arrays, strict=True)]
    rows: list[Row] = list(zip(*columns, strict=True))
    statements, connection = Statements(stages, piece.table, nul), stages.connection
    if piece.action is MergeAction.DELETE:
        done = run(connection, statements.delete(*rows))
        if piece.checked and done != len(rows):
            raise Conflict(piece.table.source, f"expected {len(rows)} deletes, found {done}")
        return []
    if piece.action is MergeAction.INSERT:
        _insert_few(connection, statements, piece, rows)
        return []
    return _update_few(connection, statements, piece, rows)


def _insert_few(connection: Connection, statements: Statements, piece: MergePiece, rows: Sequence[Row]) -> None:
    """Insert rows; if not checked, the row that has the key takes the new values."""
    if not piece.checked:
        here = [_ordered(piece.table, dict(zip(piece.values, row, strict=True))) for row in rows]
        updates = [statements.update(piece.values, row, at) for row, at in zip(rows, here, strict=True)]
        found = run_each(connection, updates, piece.table.source)
        rows = [row for row, times in zip(rows, found, strict=True) if not times]
    if rows:
        done = run(connection, statements.insert(piece.values, rows))
        refuse_warnings(connection, piece.table.source)
        if done != len(rows):
            raise Conflict(piece.table.source, f"expected {len(rows)} inserts, found {done}")


def _update_few(connection: Connection, statements: Statements, piece: MergePiece, rows: Sequence[Row]) -> list[Texts]:
    table, width, end = piece.table, len(piece.table.key), len(piece.table.key) + len(piece.values)
    updates = [statements.update(piece.values, row[width:end], row[:width]) for row in rows]
    counts = run_each(connection, updates, table.source)
    missed = [dict(zip(table.key, row, strict=False)) for row, found in zip(rows, counts, strict=True) if found != 1]
    if piece.checked and missed:
        raise Conflict(table.source, f"update in {table.target}: the row is not there", missed[0])
    return missed


# --- one change -------------------------------------------------------------------------------------------------------


def _insert_one(stages: StagingTables, row: RowChange, nul: str) -> int:
    """Insert a row; if not checked, the one that has its key takes the new values."""
    statements, connection, names = Statements(stages, row.table, nul), stages.connection, tuple(row.values)
    if not row.checked and row.table.key:
        if not comparable(statements.known, row.table):
            return _staged(stages, row, nul)
        done = run(connection, statements.update(names, list(row.values.values()), _ordered(row.table, row.values)))
        refuse_warnings(connection, row.table.source, named_key(row))
        if done:
            return done
    done = run(connection, statements.insert(names, [list(row.values.values())]))
    refuse_warnings(connection, row.table.source, named_key(row))
    return done


def _keyed(stages: StagingTables, row: RowChange, nul: str) -> int:
    """Update or delete a row by its key. Returns how many rows it has hit.

    If not checked, a row that moves may be at its new place already (K3): then the old one is removed, the new one is set.
    """
    statements, connection, here = (
        Statements(stages, row.table, nul),
        stages.connection,
        _ordered(row.table, row.old_key),
    )
    if row.operation == DELETE:
        return run(connection, statements.delete(here))
    sets = dict(row.values)
    moved = {name: value for name, value in sets.items() if name in row.old_key and value != row.old_key[name]}
    if not moved:
        sets = {name: value for name, value in sets.items() if name not in row.old_key} or dict(row.old_key)
    elif not row.checked:
        there = _ordered(row.table, {**row.old_key, **moved})
        if any(is_another for (is_another,) in ask(connection, statements.others(there, here))):
            run(connection, statements.delete(here))
            here = there
            sets = {name: value for name, value in sets.items() if name not in row.old_key} or dict(moved)
    done = run(connection, statements.update(tuple(sets), list(sets.values()), here))
    refuse_warnings(connection, row.table.source, named_key(row))
    return done


def _staged(stages: StagingTables, row: RowChange, nul: str) -> int:
    """Carry out a change whose key no literal finds, by way of a staging table. Returns how many rows it has hit."""
    table, names = row.table, tuple(row.values) or row.table.key
    if row.operation == INSERT:
        piece = MergePiece(table, MergeAction.INSERT, values(table, names), names, checked=False)
        line = list(row.values.values())
    elif row.operation == DELETE:
        piece = MergePiece(table, MergeAction.DELETE, keys(table), checked=False)
        line = _ordered(table, row.old_key)
    else:
        piece = MergePiece(table, MergeAction.UPDATE, (*keys(table), *values(table, names)), names)
        line = [*_ordered(table, row.old_key), *(row.values.values() or _ordered(table, row.old_key))]
    with stages.empty(piece) as stage:
        _stage_one(stages, stage, piece, line, nul)
        refuse_replaced_nulls(stages, piece, stage, named_key(row))
        if row.operation == DELETE:
            return run(stages.connection, delete(piece, stage, old_key(piece)))
        if row.operation == UPDATE:
            done = run(stages.connection, update(stages.known.of(table.target), piece, stage, names, old_key(piece)))
            refuse_warnings(stages.connection, table.source, named_key(row))
            return done
        carry_out(stages, piece, stage, 1)
        return 1


def _keyless(stages: StagingTables, row: RowChange, nul: str) -> int:
    """Change exactly one of the rows that equal `old_values`."""
    table, names = row.table, tuple(row.old_values)
    piece, connection = whole_rows(table, names, DIGEST), stages.connection
    with stages.empty(piece) as stage:
        _stage_one(stages, stage, piece, [*row.old_values.values(), "-1", None], nul)
        statements = Statements(stages, table, nul)
        sets = None if row.operation == DELETE else {n: statements.sql.value(n, v) for n, v in row.values.items()}
        done = run(connection, keyless.one_row(statements.known, piece, stage, sets))
        refuse_warnings(connection, table.source)
        return done


def _stage_one(stages: StagingTables, stage: Stage, piece: MergePiece, row: Row, nul: str) -> None:
    line = escaped_line(row)
    sent = insert(
        stages.connection,
        way_into(stages.connection, stage, piece.columns),
        [line.replace(b"\0", b"") if nul == "strip" else line],
    )
    refuse_warnings(stages.connection, piece.table.source)
    if sent.rows != 1:
        raise Conflict(piece.table.source, "the server did not take a staged row")


def _ordered(table: TargetTable, row: dict[str, str | None]) -> list[str | None]:
    """Return a key's values in the key's order."""
    return [row[name] for name in table.key]
