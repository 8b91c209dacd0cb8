"""Updates of rows that take unique values, or keys, from each other (K8): all of them leave the table, then all arrive.

One statement: its DELETEs return whole rows as the target has them, with the new values where the change sets some, and
its INSERT puts them back. So columns that the image does not carry, columns of the target's own and identity values stay;
and what the target takes for equal (collations, expressions, conditions, exclusion, NULLs) is its own affair. That no row
arrives before the last has left does not hang on a plan: the rows that are inserted are asked for under the condition
that as many have left as are staged, and to know that the server has to carry out every DELETE first.
https://www.postgresql.org/docs/current/queries-with.html#QUERIES-WITH-MODIFYING

Where a row that leaves would take others along, because foreign keys refer to it and act in this session, it stays: its
unique values are parked as NULL, then set. Where triggers would see that, or nothing can be parked, it is a conflict, and
the rows go one by one as the source changed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target.merge import Stage, carry_out, on_old_key
from anabranch.connectors.postgresql.target.unique import UniqueKey, unique_keys
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece
from anabranch.contracts import Conflict
from anabranch.rows.net import TargetTable

Staged = tuple[MergePiece, Stage, int]  # an update, the table that holds its rows, their number
CANNOT_PARK = (
    "rows hand unique values on to each other, and foreign keys or triggers at the target do not let them be removed"
    " meanwhile"
)

# Columns that may be written; may rows leave (nothing refers to them in a way that this session checks, and they come back
# into the table where they were: a child by inheritance has columns of its own); does no trigger (28: of INSERT, DELETE or
# UPDATE) or rule react, by the session's role:
# https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-DESC-DISABLE-ENABLE-TRIGGER
FACTS = """
WITH session AS (SELECT current_setting('session_replication_role') = 'replica' AS is_replica),
     firing AS (SELECT CASE WHEN is_replica THEN '{R,A}' ELSE '{O,A}' END::"char"[] AS states FROM session)
SELECT ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute
              WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum),
       (is_replica OR NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = c.oid))
       AND NOT (c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = c.oid)),
       NOT EXISTS (SELECT FROM pg_catalog.pg_trigger, firing
                    WHERE tgrelid = c.oid AND NOT tgisinternal AND tgtype::int & 28 <> 0 AND tgenabled = ANY (states))
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite, firing WHERE ev_class = c.oid AND ev_enabled = ANY (states))
  FROM pg_catalog.pg_class c, session WHERE c.oid = to_regclass(%s)
"""


def exchange(connection: Connection, parts: Sequence[Staged], prepare: bool) -> None:
    """Carry out updates of one table that contend. Raises Conflict; psycopg errors pass."""
    table = parts[0][0].table
    columns, may_leave, is_quiet = _facts(connection, table)
    if not is_quiet:
        raise Conflict(table.source, CANNOT_PARK)
    if not may_leave:
        _in_place(connection, table, parts)
        return
    leave = [_leave(table, stage, columns, _sets(piece), on_old_key(piece)) for piece, stage, _ in parts]
    staged = [sql.SQL("(SELECT count(*) FROM {})").format(table_name(stage)) for _, stage, _ in parts]
    statement = _exchange(table, columns, leave, sql.SQL("= ") + sql.SQL(" + ").join(staged))
    rows, done = sum(number for _, _, number in parts), connection.execute(statement, prepare=prepare).rowcount
    if done != rows:
        raise Conflict(table.source, f"expected {rows} updates, not as many rows were found")


def hand_on(
    connection: Connection, table: TargetTable, stage: Stage, sets: Mapping[str, sql.Composable], where: sql.Composable
) -> bool:
    """Exchange the rows that `where` finds beside staged ones. Returns False where rows may not leave; then nothing was
    done.
    """
    columns, may_leave, is_quiet = _facts(connection, table)
    if may_leave and is_quiet:
        connection.execute(_exchange(table, columns, [_leave(table, stage, columns, sets, where)], sql.SQL(">= 0")))
    return may_leave and is_quiet


def _facts(connection: Connection, table: TargetTable) -> tuple[Sequence[str], bool, bool]:
    name = table_name(table.target)
    connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE").format(name))  # its columns stay as they are
    found = connection.execute(FACTS, [name.as_string(connection)], prepare=True).fetchone()
    columns, may_leave, is_quiet = found or ((), False, False)
    return columns, may_leave, is_quiet


def _exchange(
    table: TargetTable, columns: Sequence[str], leave: Sequence[sql.Composed], expected: sql.Composable
) -> sql.Composed:
    """Return the statement. `expected` is about the number of rows that have left."""
    names = [sql.Identifier(f"left_{number}") for number in range(len(leave))]
    return sql.SQL("WITH {} INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT * FROM ({}) AS rows WHERE {} {}").format(
        sql.SQL(", ").join(sql.SQL("{} AS ({})").format(*pair) for pair in zip(names, leave, strict=True)),
        table_name(table.target),
        column_list(tuple(columns)),
        sql.SQL(" UNION ALL ").join(sql.SQL("SELECT * FROM {}").format(name) for name in names),
        sql.SQL(" + ").join(sql.SQL("(SELECT count(*) FROM {})").format(name) for name in names),
        expected,
    )


def _leave(
    table: TargetTable,
    stage: Stage,
    columns: Sequence[str],
    sets: Mapping[str, sql.Composable],
    where: sql.Composable,
) -> sql.Composed:
    values = (
        sql.SQL("{} AS {}").format(sets.get(name, sql.Identifier("t", name)), sql.Identifier(f"c{place}"))
        for place, name in enumerate(columns)
    )
    return sql.SQL("DELETE FROM {} AS t USING {} AS s WHERE {} RETURNING {}").format(
        table_name(table.target), table_name(stage), where, sql.SQL(", ").join(values)
    )


def _sets(piece: MergePiece) -> dict[str, sql.Composable]:
    return {name: sql.Identifier("s", f"v{place}") for place, name in enumerate(piece.values)}


# --- rows that stay ---------------------------------------------------------------------------------------------------


def park(connection: Connection, piece: MergePiece, stage: Stage, keys: Sequence[UniqueKey]) -> None:
    """Let the rows of an update, or of a delete that comes later, hold no unique value meanwhile. Raises Conflict where
    that cannot be: keys that move, columns that may not be NULL, values that others refer to."""
    names = _parking(piece, keys)
    if piece.moves or names is None:
        raise Conflict(piece.table.source, CANNOT_PARK)
    if names:
        nothing = (sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in sorted(names))
        query = sql.SQL("UPDATE {} AS t SET {} FROM {} AS s WHERE {}")
        where = on_old_key(piece)
        connection.execute(
            query.format(table_name(piece.table.target), sql.SQL(", ").join(nothing), table_name(stage), where)
        )


def _parking(piece: MergePiece, keys: Sequence[UniqueKey]) -> frozenset[str] | None:
    """Return the columns that are NULL meanwhile; for an update only those that it sets again. None: there are not enough."""
    if piece.action is not MergeAction.DELETE:
        touched = [key for key in keys if key.columns.intersection(piece.values)]
        parking = [key.parking.intersection(piece.values) for key in touched]
    else:
        parking = [key.parking for key in keys]
    return frozenset().union(*parking) if all(parking) else None


def _in_place(connection: Connection, table: TargetTable, parts: Sequence[Staged]) -> None:
    keys = unique_keys(connection, [table.target]).get(table.target, [])
    for piece, stage, _ in parts:
        park(connection, piece, stage, keys)
    for piece, stage, rows in parts:
        carry_out(connection, piece, stage, rows, prepare=False)
