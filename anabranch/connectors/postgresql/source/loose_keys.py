"""Primary keys in which different texts may be equal: collations that are not deterministic, and citext.

https://www.postgresql.org/docs/current/collation.html#COLLATION-NONDETERMINISTIC (since version 12)
https://www.postgresql.org/docs/current/citext.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

# A domain has the collation of its column, and citext below it in pg_type.typbasetype.
_LOOSE: LiteralString = """
SELECT n.nspname::text, c.relname::text, a.attname::text,
       CASE WHEN 'citext' IN (t.typname, base.typname) THEN 'citext' ELSE l.collname::text END
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
  JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_type base ON base.oid = t.typbasetype
  LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
 WHERE 'citext' IN (t.typname, base.typname) OR to_jsonb(l) ->> 'collisdeterministic' = 'false'
"""


def loose_keys(endpoint: Endpoint, tables: Mapping[TableId, TableSchema]) -> dict[tuple[TableId, str], str]:
    """Return the columns of primary keys in which different texts may be equal, each with its collation or `citext`."""
    with open_session(endpoint) as connection, translated("read how the source compares keys"):
        names = [table.schema for table in tables], [table.name for table in tables]
        found = connection.execute(_LOOSE, names).fetchall()
    return {(TableId(schema, name), column): by for schema, name, column, by in found}
