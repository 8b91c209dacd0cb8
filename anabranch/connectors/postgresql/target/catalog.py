"""Objects that exist at the target: tables with columns, keys, constraints, triggers. Reads only, a few queries for any
number of tables.

What does not live here: judging it (preflight.py), changing it (load.py). Vendor facts:
https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

RELATION_KINDS = {"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table"}

WANTED: LiteralString = """
WITH wanted AS (
  SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind
    FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f'))
"""

TABLES: LiteralString = WANTED + "SELECT oid::bigint, schema, name, kind FROM wanted"

COLUMNS: LiteralString = (
    WANTED
    + """
SELECT w.oid::bigint, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.atthasdef OR a.attidentity <> '', a.attidentity::text, a.attgenerated::text
  FROM wanted w JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid
 WHERE a.attnum > 0 AND NOT a.attisdropped
 ORDER BY w.oid, a.attnum"""
)

INDEXES: LiteralString = (
    WANTED
    + """
SELECT w.oid::bigint,
       ARRAY(SELECT coalesce(a.attname::text, '')
               FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
               LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid AND a.attnum = k.attnum AND k.attnum > 0
              WHERE k.place <= x.indnkeyatts ORDER BY k.place),
       i.relname::text, x.indisunique, x.indisprimary, x.indisvalid, NOT x.indimmediate,
       x.indpred IS NOT NULL OR m.amname <> 'btree',
       EXISTS (SELECT FROM unnest(x.indoption::int2[]) AS o (flags) WHERE o.flags <> 0),
       pg_catalog.pg_get_indexdef(x.indexrelid),
       (SELECT conname::text FROM pg_catalog.pg_constraint
         WHERE conindid = x.indexrelid AND conrelid = w.oid AND contype IN ('p', 'u', 'x')),
       EXISTS (SELECT FROM pg_catalog.pg_constraint
                WHERE conindid = x.indexrelid AND conrelid = w.oid AND contype IN ('p', 'u', 'x') AND condeferred),
       i.relispartition
  FROM wanted w
  JOIN pg_catalog.pg_index x ON x.indrelid = w.oid
  JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_am m ON m.oid = i.relam
 ORDER BY w.oid, i.relname"""
)

# Keys have no index by the table that they refer to, what depends on a table has: all keys of a database are never gone
# through for one table. https://www.postgresql.org/docs/current/catalog-pg-depend.html
FOREIGN_KEYS: LiteralString = (
    WANTED
    + """
SELECT w.oid::bigint, k.conname::text, k.convalidated, pg_catalog.pg_get_constraintdef(k.oid),
       child.nspname::text, c.relname::text, k.conrelid = w.oid, k.confrelid = w.oid
  FROM wanted w
  CROSS JOIN LATERAL (
    SELECT own.oid FROM pg_catalog.pg_constraint own WHERE own.conrelid = w.oid
     UNION
    SELECT d.objid FROM pg_catalog.pg_depend d
     WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = w.oid
       AND d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass) AS near
  JOIN pg_catalog.pg_constraint k ON k.oid = near.oid AND k.contype = 'f' AND (k.conrelid = w.oid OR k.confrelid = w.oid)
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace child ON child.oid = c.relnamespace
 WHERE k.conparentid = 0
 ORDER BY w.oid, k.conname"""
)

TRIGGERS: LiteralString = (
    WANTED
    + """
SELECT w.oid::bigint, t.tgname::text, t.tgenabled::text
  FROM wanted w JOIN pg_catalog.pg_trigger t ON t.tgrelid = w.oid
 WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' ORDER BY w.oid, t.tgname"""
)


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    name: str
    type: str  # as format_type writes it, e.g. "timestamp(6) without time zone"
    not_null: bool
    has_default: bool
    identity: str  # "" | "a" (always) | "d" (by default)
    generated: str  # "" | "s" (stored) | "v" (virtual)


@dataclass(frozen=True, slots=True)
class ExistingIndex:
    """`columns` has "" for an expression; `special` = partial, or not a btree; `ordered` = not ascending with NULLs
    last in every column; `constraint` names the primary key or unique constraint that it serves, `deferred`: to the end of
    transactions, unless they say otherwise."""

    columns: tuple[str, ...]
    name: str
    unique: bool
    primary: bool
    valid: bool
    deferrable: bool
    special: bool
    ordered: bool
    definition: str
    constraint: str | None
    deferred: bool = False
    of_whole: bool = False  # it is the part of an index of a partitioned table


@dataclass(frozen=True, slots=True)
class ExistingForeignKey:
    """`definition` is what follows ADD CONSTRAINT. `child` holds it."""

    name: str
    validated: bool
    definition: str
    child: TableId


@dataclass
class ExistingTable:
    id: TableId
    oid: int
    kind: str  # "table", "partitioned table", "view", …
    columns: list[ExistingColumn] = field(default_factory=list)
    indexes: list[ExistingIndex] = field(default_factory=list)
    foreign_keys: list[ExistingForeignKey] = field(default_factory=list)  # of this table
    referenced_by: list[ExistingForeignKey] = field(default_factory=list)  # of other tables, or its own
    triggers: dict[str, str] = field(default_factory=dict)  # name -> O (origin), R (replica), A (always)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return next((i.columns for i in self.indexes if i.primary), ())

    @property
    def secondary_unique(self) -> list[ExistingIndex]:
        return [i for i in self.indexes if i.unique and not i.primary]

    @property
    def has_actions(self) -> bool:
        """True if writing to the table would fire triggers or check foreign keys."""
        return bool(self.foreign_keys or self.referenced_by or self.triggers)


def read_tables(connection: Connection, wanted: Iterable[TableId]) -> dict[TableId, ExistingTable]:
    """Find the wanted tables (or views) that are there."""
    ids = list(wanted)
    where = ([t.schema for t in ids], [t.name for t in ids])
    rows = connection.execute(TABLES, where).fetchall()
    found = {oid: ExistingTable(TableId(schema, name), oid, RELATION_KINDS[kind]) for oid, schema, name, kind in rows}
    if not found:
        return {}
    for oid, *column in connection.execute(COLUMNS, where).fetchall():
        found[oid].columns.append(ExistingColumn(*column))
    for oid, columns, *index in connection.execute(INDEXES, where).fetchall():
        found[oid].indexes.append(ExistingIndex(tuple(columns), *index))
    for oid, name, validated, definition, schema, child, is_child, is_parent in connection.execute(
        FOREIGN_KEYS, where
    ).fetchall():
        key = ExistingForeignKey(name, validated, definition, TableId(schema, child))
        if is_child:
            found[oid].foreign_keys.append(key)
        if is_parent:
            found[oid].referenced_by.append(key)
    for oid, name, enabled in connection.execute(TRIGGERS, where).fetchall():
        found[oid].triggers[name] = enabled
    return {table.id: table for table in found.values()}


def read_table(connection: Connection, table: TableId) -> ExistingTable | None:
    return read_tables(connection, [table]).get(table)


def holds_rows(connection: Connection, table: TableId) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table_name(table))
    row = connection.execute(query).fetchone()
    return bool(row and row[0])


def relation_table(connection: Connection, schema: str, name: str) -> TableId | None:
    """Return the table that an index of this name stands on; the relation itself if it is no index; None = unused."""
    row = connection.execute(
        """
        SELECT n.nspname::text, coalesce(t.relname, c.relname)::text
          FROM pg_catalog.pg_class c
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = c.oid
          LEFT JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
         WHERE n.nspname = %s AND c.relname = %s
        """,
        (schema, name),
    ).fetchone()
    return TableId(*row) if row else None


def may_bypass_constraints(connection: Connection) -> bool:
    """Try whether this user may set session_replication_role: a managed service may give that right in a way of its own."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
