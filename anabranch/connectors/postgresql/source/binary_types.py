"""Columns of a source that can be read in binary form (binary_values.py): the server says what their types are.

https://www.postgresql.org/docs/current/protocol-logical-replication.html#PROTOCOL-LOGICAL-REPLICATION-PARAMS (binary)
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.binary_values import DOMAIN_READERS, READERS, Reader, text
from anabranch.model.ids import TableId

BINARY = 140_000  # from here on pgoutput has the option
_NUMERIC = 1700
# The type that a domain is made of, and the modifier that the innermost domain with one gives it.
_BASE = """
WITH RECURSIVE base AS (
  SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, %s::int AS modifier, false AS is_domain
    FROM pg_catalog.pg_type t WHERE t.oid = %s::oid
  UNION ALL
  SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod,
         CASE WHEN b.typtypmod >= 0 THEN b.typtypmod ELSE b.modifier END, true
    FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
SELECT oid::bigint, modifier, is_domain, typtype::text FROM base WHERE typtype <> 'd'
"""
_COLUMNS = """
SELECT a.attname::text, a.atttypid::bigint, a.atttypmod FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
   AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
"""


def reader(connection: Connection, oid: int, modifier: int) -> Reader | None:
    """Return the reader of a type's binary form; None where only its text is read.

    That is every type that is not the server's own, and numbers without a precision, a few bytes of which may be a text
    of any size.
    """
    row = connection.execute(_BASE, [modifier, oid]).fetchone()
    if row is None:
        return None
    base, modifier, is_domain, kind = row
    if kind == "e":
        return text  # a label
    if base == _NUMERIC and modifier < 0:
        return None
    return (DOMAIN_READERS if is_domain else READERS).get(base)


def columns(connection: Connection, tables: Collection[TableId]) -> list[tuple[str, int, int]]:
    """Return names, types and modifiers of all columns of these tables, without generated ones."""
    named = [table.schema for table in tables], [table.name for table in tables]
    return list(connection.execute(_COLUMNS, named).fetchall())
