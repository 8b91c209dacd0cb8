"""Unique keys of the target beside the primary key, and the columns on which they depend (K8): unique indexes and
exclusion constraints with their expressions and conditions, generated columns among them, also those of partitions.

Vendor facts: https://www.postgresql.org/docs/current/catalog-pg-index.html ·
https://www.postgresql.org/docs/current/catalog-pg-depend.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.target.catalog import WANTED
from anabranch.model.ids import TableId

# `parts` are the key's columns (0 an expression), `direct` every column that it names, `every` also those that a generated
# one among them is computed from: since 15 a dependency of its default, before of the column itself. An expression over
# the whole row names none and means all.
KEYS: LiteralString = (
    WANTED.replace("WITH", "WITH RECURSIVE", 1)
    + """,
tree (root, oid) AS (
  SELECT oid, oid FROM wanted
  UNION ALL SELECT t.root, i.inhrelid FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid),
keys AS (
  SELECT t.root, x.indexrelid, x.indrelid, (x.indkey::int2[])[0:x.indnkeyatts - 1] AS parts,
         x.indexprs IS NOT NULL OR x.indpred IS NOT NULL AS is_special,
         concat(x.indexprs::text, x.indpred::text) LIKE '%%:varattno 0 %%' AS is_whole,
         coalesce((to_jsonb(x) ->> 'indnullsnotdistinct')::boolean, false) AS nulls_meet,
         x.indisexclusion OR EXISTS (SELECT FROM unnest(x.indcollation::oid[]) AS u (oid)
                                       JOIN pg_catalog.pg_collation l ON l.oid = u.oid
                                      WHERE to_jsonb(l) ->> 'collisdeterministic' = 'false') AS takes_alike
    FROM tree t JOIN pg_catalog.pg_index x ON x.indrelid = t.oid
   WHERE (x.indisunique OR x.indisexclusion) AND NOT x.indisprimary),
direct (root, key, rel, attnum) AS (
  SELECT k.root, k.indexrelid, k.indrelid, p FROM keys k, unnest(k.parts) AS p WHERE p > 0
  UNION
  SELECT k.root, k.indexrelid, k.indrelid, d.refobjsubid
    FROM keys k JOIN pg_catalog.pg_depend d
      ON d.classid = 'pg_class'::regclass AND d.objid = k.indexrelid
     AND d.refclassid = 'pg_class'::regclass AND d.refobjid = k.indrelid AND d.refobjsubid > 0
   WHERE k.is_special
  UNION
  SELECT k.root, k.indexrelid, k.indrelid, a.attnum
    FROM keys k JOIN pg_catalog.pg_attribute a ON a.attrelid = k.indrelid AND a.attnum > 0 AND NOT a.attisdropped
   WHERE k.is_whole),
every (root, key, rel, attnum) AS (
  SELECT * FROM direct
  UNION
  SELECT c.root, c.key, c.rel, d.refobjsubid
    FROM direct c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.rel AND a.attnum = c.attnum AND a.attgenerated <> ''
    LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = c.rel AND f.adnum = c.attnum
    JOIN pg_catalog.pg_depend d
      ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.rel AND d.refobjsubid > 0
     AND (d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
       OR d.classid = 'pg_class'::regclass AND d.objid = c.rel AND d.objsubid = c.attnum))
SELECT w.schema, w.name, array_agg(DISTINCT a.attname::text), NOT (k.is_special OR k.nulls_meet),
       NOT k.takes_alike AND count(DISTINCT a.attname) = cardinality(k.parts),
       array_agg(DISTINCT a.attname::text) FILTER (
         WHERE a.attnum = ANY (k.parts) AND NOT a.attnotnull AND a.attgenerated = ''
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint f
                            WHERE f.contype = 'f' AND f.confrelid = k.indrelid AND a.attnum = ANY (f.confkey)))
  FROM wanted w JOIN keys k ON k.root = w.oid JOIN every e ON e.root = k.root AND e.key = k.indexrelid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = e.rel AND a.attnum = e.attnum
 GROUP BY w.oid, w.schema, w.name, k.indexrelid, k.is_special, k.nulls_meet, k.takes_alike, k.parts
"""
)


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """`columns`: all on which it depends. A row meets no other one while a column of `parking` is NULL in it. `is_plain`: it
    is over these columns themselves, takes only equal texts for equal, and NULL for equal to nothing."""

    columns: frozenset[str]
    parking: frozenset[str]
    is_plain: bool


def unique_keys(connection: Connection, wanted: Iterable[TableId]) -> dict[TableId, list[UniqueKey]]:
    """Return per table the unique keys beside its primary key, where there are any. One query."""
    ids = list(wanted)
    found: dict[TableId, list[UniqueKey]] = {}
    rows = connection.execute(KEYS, ([t.schema for t in ids], [t.name for t in ids]))
    for schema, name, columns, may_park, is_whole, nullable in rows:
        parking = frozenset(nullable or ()) if may_park else frozenset()
        key = UniqueKey(frozenset(columns), parking, may_park and is_whole)
        found.setdefault(TableId(schema, name), []).append(key)
    return found
