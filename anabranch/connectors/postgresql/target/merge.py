"""A net change as pieces of rows that stand in a staging table, and the statements that merge a piece into its target.

The statements are the same whether the committing connection staged the rows itself (`apply.py`) or an executor did
(`stage.py`). A staging table takes its columns' types from the target table, so that the server reads every value
exactly as it would for the target. What does not live here: connections, transactions, updates that contend (`exchange.py`),
cascades (`cascade.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target import keyless
from anabranch.connectors.postgresql.target.keyless import REMOVE, insert_copies, match, readable_columns
from anabranch.connectors.postgresql.target.swallowed_rows import UPSERT, reason, switches
from anabranch.connectors.sql.merge_pieces import (
    NUMBER,
    TEXT,
    MergeAction,
    MergePiece,
    StageColumn,
    Texts,
    counted_rows,
    keyed_pieces,
    whole_rows,
)
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.rows.net import TableNet, TargetTable

CHAIN = "a key moves to where another one moves away, inside the load's window"


Stage = TableId  # a staging table


def pieces(net: TableNet) -> Iterator[tuple[MergePiece, list[Any]]]:
    """Yield the pieces of a net change in the order in which they are merged, each with its columns' arrays."""
    yield from keyed_pieces(net)
    if found := counted_rows(net):
        names, arrays = found
        yield whole_rows(net.table, names), arrays


# --- staging tables ---------------------------------------------------------------------------------------------------

OWN_TYPES = {TEXT: sql.SQL("NULL::text"), NUMBER: sql.SQL("0::bigint")}


def create_stage(
    head: sql.SQL, stage: sql.Composable, options: sql.SQL, piece: MergePiece, extra: Sequence[StageColumn] = ()
) -> Any:
    """Return CREATE TABLE AS, without rows: the target's own types with their lengths and precisions, and no constraint."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(
            sql.Identifier("t", column.like) if column.like else OWN_TYPES[column.type], sql.Identifier(column.name)
        )
        for column in (*piece.columns, *extra)
    )
    query = sql.SQL("{} {} {} AS SELECT {} FROM {} AS t WITH NO DATA")
    return query.format(head, stage, options, columns, table_name(piece.table.target))


def copy_into(table: TableId, names: Sequence[str]) -> sql.Composed:
    return sql.SQL("COPY {} ({}) FROM STDIN").format(table_name(table), column_list(tuple(names)))


# --- merging ----------------------------------------------------------------------------------------------------------


def carry_out(connection: Connection, piece: MergePiece, stage: Stage, rows: int, prepare: bool) -> list[Texts]:
    """Merge a piece of `rows` rows that stand in `stage`. Returns keys to read again. Raises Conflict; psycopg errors
    pass."""
    if piece.action is MergeAction.MULTISET:
        _merge_multiset(connection, piece, stage)
        return []
    if not piece.checked and piece.moves:
        _refuse_chains(connection, piece, stage)
    done = 0
    for statement, counted in _statements(piece, stage):
        done = connection.execute(statement, prepare=prepare).rowcount
        if counted and done != rows:
            raise Conflict(piece.table.source, f"expected {rows} {piece.action}s, found {done}")
    again = _missing(connection, piece, stage) if piece.action is MergeAction.UPDATE and not piece.checked else []
    if not piece.checked and (piece.moves or done + len(again) < rows):
        _refuse_left_out(connection, piece, stage, rows - done - len(again))
    return again


def _refuse_left_out(connection: Connection, piece: MergePiece, stage: Stage, short: int) -> None:
    """Raise Conflict if a trigger left rows out. Rows without a counterpart alone are no reason: only where such a
    trigger fires is searched for them.
    """
    events = {MergeAction.INSERT: UPSERT, MergeAction.UPDATE: ("update", "delete")}.get(piece.action, ("delete",))
    found = switches(connection, piece.table.target, *events)
    if found and _is_left_out(connection, piece, stage, short > 0):
        raise Conflict(piece.table.source, reason(piece.table.target, found))


def _is_left_out(connection: Connection, piece: MergePiece, stage: Stage, is_short: bool) -> bool:
    """Return whether staged rows were left out.

    Then a row of a delete, or of a move, is still at its old place; a row of an insert without values beside its key is
    missing; for all others the count tells.
    """
    target, staged = table_name(piece.table.target), table_name(stage)
    values = set(piece.values) - set(piece.table.key)
    if piece.action is MergeAction.DELETE or piece.moves:
        query = sql.SQL("SELECT FROM {} AS t JOIN {} AS s ON {} LIMIT 1").format(target, staged, on_old_key(piece))
        return connection.execute(query).rowcount > 0 or bool(piece.moves and values and is_short)
    if piece.action is MergeAction.INSERT and not values:
        absent = sql.SQL("SELECT FROM {} AS s WHERE NOT EXISTS (SELECT FROM {} AS t WHERE {}) LIMIT 1")
        return connection.execute(absent.format(staged, target, _on_key(piece, _new_key(piece)))).rowcount > 0
    return is_short


@lru_cache(maxsize=1024)
def _statements(piece: MergePiece, stage: Stage) -> tuple[tuple[bytes, bool], ...]:
    """Return the statements that merge a piece, and whether the count of each is the number of rows."""
    if piece.action is MergeAction.DELETE:
        found = [(_delete(piece, stage), piece.checked)]
    elif piece.action is MergeAction.INSERT:
        found = [(_insert(piece, stage), piece.checked)]
    elif piece.checked or not piece.moves:
        found = [(_update_rows(piece, stage, piece.values, _old_key(piece)), piece.checked)]
    else:
        found = [(statement, False) for statement in _moves_in_window(piece, stage)]
    return tuple((statement.as_bytes(), counted) for statement, counted in found)


def _delete(piece: MergePiece, stage: Stage) -> sql.Composed:
    query = sql.SQL("DELETE FROM {} AS t USING {} AS s WHERE {}")
    return query.format(table_name(piece.table.target), table_name(stage), _on_key(piece, _old_key(piece)))


def _insert(piece: MergePiece, stage: Stage) -> sql.Composed:
    """Return the insert. If not checked, the row that has the key takes the new values."""
    query = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS s").format(
        table_name(piece.table.target),
        column_list(piece.values),
        _places("s", "v", len(piece.values)),
        table_name(stage),
    )
    return query if piece.checked else query + upsert(piece.table, piece.values)


def upsert(table: TargetTable, names: Sequence[str]) -> sql.Composed:
    """Return ON CONFLICT … for an insert that replaces the row with its key."""
    sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in names if n not in table.key]
    action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(sets)) if sets else sql.SQL("NOTHING")
    return sql.SQL(" ON CONFLICT ({}) DO {}").format(column_list(table.key), action)


def _update_rows(piece: MergePiece, stage: Stage, names: Sequence[str], keys: Sequence[sql.Composable]) -> sql.Composed:
    """Set `names` in the rows whose key is `keys`."""
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Identifier("s", f"v{piece.values.index(name)}"))
        for name in names
    )
    query = sql.SQL("UPDATE {} AS t SET {} FROM {} AS s WHERE {}")
    return query.format(table_name(piece.table.target), sets, table_name(stage), _on_key(piece, keys))


def _moves_in_window(piece: MergePiece, stage: Stage) -> Iterator[sql.Composed]:
    """Yield statements for rows that move while their table is loaded (K3): the load may have read them at the old
    place, the new one, both or neither.

    Move those of the old place only, remove old ones whose new one is there, then set values at the new place.
    """
    free = sql.SQL(" AND NOT EXISTS (SELECT FROM {} AS t WHERE {})").format(
        table_name(piece.table.target), _on_key(piece, _new_key(piece))
    )
    yield _update_rows(piece, stage, piece.values, _old_key(piece)) + free
    yield _delete(piece, stage)
    rest = [name for name in piece.values if name not in piece.table.key]
    if rest:
        yield _update_rows(piece, stage, rest, _new_key(piece))


def _refuse_chains(connection: Connection, piece: MergePiece, stage: Stage) -> None:
    """Raise Conflict for a key that one row leaves and another takes: in a window only the rows' own order tells which
    is which.
    """
    pairs = zip(_new_key(piece), range(len(piece.table.key)), strict=True)
    same = sql.SQL(" AND ").join(sql.SQL("{} = {}").format(new, sql.Identifier("o", f"k{i}")) for new, i in pairs)
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} AS s JOIN {} AS o ON {})").format(
        table_name(stage), table_name(stage), same
    )
    row = connection.execute(query).fetchone()
    if row and row[0]:
        raise Conflict(piece.table.source, CHAIN)


def _missing(connection: Connection, piece: MergePiece, stage: Stage) -> list[Texts]:
    """Return keys of updated rows that are not there."""
    query = sql.SQL("SELECT {} FROM {} AS s WHERE NOT EXISTS (SELECT FROM {} AS t WHERE {})").format(
        _places("s", "t", len(piece.table.key)),
        table_name(stage),
        table_name(piece.table.target),
        _on_key(piece, _new_key(piece)),
    )
    return [dict(zip(piece.table.key, row, strict=True)) for row in connection.execute(query)]


def _old_key(piece: MergePiece) -> list[sql.Composable]:
    return [sql.Identifier("s", f"k{i}") for i in range(len(piece.table.key))]


def _new_key(piece: MergePiece) -> list[sql.Composable]:
    """Return the key after an update."""
    places = {name: f"v{i}" for i, name in enumerate(piece.values)}
    return [sql.Identifier("s", places.get(name, f"k{i}")) for i, name in enumerate(piece.table.key)]


def on_old_key(piece: MergePiece) -> sql.Composed:
    """Return the condition under which target row `t` is the one that staged row `s` is about."""
    return _on_key(piece, _old_key(piece))


def _on_key(piece: MergePiece, keys: Sequence[sql.Composable]) -> sql.Composed:
    pairs = zip(piece.table.key, keys, strict=True)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier("t", name), place) for name, place in pairs)


def _places(alias: str, prefix: str, count: int) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, f"{prefix}{i}") for i in range(count))


# --- tables without a key ---------------------------------------------------------------------------------------------


def _merge_multiset(connection: Connection, piece: MergePiece, stage: Stage) -> None:
    """Remove first, then insert: as many of equal rows as asked, each exactly once (K28)."""
    query = sql.SQL(
        "SELECT coalesce(-sum(delta) FILTER (WHERE delta < 0), 0), coalesce(sum(delta) FILTER (WHERE delta > 0), 0)"
    )
    row = connection.execute(query + sql.SQL(" FROM {}").format(table_name(stage))).fetchone()
    wanted, coming = (int(row[0]), int(row[1])) if row else (0, 0)
    if wanted:
        same = match(piece.values, readable_columns(connection, piece.table))
        statement = REMOVE.format(target=table_name(piece.table.target), stage=table_name(stage), same=same)
        done = keyless.remove(connection, statement)
        if done != wanted:
            raise _other_count(connection, piece, "delete", wanted, done)
    done = connection.execute(insert_copies(piece.table, piece.values, stage)).rowcount
    if done != coming:
        raise _other_count(connection, piece, "insert", coming, done)


def _other_count(connection: Connection, piece: MergePiece, event: str, wanted: int, done: int) -> Conflict:
    """Name the trigger that may be the reason: there is no slower way in which the row would be found."""
    found = switches(connection, piece.table.target, event)
    why = f"; {reason(piece.table.target, found)}" if found else ""
    return Conflict(piece.table.source, f"expected {wanted} {event}s of whole rows, found {done}{why}")
