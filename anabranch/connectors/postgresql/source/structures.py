"""Indexes, keys and checks of a PostgreSQL source's tables, and what they need beside them. A handful of queries,
whatever the number of tables; definitions in the server's own words.

What does not live here: tables and columns (definitions.py), what a target makes of it (verbatim.py).
https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-CATALOG
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.connectors.postgresql.functions import Function
from anabranch.connectors.postgresql.verbatim import names
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Check, Column, ForeignKey, Index, Lacking

ACTIONS = {"a": Action.RESTRICT, "r": Action.RESTRICT}
ACTIONS |= {"c": Action.CASCADE, "n": Action.SET_NULL, "d": Action.SET_DEFAULT}
# Two values of these are equal exactly if their texts are.
EXACT = (Kind.INT16, Kind.INT32, Kind.INT64, Kind.TEXT, Kind.BINARY, Kind.UUID)

# An index is plain where columns and directions say all of it.
INDEXES = """
SELECT x.indrelid::bigint, i.relname::text, x.indisprimary, x.indisunique OR x.indisexclusion, m.amname::text,
       ARRAY(SELECT a.attname::text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
              WHERE k.place <= x.indnkeyatts ORDER BY k.place),
       ARRAY(SELECT o.flags & 1 = 1 FROM unnest(x.indoption::int2[]) WITH ORDINALITY AS o (flags, place)
              WHERE o.place <= x.indnkeyatts ORDER BY o.place),
       m.amname = 'btree' AND x.indpred IS NULL AND x.indexprs IS NULL AND x.indnatts = x.indnkeyatts
         AND i.reloptions IS NULL AND NOT x.indisexclusion
         AND coalesce(to_jsonb(x) ->> 'indnullsnotdistinct', 'false') = 'false'
         AND NOT EXISTS (
           SELECT FROM unnest(x.indkey::int2[], x.indcollation::oid[], x.indclass::oid[], x.indoption::int2[])
                         AS p (number, collated, class, flags)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = p.number
             JOIN pg_catalog.pg_opclass o ON o.oid = p.class
            WHERE p.collated <> a.attcollation OR NOT o.opcdefault OR p.flags NOT IN (0, 3)),
       NOT EXISTS (SELECT FROM unnest(x.indcollation::oid[]) AS u (oid)
                     JOIN pg_catalog.pg_collation l ON l.oid = u.oid
                    WHERE to_jsonb(l) ->> 'collisdeterministic' = 'false'),
       pg_catalog.pg_get_indexdef(x.indexrelid), pg_catalog.quote_ident(i.relname),
       pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname),
       k.contype::text, coalesce(to_jsonb(k) ->> 'conperiod', 'false') = 'true', k.condeferrable, k.condeferred,
       pg_catalog.pg_get_constraintdef(k.oid)
  FROM pg_catalog.pg_index x
  JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_am m ON m.oid = i.relam
  JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_constraint k
         ON k.conindid = x.indexrelid AND k.conrelid = x.indrelid AND k.contype IN ('p', 'u', 'x')
 WHERE x.indrelid = ANY(%s::oid[]) AND x.indisvalid ORDER BY x.indrelid, i.relname
"""
FOREIGN_KEYS = """
SELECT k.conrelid::bigint, k.conname::text, n.nspname::text, p.relname::text, k.confdeltype::text, k.confupdtype::text,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.place),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.place),
       pg_catalog.format('FOREIGN KEY (%%s) REFERENCES %%I.%%I(%%s)',
         (SELECT string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY u.place)
            FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number),
         n.nspname, p.relname,
         (SELECT string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY u.place)
            FROM unnest(k.confkey) WITH ORDINALITY AS u (number, place)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number)),
       pg_catalog.pg_get_constraintdef(k.oid)
  FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class p ON p.oid = k.confrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace
 WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid = ANY(%s::oid[]) ORDER BY k.conrelid, k.conname
"""
CHECKS = """
SELECT k.conrelid::bigint, k.conname::text, pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k
 WHERE k.contype = 'c' AND k.conrelid = ANY(%s::oid[]) ORDER BY k.conrelid, k.conname
"""
# Before 15 what a generated column uses hangs on the column, not on its expression, and goes with it: 'a'.
# https://www.postgresql.org/docs/current/catalog-pg-depend.html
# What expressions, operator classes and partition keys are of: extensions, and types that no column has.
USED = """
SELECT DISTINCT o.rel::bigint, CASE WHEN d.refclassid = 'pg_type'::regclass THEN d.refobjid::bigint ELSE 0 END,
       e.extname::text, n.nspname::text
  FROM (SELECT indrelid AS rel, 'pg_class'::regclass AS class, indexrelid AS oid, 0 AS part, 'n' AS kind
          FROM pg_catalog.pg_index
        UNION ALL SELECT c.oid, 'pg_class'::regclass, c.oid, 0, 'n' FROM pg_catalog.pg_class c WHERE c.relkind = 'p'
        UNION ALL SELECT adrelid, 'pg_attrdef'::regclass, oid, 0, 'n' FROM pg_catalog.pg_attrdef
        UNION ALL SELECT attrelid, 'pg_class'::regclass, attrelid, attnum, 'a' FROM pg_catalog.pg_attribute a
                   WHERE atthasdef AND to_jsonb(a) ->> 'attgenerated' <> ''
        UNION ALL SELECT conrelid, 'pg_constraint'::regclass, oid, 0, 'n' FROM pg_catalog.pg_constraint) AS o
  JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.oid AND d.deptype = o.kind::"char"
       AND (o.part = 0 OR d.objsubid = o.part)
  LEFT JOIN pg_catalog.pg_depend m ON m.classid = d.refclassid AND m.objid = d.refobjid AND m.deptype = 'e'
  LEFT JOIN pg_catalog.pg_extension e ON e.oid = m.refobjid
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
 WHERE o.rel = ANY(%s::oid[]) AND (e.oid IS NOT NULL OR d.refclassid = 'pg_type'::regclass)
 ORDER BY 1, 3, 2
"""
# What indexes, checks, defaults, computed columns and keys of partitions use of users' own, extensions' not. A column's own
# sequence is none: it is made with the column.
CALLED = """
SELECT DISTINCT o.rel::bigint, o.what, o.name::text, u.type, u.identity,
       CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid::bigint ELSE 0 END
  FROM (SELECT x.indrelid AS rel, 'indexes' AS what, i.relname AS name, 'pg_class'::regclass AS class, x.indexrelid AS oid,
               0 AS part, 'n' AS kind
          FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
        UNION ALL SELECT c.oid, 'partitions', pg_catalog.pg_get_partkeydef(c.oid), 'pg_class'::regclass, c.oid, 0, 'n'
          FROM pg_catalog.pg_class c WHERE c.relkind = 'p'
        UNION ALL SELECT f.adrelid,
                         CASE coalesce(to_jsonb(a) ->> 'attgenerated', '') WHEN '' THEN 'defaults' ELSE 'computed' END,
                         a.attname, 'pg_attrdef'::regclass, f.oid, 0, 'n'
          FROM pg_catalog.pg_attrdef f JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
        UNION ALL SELECT a.attrelid, 'computed', a.attname, 'pg_class'::regclass, a.attrelid, a.attnum, 'a'
          FROM pg_catalog.pg_attribute a WHERE a.atthasdef AND to_jsonb(a) ->> 'attgenerated' <> ''
        UNION ALL SELECT k.conrelid, CASE k.contype WHEN 'c' THEN 'checks' ELSE 'indexes' END, k.conname,
                         'pg_constraint'::regclass, k.oid, 0, 'n'
          FROM pg_catalog.pg_constraint k WHERE k.contype IN ('c', 'x')) AS o
  JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.oid AND d.deptype = o.kind::"char"
       AND (o.part = 0 OR d.objsubid = o.part)
       AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_class'::regclass)
       AND d.refobjid >= 16384
  CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.refclassid, d.refobjid, 0) AS u
 WHERE o.rel = ANY(%s::oid[]) AND u.type IN ('function', 'operator', 'operator class', 'sequence')
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend m
                    WHERE m.classid = d.refclassid AND m.objid = d.refobjid AND m.deptype = 'e')
   AND NOT (o.what = 'defaults' AND u.type = 'sequence' AND EXISTS
            (SELECT FROM pg_catalog.pg_depend w
               JOIN pg_catalog.pg_attribute c ON c.attrelid = w.refobjid AND c.attnum = w.refobjsubid
              WHERE w.classid = d.refclassid AND w.objid = d.refobjid AND w.refclassid = 'pg_class'::regclass
                AND w.refobjid = o.rel AND c.attname = o.name AND w.deptype IN ('a', 'i')))
 ORDER BY 1, 2, 3, 5
"""
NOT_TAKEN = "which is not carried over"
BY_ITSELF = "which is not carried over; the column counts by itself"


def lacking_of(
    rows: Iterable[Any], functions: Mapping[int, Function], columns: Iterable[Column]
) -> tuple[Lacking, ...]:
    """Pick the rows of CALLED that use something a target is not given."""
    counting = {column.name for column in columns if column.auto_increment}
    found = []
    for what, name, kind, uses, oid in rows:
        counts = what == "defaults" and name in counting  # by another sequence than its own
        if why := functions[oid].why if oid in functions else BY_ITSELF if counts else NOT_TAKEN:
            found.append(Lacking(what, name, kind, uses, why))
    return tuple(found)


def index_of(row: Any, columns: tuple[Column, ...]) -> Index:
    """Describe an index. An exclusion constraint counts as unique: rows of it keep each other out."""
    name, _, is_unique, kind, keys, descending, is_plain, is_exact, definition, ident, table, *constraint = row
    by_name = {column.name: column for column in columns}
    own = [by_name[key] for key in keys]
    is_plain = is_plain and not (is_unique and any(column.generated for column in own))
    body = _body(definition, ident, table)
    used = tuple(keys) if is_plain else _used(f"{body} {constraint[-1] or ''}", columns)
    is_exact = is_exact and all(column.type is not None and column.type.kind in EXACT for column in own)
    return Index(
        name,
        used,
        is_unique,
        (None,) * len(used),
        kind,
        tuple(descending) if is_plain else (),
        "" if is_plain else body,
        _constraint(*constraint),
        not is_unique or (is_plain and is_exact),
    )


def _body(definition: str, ident: str, table: str) -> str:
    """Return the part of a definition behind the table's name."""
    _, _, rest = definition.partition(f" {ident} ON ")
    return rest.removeprefix("ONLY ").removeprefix(f"{table} ")


def _used(text: str, columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the columns that a text depends on: those that it names, and those that they are computed from."""
    columns = list(columns)
    named = [column for column in columns if names(text, column.name)]
    bases = [column for column in columns if any(names(one.expression, column.name) for one in named)]
    return tuple(column.name for column in columns if column in named or column in bases)


def _constraint(kind: str | None, has_period: bool, deferrable: bool, deferred: bool, definition: str | None) -> str:
    """Return the definition of a constraint; of UNIQUE only what its index does not say."""
    if kind != "u" or has_period:
        return definition or ""
    return "UNIQUE" + " DEFERRABLE" * deferrable + " INITIALLY DEFERRED" * deferred


def foreign_key_of(row: Any) -> ForeignKey:
    name, schema, parent, on_delete, on_update, columns, parent_columns, head, definition = row
    return ForeignKey(
        name,
        tuple(columns),
        TableId(schema, parent),
        tuple(parent_columns),
        ACTIONS[on_delete],
        ACTIONS[on_update],
        definition.removeprefix(head),
    )


def check_of(row: Any) -> Check:
    name, text = row
    return Check(name, text, refusal="it is in the words of PostgreSQL")
