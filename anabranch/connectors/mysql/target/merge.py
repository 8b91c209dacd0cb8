"""A net change as pieces of rows that stand in a staging table, and the statements that merge a piece into its target.

The statements are the same whether the committing connection staged the rows itself (`apply.py`) or an executor did
(`stage.py`). A staging table takes its columns' types and collations from the target table, so that the server reads and
compares every value exactly as it would there; it is read first, row by row, and the target by its key. What does not live
here: carrying a piece out (`carrying.py`), connections, transactions, updates that contend (`exchange.py`), tables
without a key (`keyless.py`), few rows (`single_rows.py`), cascades (`cascade.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from anabranch.connectors.mysql.target.known_columns import KnownTable, assigned
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, quoted, table_name
from anabranch.connectors.sql.merge_pieces import (
    NUMBER,
    MergeAction,
    MergePiece,
    StageColumn,
    Texts,
    counted_rows,
    keyed_pieces,
    whole_rows,
)
from anabranch.model.ids import TableId
from anabranch.rows.net import TableNet, TargetTable

DIGEST = StageColumn("digest", NUMBER)  # by which equal rows are found (keyless.py)


Stage = TableId  # a staging table
Part = tuple[MergePiece, Sequence[Any]]  # a piece and its columns


def pieces(net: TableNet) -> Iterator[tuple[MergePiece, list[Any]]]:
    """Yield the pieces of a net change in the order in which they are merged, each with its columns' arrays."""
    yield from keyed_pieces(net)
    if found := counted_rows(net):
        names, arrays = found
        yield (
            whole_rows(net.table, names, DIGEST),
            [*arrays, pa.nulls(len(arrays[0]), pa.int64())],
        )  # the server makes them


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
