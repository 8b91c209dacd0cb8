"""A net change as pieces of rows that stand in a staging table, and the statements that merge a piece into its target.

The statements are the same whether the committing connection staged the rows itself (`apply.py`) or an executor did
(`stage.py`). A staging table takes its columns' types and collations from the target table, so that the server reads and
compares every value exactly as it would there; it is read first, row by row, and the target by its key. What does not live
here: carrying a piece out (`carrying.py`), connections, transactions, updates that contend (`exchange.py`), tables
without a key (`keyless.py`), few rows (`onerow.py`), cascades (`cascade.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from anabranch.connectors.mysql.target.known_columns import KnownTable, assigned
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, quoted, table_name
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.lines import texts
from anabranch.rows.net import TableNet, TargetTable, Updates

Texts = dict[str, str | None]
TEXT, NUMBER = LogicalType(Kind.TEXT), LogicalType(Kind.INT64)
DELTA, DIGEST = "_delta", "digest"


class MergeAction(StrEnum):
    DELETE = "delete"
    UPDATE = "update"
    INSERT = "insert"
    MULTISET = "multiset"


@dataclass(frozen=True, slots=True)
class StageColumn:
    """A column of a staging table: of the type of target column `like`, or text or bigint of our own."""

    name: str
    type: LogicalType
    like: str = ""


@dataclass(frozen=True, slots=True)
class MergePiece:
    """A part of a net change, merged in one step.

    `k<i>` are the key columns as they are now, `v<i>` values of `values[i]`, `t<i>` the key under which an unchecked
    update's row is to be read again, in text form, `age` how new the change is by the target's column `newest_by`.
    Parts of a net change that contend go together (exchange.py).
    """

    table: TargetTable
    action: MergeAction
    columns: tuple[StageColumn, ...]
    values: tuple[str, ...] = ()
    checked: bool = True
    moves: bool = False
    contends: bool = False
    newest_by: str = ""


Stage = TableId  # a staging table


# --- a net change in pieces -------------------------------------------------------------------------------------------


def pieces(net: TableNet) -> Iterator[tuple[MergePiece, list[Any]]]:
    """Yield the pieces of a net change in the order in which they are merged, each with its columns' arrays."""
    if net.deletes is not None and net.deletes.num_rows:
        columns, ages = _ages(net, net.ages)
        piece = MergePiece(
            net.table, MergeAction.DELETE, (*keys(net.table), *columns), checked=net.checked, newest_by=net.newest_by
        )
        yield piece, [*_arrays(net.deletes, net.table.key), *ages]
    for updates in sorted(net.updates, key=lambda one: (not one.contends, not one.moves_keys)):
        if updates.values.num_rows:
            yield _update(net, updates)
    if net.inserts is not None and net.inserts.num_rows:
        names = tuple(net.inserts.column_names)
        yield (
            MergePiece(net.table, MergeAction.INSERT, values(net.table, names), names, net.checked),
            _arrays(net.inserts, names),
        )
    if net.multiset is not None and net.multiset.num_rows:
        names = tuple(name for name in net.multiset.column_names if name != DELTA)
        digests = pa.nulls(net.multiset.num_rows, pa.int64())  # which the server makes
        yield whole_rows(net.table, names), [*_arrays(net.multiset, (*names, DELTA)), digests]


def whole_rows(table: TargetTable, names: tuple[str, ...]) -> MergePiece:
    """Return the piece that says how many of some rows come or go. `digest`: by which equal ones are found (keyless.py)."""
    columns = (*values(table, names), StageColumn("delta", NUMBER), StageColumn(DIGEST, NUMBER))
    return MergePiece(table, MergeAction.MULTISET, columns, names)


def _update(net: TableNet, updates: Updates) -> tuple[MergePiece, list[Any]]:
    """Build an update's piece. Key columns that keep their value are left out."""
    table, source = net.table, updates.values
    sets = tuple(name for name in source.column_names if updates.moves_keys or name not in table.key)
    if not sets:
        sets, source = table.key[:1], updates.old_keys
    columns = (*keys(table), *values(table, sets))
    arrays = _arrays(updates.old_keys, table.key) + _arrays(source, sets)
    if not net.checked:
        columns += tuple(StageColumn(f"t{i}", TEXT) for i in range(len(table.key)))
        arrays += _reread_keys(table, updates)
    age, ages = _ages(net, updates.ages)
    moves, contends = updates.moves_keys, updates.contends
    piece = MergePiece(table, MergeAction.UPDATE, (*columns, *age), sets, net.checked, moves, contends, net.newest_by)
    return piece, [*arrays, *ages]


def _ages(net: TableNet, ages: pa.ChunkedArray | None) -> tuple[tuple[StageColumn, ...], list[Any]]:
    """Return the column of a staging table that says how new a change is, and its values."""
    if ages is None:
        return (), []
    return (StageColumn("age", net.table.type_of(net.newest_by), net.newest_by),), [ages]


def _reread_keys(table: TargetTable, updates: Updates) -> list[Any]:
    """Return the keys that the rows have after the update, in text form."""
    moved = set(updates.values.column_names) if updates.moves_keys else set()
    places = [(updates.values if name in moved else updates.old_keys).column(name) for name in table.key]
    return [texts(table.type_of(name), place) for name, place in zip(table.key, places, strict=True)]


def keys(table: TargetTable) -> tuple[StageColumn, ...]:
    return tuple(StageColumn(f"k{i}", table.type_of(name), name) for i, name in enumerate(table.key))


def values(table: TargetTable, names: Sequence[str]) -> tuple[StageColumn, ...]:
    return tuple(StageColumn(f"v{i}", table.type_of(name), name) for i, name in enumerate(names))


def _arrays(rows: pa.Table, names: Sequence[str]) -> list[Any]:
    return [rows.column(name) for name in names]


# --- merging ----------------------------------------------------------------------------------------------------------


def statements(known: KnownTable, piece: MergePiece, stage: Stage) -> Iterator[tuple[str, bool]]:
    """Yield the statements that merge a piece, and whether the count of each is the number of rows."""
    if piece.action is MergeAction.DELETE:
        yield delete(piece, stage, old_key(piece)), piece.checked
    elif piece.action is MergeAction.INSERT:
        if not piece.checked:  # the row that has the key takes the new values, its spelling of the key among them
            yield update(known, piece, stage, piece.values, new_key(piece)), False
        yield _insert(piece, stage), piece.checked
    elif piece.checked or not piece.moves:
        yield update(known, piece, stage, piece.values, old_key(piece)), piece.checked
    else:
        yield from _moves_in_window(known, piece, stage)


def delete(piece: MergePiece, stage: Stage, places: Sequence[str], where: str = "") -> str:
    return f"DELETE t FROM {_joined(piece, stage, places)}{where}"


def update(known: KnownTable, piece: MergePiece, stage: Stage, names: Sequence[str], places: Sequence[str]) -> str:
    """Return the statement that sets `names` in the rows whose key is `places`. It counts rows as found."""
    sources = tuple(f"s.v{piece.values.index(name)}" for name in names)
    return f"UPDATE {_joined(piece, stage, places)} SET {assigned(known, tuple(names), sources, 't')}"


def _insert(piece: MergePiece, stage: Stage) -> str:
    """Return the insert; if not checked, of the rows whose key is not there yet."""
    absent = ""
    if not piece.checked:
        absent = f" WHERE NOT EXISTS (SELECT 1 FROM {_target(piece)} AS t WHERE {_on_key(piece, new_key(piece))})"
    return (
        f"INSERT INTO {_target(piece)} ({column_list(piece.values)})"
        f" SELECT {places('s', 'v', len(piece.values))} FROM {table_name(stage)} AS s{absent}"
    )


def _moves_in_window(known: KnownTable, piece: MergePiece, stage: Stage) -> Iterator[tuple[str, bool]]:
    """Yield statements for rows that move while their table is loaded (K3): the load may have read them at the old
    place, the new one, both or neither.

    Remove those of the old place whose new one is there, move the others, then set values at the new place. A key that is
    the same to the target's collation has not moved.
    """
    both = f" STRAIGHT_JOIN {_target(piece)} AS n ON {_on_key(piece, new_key(piece), 'n')}"
    yield delete(piece, stage, old_key(piece), f"{both} WHERE NOT ({_on_key(piece, new_key(piece))})"), False
    yield update(known, piece, stage, piece.values, old_key(piece)), False
    if rest := _beside_key(piece):
        yield update(known, piece, stage, rest, new_key(piece)), False


def missing(connection: Connection, piece: MergePiece, stage: Stage) -> list[Texts]:
    """Return keys of updated rows that are not there."""
    found = f"SELECT 1 FROM {_target(piece)} AS t WHERE {_on_key(piece, new_key(piece))}"
    columns = places("s", "t", len(piece.table.key))
    rows = ask(connection, f"SELECT {columns} FROM {table_name(stage)} AS s WHERE NOT EXISTS ({found})")
    return [dict(zip(piece.table.key, row, strict=True)) for row in rows]


# --- parts of statements ----------------------------------------------------------------------------------------------


def old_key(piece: MergePiece) -> list[str]:
    return [f"s.k{i}" for i in range(len(piece.table.key))]


def new_key(piece: MergePiece) -> list[str]:
    """Return the key after an update."""
    found = {name: f"v{i}" for i, name in enumerate(piece.values)}
    return [f"s.{found.get(name, f'k{i}')}" for i, name in enumerate(piece.table.key)]


def on_old_key(piece: MergePiece) -> str:
    """Return the condition under which target row `t` is the one that staged row `s` is about."""
    return _on_key(piece, old_key(piece))


def beside_target(table: TargetTable, stage: Stage, on: str) -> str:
    """Return the join of staged rows `s` with rows of the target `t`: each staged one is looked up there."""
    return f"{table_name(stage)} AS s STRAIGHT_JOIN {table_name(table.target)} AS t ON {on}"


def places(alias: str, prefix: str, count: int) -> str:
    return ", ".join(f"{alias}.{prefix}{i}" for i in range(count))


def _joined(piece: MergePiece, stage: Stage, key: Sequence[str]) -> str:
    return beside_target(piece.table, stage, _on_key(piece, key))


def _on_key(piece: MergePiece, key: Sequence[str], alias: str = "t") -> str:
    return " AND ".join(f"{alias}.{quoted(name)} = {place}" for name, place in zip(piece.table.key, key, strict=True))


def _target(piece: MergePiece) -> str:
    return table_name(piece.table.target)


def _beside_key(piece: MergePiece) -> list[str]:
    return [name for name in piece.values if name not in piece.table.key]
