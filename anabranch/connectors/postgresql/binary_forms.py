"""The columns whose rows may go from one PostgreSQL to another as COPY's binary form, without decoding: a table of types.

A type is in it where its send and receive functions have had one form from release 11 on, which says all that the value is.
All others make their table travel as text:

| type | because |
|---|---|
| `money` | it is sent in the smallest unit of the server's `lc_monetary`: another locale takes it for another amount |
| `xml` | it is sent with an encoding in its declaration, which stays in the value |
| `reg…` types | an oid is sent, which means something else in another database; the text is a name |
| composite types | oids of the types inside are sent, which a database of another history has otherwise |
| arrays of enums, domains, extensions' types | the same, of the element |
| types of extensions (hstore, citext, geometry, vector) | the form is a matter of the extension's version |
| multiranges, jsonpath, `"char"`, xid, tid, snapshots | not proven |

What does not live here: reading and writing streams (snapshot.py, load.py). The stream's own form:
https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

_SCALARS = """
bool int2 int4 int8 oid float4 float8 numeric text varchar bpchar name bytea uuid date time timetz timestamp timestamptz
json jsonb inet cidr macaddr macaddr8 bit varbit point lseg box path polygon circle line tsvector tsquery pg_lsn
"""
_RANGES = "int4range int8range numrange tsrange tstzrange daterange"
# From this version on the largest interval is infinity: before, the same bytes are a finite one.
# https://www.postgresql.org/docs/release/17.0/
_INFINITE = 170_000
_FIXED = 10_000  # oids below are given by hand and stay: src/include/access/transam.h, FirstGenbkiObjectId
ENUM, DOMAIN = "e", "d"
_NAME = "postgresql binary"

# A domain is sent as what it is of, and received with its own checks. Labels of an enum are sent as their text.
_TYPES = b"""
WITH RECURSIVE found AS (
  SELECT w.place, a.attname::text AS name, a.atttypid AS type
    FROM unnest(%s::text[]) WITH ORDINALITY AS w(name, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = pg_catalog.to_regclass(w.name)
   WHERE a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT f.place, f.name, t.typbasetype FROM found f JOIN pg_catalog.pg_type t ON t.oid = f.type WHERE t.typtype = 'd')
SELECT f.place::int, f.name, t.oid::bigint, t.typname::text, t.typtype::text
  FROM found f JOIN pg_catalog.pg_type t ON t.oid = f.type WHERE t.typtype <> 'd'
"""


def binary_forms(connection: Connection, tables: Sequence[tuple[TableId, Sequence[str]]]) -> list[str]:
    """Return, for each table with its copied columns, the form of its rows by the types that it has now.

    "" where there is none, or the table or a column is missing. Raises psycopg.Error.
    """
    names = [table_name(table).as_string(None) for table, _ in tables]
    found = defaultdict[int, dict[str, str]](dict)
    for place, column, oid, name, kind in connection.execute(_TYPES, [names]).fetchall():
        found[place - 1][column] = _form(oid, name, kind, connection.info.server_version)
    return [_joined([found[place].get(name, "") for name in columns]) for place, (_, columns) in enumerate(tables)]


def _form(oid: int, name: str, kind: str, version: int) -> str:
    if kind == ENUM:
        return "enum"
    element = name.removeprefix("_")
    if oid >= _FIXED:
        return ""
    if element == "interval":
        return name + " with infinity" * (version >= _INFINITE)
    return name if element in _SCALARS.split() or name in _RANGES.split() else ""


def _joined(forms: Sequence[str]) -> str:
    return f"{_NAME}: {', '.join(forms)}" if forms and all(forms) else ""
