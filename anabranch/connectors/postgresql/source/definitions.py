"""Definitions of the tables of a PostgreSQL that is the source: a handful of queries, whatever the number of tables.

https://www.postgresql.org/docs/current/catalogs.html
What does not live here: indexes, keys, checks (structures.py), which types we know (typemap.py), what a target
has (catalog.py).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.functions import Function
from anabranch.connectors.postgresql.needed_objects import (
    extension_need,
    in_order,
    read_collations,
    read_objects,
    states_of,
)
from anabranch.connectors.postgresql.source.errors import UNCONVERTED, translate
from anabranch.connectors.postgresql.source.structures import (
    CALLED,
    CHECKS,
    FOREIGN_KEYS,
    INDEXES,
    USED,
    check_of,
    foreign_key_of,
    index_of,
    lacking_of,
)
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.connectors.postgresql.verbatim import DIALECT
from anabranch.errors import SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Need, Partition, TableSchema

ROOTS = 130_000  # from here on rows of partitions may come as rows of their root
TREES = 120_000  # pg_partition_tree
GENERATED = 120_000  # https://www.postgresql.org/docs/12/ddl-generated-columns.html
UNLOGGED = "unlogged"  # in TableSchema.engine
NO_LOG = "it is unlogged, so that no log has its rows: ALTER TABLE … SET LOGGED first"
COMPUTED = "computed: the target computes it, too"
_TYPE, _COLLATION = 7, 8  # places in rows of _COLUMNS
_INDEX_DEFINITION, _CONSTRAINT = 8, 11  # places in rows of INDEXES
STORED = {"s": "STORED", "v": "VIRTUAL"}
IN_KEY = "computed, and part of the primary key: the log has no value of it"

# Tables of the server's, of extensions, of ours and of single sessions are none of ours.
_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relpersistence::text{more}
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r'{roots}) AND c.relpersistence <> 't' {leaves}
   AND n.nspname NOT IN ('information_schema', 'anabranch') AND n.nspname !~ '^pg_'
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
"""
_TOLD = """,
       coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), coalesce(pg_catalog.pg_get_partkeydef(c.oid), ''),
       c.relnatts::int, c.relfilenode::bigint"""
TRIES, PAUSE = 20, 0.05  # seconds before another one
# pg_get_serial_sequence() would want the right to use the schema.
# A sequence's options are those that CREATE SEQUENCE would not choose by itself. A NOT NULL that is not validated is none.
# `base`: what a domain is made of that is no domain, with the sizes that it gives it, or one of the domains between.
# The row type of a table is as that table is: its fields are not told, since nobody notices when they change.
# An array stands apart by its elements' own sign, a domain's being that of its base; one beyond ASCII is told as none.
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint u
                                     WHERE u.conrelid = a.attrelid AND u.contype = 'n' AND NOT u.convalidated
                                       AND u.conkey = ARRAY[a.attnum]),
       pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, {generated},
       coalesce(pg_catalog.col_description(a.attrelid, a.attnum), ''), a.atttypid::bigint,
       CASE WHEN l.oid IS NULL OR l.oid = t.typcollation THEN ''
            WHEN ln.nspname = 'pg_catalog' THEN pg_catalog.quote_ident(l.collname)
            ELSE pg_catalog.quote_ident(ln.nspname) || '.' || pg_catalog.quote_ident(l.collname) END,
       concat_ws(' ', CASE WHEN a.attidentity = '' AND s.seqtypid <> 'int8'::regtype
                           THEN 'AS ' || pg_catalog.format_type(s.seqtypid, NULL) END,
         CASE WHEN s.seqincrement <> 1 THEN 'INCREMENT BY ' || s.seqincrement END,
         CASE WHEN s.seqmin <> 1 OR s.seqincrement < 0 THEN 'MINVALUE ' || s.seqmin END,
         CASE WHEN s.seqmax <> most.of_type OR s.seqincrement < 0 THEN 'MAXVALUE ' || s.seqmax END,
         CASE WHEN s.seqstart <> (CASE WHEN s.seqincrement > 0 THEN s.seqmin ELSE s.seqmax END)
              THEN 'START WITH ' || s.seqstart END,
         CASE WHEN s.seqcache <> 1 THEN 'CACHE ' || s.seqcache END, CASE WHEN s.seqcycle THEN 'CYCLE' END),
       s.seqrelid IS NOT NULL, a.attnum::int, coalesce(base.name, ''),
       CASE WHEN t.typtype IN ('d', 'e') THEN ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e
                                                     WHERE e.enumtypid = coalesce(base.type, t.oid) ORDER BY e.enumsortorder)
            ELSE '{{}}' END,
       CASE WHEN element.typdelim::int > 0 THEN element.typdelim::text ELSE '' END,
       ARRAY(SELECT ARRAY[f.attname::text, pg_catalog.format_type(f.atttypid, f.atttypmod)]
               FROM pg_catalog.pg_class k JOIN pg_catalog.pg_attribute f ON f.attrelid = k.oid
              WHERE k.oid = t.typrelid AND k.relkind = 'c' AND f.attnum > 0 AND NOT f.attisdropped ORDER BY f.attnum)
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_type element ON element.oid = t.typelem
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
  LEFT JOIN pg_catalog.pg_namespace ln ON ln.oid = l.collnamespace
  LEFT JOIN LATERAL (SELECT q.objid AS oid FROM pg_catalog.pg_depend q JOIN pg_catalog.pg_class u ON u.oid = q.objid
                      WHERE q.classid = 'pg_class'::regclass AND q.refclassid = 'pg_class'::regclass AND u.relkind = 'S'
                        AND q.refobjid = a.attrelid AND q.refobjsubid = a.attnum AND q.deptype IN ('a', 'i') LIMIT 1)
         AS owned ON true
  LEFT JOIN LATERAL (
    WITH RECURSIVE made AS (
      SELECT t.typbasetype AS type, t.typtypmod AS sizes WHERE t.typtype = 'd'
      UNION ALL
      SELECT u.typbasetype, greatest(u.typtypmod, m.sizes)
        FROM made m JOIN pg_catalog.pg_type u ON u.oid = m.type WHERE u.typtype = 'd')
    SELECT m.type, pg_catalog.format_type(m.type, m.sizes) AS name
      FROM made m JOIN pg_catalog.pg_type u ON u.oid = m.type WHERE u.typtype <> 'd') AS base ON true
  LEFT JOIN pg_catalog.pg_sequence s ON s.seqrelid = owned.oid
  LEFT JOIN LATERAL (SELECT CASE s.seqtypid WHEN 'int2'::regtype THEN 32767 WHEN 'int4'::regtype THEN 2147483647
                                 ELSE 9223372036854775807 END AS of_type) AS most ON true
 WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
# The second column: it was a table before. Of one that was made as a partition both rows are of one transaction. So they are of
# a table that was made and attached in one: then its columns were all marked as inherited by the command that attached it
# (MergeAttributesIntoExisting in tablecmds.c), which the third column names.
# https://www.postgresql.org/docs/current/catalog-pg-inherits.html
_PARTITIONS = """
SELECT r.oid::bigint, i.xmin <> a.xmin, made.at, t.relid::regclass::text, n.nspname::text, c.relname::text,
       CASE WHEN t.level > 1 THEN t.parentrelid::regclass::text ELSE '' END,
       pg_catalog.pg_get_expr(c.relpartbound, c.oid), coalesce(pg_catalog.pg_get_partkeydef(c.oid), ''),
       c.relkind = 'p' OR c.relpersistence = 'p', c.oid::bigint, i.xmin::text::bigint
  FROM pg_catalog.pg_class r CROSS JOIN LATERAL pg_catalog.pg_partition_tree(r.oid) AS t
  JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.relid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.relid AND a.attname = 'ctid'
  JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN LATERAL (
    SELECT CASE WHEN i.xmin = a.xmin AND NOT coalesce(bool_or(o.xmin = i.xmin AND o.cmin::text::bigint < i.cmin::text::bigint),
                                                      false) THEN i.cmin::text::bigint END AS at
      FROM pg_catalog.pg_attribute o WHERE o.attrelid = t.relid AND o.attnum > 0) AS made
 WHERE r.oid = ANY(%s::oid[]) AND r.relkind = 'p' ORDER BY t.level, t.relid
"""
DOING = "read the tables of the source"
_Rows = Mapping[int, list[Any]]


@dataclass(frozen=True)
class _Beside:
    """Facts of a table beside its columns and keys."""

    needs: tuple[Need, ...]
    type_states: tuple[tuple[str, str], ...]
    called: list[Any]  # rows of CALLED
    functions: Mapping[int, Function]


class _Changed(Exception):
    """Answers to several questions do not belong together."""


@contextmanager
def _told(connection: Connection) -> Iterator[None]:
    """Translate errors raised inside."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate not in UNCONVERTED:
            raise translate(error, DOING) from None
        from anabranch.connectors.postgresql.source import stored_names  # brings Arrow, which status does without

        raise stored_names.refusal(connection, error, DOING) from None


@dataclass
class Attached:
    """Partitions that were tables before, by their numbers. `at_once`: made and attached in one transaction, with the command
    that attached them, so that whoever else wrote rows did so behind it."""

    before: set[int] = field(default_factory=set)
    at_once: dict[int, int] = field(default_factory=dict)

    def take(self, was_before: bool, command: int | None, oid: int) -> None:
        if was_before:
            self.before.add(oid)
        elif command is not None:
            self.at_once[oid] = command


class Definitions:
    """Reader of a server's table definitions, over a connection of the caller's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.attached = Attached()  # of what was read

    def names(self) -> dict[TableId, str]:
        with _told(self._connection):
            rows = self._rows("")
        return {TableId(schema, name): NO_LOG if persistence == "u" else "" for _, schema, name, persistence in rows}

    def _rows(self, more: str) -> list[Any]:
        roots = self._connection.info.server_version >= ROOTS
        query = _TABLES.format(roots=", 'p'" * roots, leaves="AND NOT c.relispartition" * roots, more=more)
        return self._connection.execute(query.encode()).fetchall()

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        """Read the definitions of wanted tables. Raises SourceUnavailable.

        The server's functions fail, or return nothing, for a table that is dropped at that moment: then everything is
        read again, unless in a transaction.
        """
        left = TRIES
        with _told(self._connection):
            while True:
                try:
                    return self._tables(wanted)
                except (
                    psycopg.errors.InternalError_,
                    _Changed,
                ) as error:  # could not open relation, cache lookup failed
                    left -= 1
                    if not left or self._connection.info.transaction_status == TransactionStatus.INERROR:
                        what = describe(error) if isinstance(error, psycopg.Error) else str(error)
                        hint = "it is tried again; where it stays, look at the log of the source's server"
                        raise SourceUnavailable(f"{DOING}: {what}", hint=hint) from error
                    time.sleep(PAUSE)

    def _tables(self, wanted: Callable[[TableId], bool]) -> dict[TableId, TableSchema]:
        version = self._connection.info.server_version
        rows = self._rows(_TOLD)
        chosen = {oid: row for oid, *row in rows if wanted(TableId(row[0], row[1]))}
        generated = "a.attgenerated::text" if version >= GENERATED else "''"
        columns = self._by_table(_COLUMNS.format(generated=generated), chosen)
        standing = [self._by_table(query, chosen) for query in (INDEXES, FOREIGN_KEYS, CHECKS)]
        partitions = self._by_table(_PARTITIONS, chosen) if version >= TREES else defaultdict(list)
        needs = self._needs(columns, chosen)
        if not chosen.keys() <= {oid for oid, *_ in self._rows("")} or not _are_told(*standing):
            raise _Changed("a table was dropped meanwhile, or an index or a constraint")
        for part in (part for rows in partitions.values() for part in rows):
            self.attached.take(part[0], part[1], part[-2])
        found = (
            _schema(oid, row, columns[oid], [rows[oid] for rows in (*standing, partitions)], needs[oid])
            for oid, row in chosen.items()
        )
        return {schema.id: schema for schema in found}

    def _needs(self, columns: _Rows, chosen: Mapping[int, Any]) -> dict[int, _Beside]:
        used, called = self._by_table(USED, chosen), self._by_table(CALLED, chosen)
        types = {oid: [row[_TYPE] for row in columns[oid]] for oid in chosen}
        functions = {oid: [row[-1] for row in called[oid] if row[-1]] for oid in chosen}
        objects = read_objects(
            self._connection,
            [*(one for oids in types.values() for one in oids), *(row[0] for rows in used.values() for row in rows)],
            [one for oids in functions.values() for one in oids],
        )
        collations = read_collations(self._connection, {row[_COLLATION] for rows in columns.values() for row in rows})
        return {
            oid: _Beside(
                tuple(
                    dict.fromkeys(
                        [
                            *(extension_need(name, schema) for _, name, schema in used[oid] if name),
                            *(collations[row[_COLLATION]] for row in columns[oid] if row[_COLLATION] in collations),
                            *in_order(objects, types[oid] + [row[0] for row in used[oid]], functions[oid]),
                        ]
                    )
                ),
                tuple(states_of(objects.types, types[oid]).items()),
                called[oid],
                objects.functions,
            )
            for oid in chosen
        }

    def _by_table(self, query: str, chosen: Mapping[int, Any]) -> _Rows:
        found: dict[int, list[Any]] = defaultdict(list)
        for oid, *row in self._connection.execute(query.encode(), [list(chosen)]).fetchall():
            found[oid].append(row)
        return found


def _are_told(indexes: _Rows, *constraints: _Rows) -> bool:
    """Return whether every index and constraint has its definition."""
    defined = (row[-1] for rows in constraints for some in rows.values() for row in some)
    of_indexes = (
        row[_INDEX_DEFINITION] is not None and (row[_CONSTRAINT] is None or row[-1] is not None)
        for some in indexes.values()
        for row in some
    )
    return all(definition is not None for definition in defined) and all(of_indexes)


def _schema(oid: int, row: Any, rows: list[Any], standing: list[list[Any]], beside: _Beside) -> TableSchema:
    schema, name, persistence, comment, partition_key, numbers, file = row
    indexes, keys, checks, partitions = standing
    primary = next((index for index in indexes if index[1]), None)
    key = tuple(primary[4]) if primary else ()
    columns = tuple(_column(column, key) for column in rows)
    return TableSchema(
        TableId(schema, name),
        columns,
        key,
        tuple(index_of(index, columns) for index in indexes if not index[1]),
        tuple(foreign_key_of(one) for one in keys),
        engine=UNLOGGED if persistence == "u" else "",
        comment=comment,
        partitions=tuple(_partition(part) for part in partitions),
        oid=oid,
        numbers=numbers,
        file=file,
        checks=tuple(check_of(check) for check in checks),
        dialect=DIALECT,
        key_name=primary[0] if primary else "",
        needs=beside.needs,
        partition_key=partition_key,
        lacking=lacking_of(beside.called, beside.functions, columns),
        type_states=beside.type_states,
    )


def _partition(row: Any) -> Partition:
    _, _, name, schema, table, *rest = row
    return Partition(name, TableId(schema, table), *rest)


def _column(row: Any, key: tuple[str, ...]) -> Column:
    (
        name,
        native,
        not_null,
        expression,
        identity_kind,
        generated,
        comment,
        _,
        collation,
        options,
        has_sequence,
        number,
        base,
        labels,
        delimiter,
        fields,
    ) = row
    made_of = tuple((name, native) for name, native in fields)
    is_serial = bool(not identity_kind and has_sequence and expression and expression.startswith("nextval("))
    counts = bool(identity_kind) or is_serial
    has_default = expression is not None and not generated and not counts
    return Column(
        name,
        None if generated else logical_type(native, base, tuple(labels), delimiter, made_of),
        native,
        nullable=not not_null,
        has_default=has_default,
        default=expression if has_default else None,
        default_is_expression=has_default,
        generated=bool(generated),
        expression=f"({expression}) {STORED[generated]}" if generated else "",
        auto_increment=counts,
        collation=collation,
        comment=comment,
        refusal="" if not generated else IN_KEY if name in key else COMPUTED,
        serial=is_serial,
        number=number,
        sequence=options if counts else "",
    )
