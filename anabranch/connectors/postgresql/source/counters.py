"""Sequences of a PostgreSQL source: how far it has counted, with what its sessions have taken into their caches.

https://www.postgresql.org/docs/current/sql-createsequence.html#SQL-CREATESEQUENCE-NOTES (CACHE)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.contracts import Counter
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

# A column's own sequence, of an identity or OWNED BY, and else the one that its default names (an automatic dependency).
_SEQUENCES: LiteralString = """
SELECT n.nspname::text, c.relname::text, a.attname::text, sn.nspname::text, s.relname::text, q.seqincrement, q.seqstart
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
  JOIN pg_catalog.pg_depend r
    ON r.classid = 'pg_class'::regclass AND r.refclassid = 'pg_class'::regclass
       AND r.refobjid = c.oid AND r.refobjsubid = a.attnum AND r.deptype IN ('a', 'i')
       OR r.classid = 'pg_attrdef'::regclass AND r.objid = d.oid AND r.refclassid = 'pg_class'::regclass
       AND r.deptype = 'n'
  JOIN pg_catalog.pg_class s
    ON s.relkind = 'S' AND s.oid = CASE r.classid WHEN 'pg_class'::regclass THEN r.objid ELSE r.refobjid END
  JOIN pg_catalog.pg_namespace sn ON sn.oid = s.relnamespace
  JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.oid
 GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
_LAST: LiteralString = "SELECT last_value, is_called FROM {}"


def counters(endpoint: Endpoint, tables: Mapping[TableId, TableSchema]) -> list[Counter]:
    with open_session(endpoint) as connection, translated("read the sequences of the source"):
        names = [table.schema for table in tables], [table.name for table in tables]
        found = []
        for schema, name, column, *sequence, step, start in connection.execute(_SEQUENCES, names).fetchall():
            last, is_called = connection.execute(sql.SQL(_LAST).format(sql.Identifier(*sequence))).fetchall()[0]
            given, each = given_last(last, is_called, step, start), _each_second(connection, sequence, last)
            found.append(Counter(TableId(schema, name), column, given, step, last, *each))
    return found


def _each_second(connection: Connection, sequence: Sequence[str], last: int) -> tuple[str, str]:
    """Return the statements after which a sequence gives odd numbers, and even ones, all behind `last`."""
    name = sql.Identifier(*sequence).as_string(connection)
    odd, even = last + 1 + last % 2, last + 2 - last % 2
    return (
        f"ALTER SEQUENCE {name} INCREMENT BY 2 RESTART WITH {odd}",
        f"ALTER SEQUENCE {name} INCREMENT BY 2 RESTART WITH {even}",
    )


def given_last(last: int, is_called: bool, step: int, start: int) -> int | None:
    """Return the number that a sequence has given last, None where it gave none. One that was set to go on elsewhere
    (ALTER SEQUENCE … RESTART WITH) counts as if it had given the number before that."""
    if is_called:
        return last
    return None if last == start else last - step
