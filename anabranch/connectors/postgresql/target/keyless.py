"""Tables without a key: finding exactly as many of equal rows as asked, by one hash join over all columns (K28).

Rows are equal when every value reads the same. Types whose `=` is that are compared by it; all others, also those that
have no equality at all (json, xml, point), by their text. NULL equals NULL, written as a comparison of one-element
arrays: unlike IS NOT DISTINCT FROM that can be hashed.
https://www.postgresql.org/docs/current/functions-array.html · https://www.postgresql.org/docs/current/ddl-system-columns.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.errors import MEANINGS
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

# types whose hashable = tells apart what their text tells apart (for numeric: at one scale)
EXACT = frozenset(
    {"bool", "int2", "int4", "int8", "oid", "date", "timestamp", "timestamptz", "bytea", "uuid", "numeric"}
)

# (type, declared not null) of every column
COLUMNS = """
SELECT a.attname, t.typname, a.attnotnull, a.atttypmod
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""

# Rows of the target that equal a staged row, numbered among themselves; tableoid for partitioned tables.
REMOVE = sql.SQL("""
DELETE FROM {target} AS t USING (
SELECT t.tableoid AS part, t.ctid AS place, -s.delta AS wanted, row_number() OVER (PARTITION BY s.ctid) AS nth
  FROM {target} AS t JOIN {stage} AS s ON {same} WHERE s.delta < 0
) AS found WHERE t.ctid = found.place AND t.tableoid = found.part AND found.nth <= found.wanted
""")
REPLACE = sql.SQL("""
UPDATE {target} AS t SET {sets} FROM (
SELECT t.tableoid AS part, t.ctid AS place FROM {target} AS t JOIN {stage} AS s ON {same} LIMIT 1
) AS found WHERE t.ctid = found.place AND t.tableoid = found.part
""")


# However wrong the planner's estimate of what was staged just now is, the target is read twice at most. A nested loop would
# read it once per staged row, and a merge join sorts all of it by every column (seen: 5 s for 300,000 rows, hashed 1.3 s).
# https://www.postgresql.org/docs/current/runtime-config-query.html#RUNTIME-CONFIG-QUERY-ENABLE
HASHED = "SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off"
AS_BEFORE = "SET LOCAL enable_nestloop TO DEFAULT; SET LOCAL enable_mergejoin TO DEFAULT"


def remove(connection: Connection, statement: sql.Composed) -> int:
    """Carry out a REMOVE: how many rows are gone."""
    connection.execute(HASHED)
    done = connection.execute(statement).rowcount
    connection.execute(AS_BEFORE)  # after an error the rollback does
    return done


def readable_columns(connection: Connection, table: TargetTable) -> dict[str, tuple[bool, bool]]:
    """Return per column: may it be compared by `=`, and is it never NULL. Raises TargetError where one that we write is
    gone.
    """
    rows = connection.execute(COLUMNS, [table.target.schema, table.target.name]).fetchall()
    found = {
        name: (type in EXACT and (type != "numeric" or modifier >= 0), not_null)
        for name, type, not_null, modifier in rows
    }
    if gone := [name for name in table.columns if name not in found]:
        state = "42703" if found else "42P01"
        what = f"{table.target} has no column {gone[0]}" if found else f"there is no table {table.target}"
        raise TargetError(f"{what} any more", hint=MEANINGS[state].hint, table=str(table.source))
    return found


def match(names: Sequence[str], columns: Mapping[str, tuple[bool, bool]]) -> sql.Composed:
    """Return the condition under which target row `t` equals staged row `s` (its values are v0, v1, …)."""
    return sql.SQL(" AND ").join(_equal(name, f"v{i}", *columns[name]) for i, name in enumerate(names))


def _equal(name: str, place: str, exact: bool, not_null: bool) -> sql.Composed:
    cell = "{}" if exact else '{}::text COLLATE "C"'
    side = cell if not_null else f"ARRAY[{cell}]"
    return sql.SQL(f"{side} = {side}").format(sql.Identifier("t", name), sql.Identifier("s", place))


def insert_copies(table: TargetTable, names: Sequence[str], stage: TableId) -> sql.Composed:
    """Insert each staged row as often as its delta says."""
    places = sql.SQL(", ").join(sql.Identifier("s", f"v{i}") for i in range(len(names)))
    query = sql.SQL(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE"
        " SELECT {} FROM {} AS s CROSS JOIN LATERAL generate_series(1, s.delta) WHERE s.delta > 0"
    )
    return query.format(table_name(table.target), column_list(tuple(names)), places, table_name(stage))
