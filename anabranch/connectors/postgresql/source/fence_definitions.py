"""Compare replicated tables of a fenced PostgreSQL with what they were: no trigger fires where DDL drops, renames, rewrites or
alters one, and neither rows nor the fence's triggers tell of it.

What does not live here: the triggers (fence.py).
https://www.postgresql.org/docs/current/catalog-pg-class.html · https://www.postgresql.org/docs/current/catalog-pg-attribute.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from anabranch.connectors.postgresql.connection import Connection

KEY = "definitions"  # in what a cut-over notes before its fence
# Of each table: oid, name, the file of its rows (another one when it was rewritten), a digest of its columns. The labels of an
# enum belong to it: ALTER TYPE … RENAME VALUE changes what every row says.
DEFINITIONS: LiteralString = """
SELECT c.oid::text, format('%%I.%%I', n.nspname, c.relname), c.relfilenode::text,
       coalesce(md5(string_agg(concat_ws(' ', a.attnum, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
           (SELECT string_agg(quote_literal(e.enumlabel), ',' ORDER BY e.enumsortorder)
              FROM pg_catalog.pg_enum e WHERE e.enumtypid = a.atttypid)), E'\\n' ORDER BY a.attnum)), '')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.oid = ANY (%s::oid[])
 GROUP BY c.oid, n.nspname, c.relname, c.relfilenode
"""


def definitions(connection: Connection, oids: Sequence[int | str]) -> dict[str, list[str]]:
    """Return, by oid, the name of each table that is there, the file of its rows, and a digest of its columns."""
    rows = connection.execute(DEFINITIONS, [[int(oid) for oid in oids]]).fetchall()
    return {oid: facts for oid, *facts in rows}


def changes(connection: Connection, before: Mapping[str, Any]) -> list[str]:
    """Say which tables are not what `before` has noted of them."""
    noted: Mapping[str, Sequence[str]] = before.get(KEY, {})
    return compared(noted, definitions(connection, list(noted)) if noted else {})


def compared(noted: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> list[str]:
    """Say what is another at each table: one line of each, in the order of their names."""
    found = list[str]()
    for oid, (name, rows, columns) in sorted(noted.items(), key=lambda one: one[1][0]):
        if oid not in now:
            found.append(f"{name} was dropped, or made anew")
            continue
        its_name, its_rows, its_columns = now[oid]
        if its_name != name:
            found.append(f"{name} was renamed: {its_name}")
        elif its_columns != columns:
            found.append(f"columns of {name} were changed, or labels of their enums")
        elif its_rows != rows:
            found.append(f"{name} was rewritten (ALTER TABLE, TRUNCATE, VACUUM FULL, CLUSTER)")
    return found
