"""Columns that may name large objects of a PostgreSQL: `oid`, `lo`, and types made of them. Their numbers are in rows and in
the log; the objects are in neither, and a target does not get them. So they are told of before a load, and looked for as rows
go by.

https://www.postgresql.org/docs/current/largeobjects.html · https://www.postgresql.org/docs/current/lo.html
What does not live here: looking at rows that go by (large_object_guard.py). Numbers in columns of other types nobody can tell
from any other number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.source.connection import own_rows
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

CHECK = "source.large_objects"
NUMBERS = "numbers"  # [source.options] large_objects
COUNTED = 1000  # rows up to which those that name objects are counted
SAMPLED_FROM, SAMPLED_ROWS = 1_000_000, 200_000  # of larger tables so many rows are looked at first
WHOLE_MS = 30_000  # and then all of them, if that takes no longer
REMEDY = (
    "leave the column out ([[tables]] columns.drop), or let the numbers alone arrive"
    ' ([source.options] large_objects = "numbers");'
    " a column of bytea carries the values themselves"
)
# https://www.postgresql.org/docs/current/catalog-pg-largeobject-metadata.html, which everybody may read
_ANY = "SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata)"
_MAY_READ = """
SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'), c.reltuples::float8
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
# What a type is made of, down to its simplest parts: domains, arrays, rows, ranges.
_MADE_OF = """
WITH RECURSIVE part (type, is_array, is_nested) AS (
  SELECT a.atttypid, false, false FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname = %s AND c.relname = %s AND a.attname = %s
  UNION
  SELECT n.type, p.is_array OR n.is_array, p.is_nested OR n.is_nested FROM part p CROSS JOIN LATERAL (
    SELECT typbasetype, false, false FROM pg_catalog.pg_type WHERE oid = p.type AND typtype = 'd'
    UNION ALL SELECT typelem, true, false FROM pg_catalog.pg_type WHERE oid = p.type AND typcategory = 'A' AND typelem <> 0
    UNION ALL SELECT a.atttypid, false, true FROM pg_catalog.pg_type t
                JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
               WHERE t.oid = p.type AND t.typtype = 'c'
    UNION ALL SELECT rngsubtype, false, true FROM pg_catalog.pg_range WHERE rngtypid = p.type) AS n (type, is_array, is_nested))
SELECT count(*) > 0, coalesce(bool_or(is_nested) FILTER (WHERE type = 'pg_catalog.oid'::regtype), false),
       bool_or(is_array) FILTER (WHERE type = 'pg_catalog.oid'::regtype)
  FROM part
"""


class ObjectForm(StrEnum):
    """The way in which a type holds numbers of objects."""

    PLAIN = "plain"
    ARRAY = "array"
    NESTED = "nested"  # beside other values, from which nobody can tell them


class Forms:
    """Judges types as format_type() spells them, over a connection of the caller's; each is asked for once, by a
    column of it."""

    def __init__(self, connection: Callable[[], Connection]) -> None:
        self._connection = connection
        self._known: dict[str, ObjectForm | None] = {}

    def of(self, table: TableId, column: Column) -> ObjectForm | None:
        if column.native not in self._known:
            row = self._connection().execute(_MADE_OF, [table.schema, table.name, column.name]).fetchone()
            if row is None or not row[0]:
                return None  # the column is gone
            self._known[column.native] = _form(*row[1:])
        return self._known[column.native]


def _form(is_nested: bool, is_array: bool | None) -> ObjectForm | None:
    if is_array is None:
        return None
    return ObjectForm.NESTED if is_nested else ObjectForm.ARRAY if is_array else ObjectForm.PLAIN


def is_declared(column: Column) -> bool:
    """Return whether the column's type is that of the extension lo, which is for nothing else."""
    return column.native.rpartition(".")[2] == "lo"


def may_name(column: Column) -> bool:
    """Return whether it is worth asking what the column's type is made of. Types of the server's own are known by their
    names.
    """
    return column.native.removesuffix("[]") == "oid" or "." in column.native


# --- in a load --------------------------------------------------------------------------------------------------------


def named_in(
    connection: Connection, schema: TableSchema, columns: Collection[str], condition: sql.Composable
) -> tuple[Column, Mapping[str, str | None]] | None:
    """Find a row that names a large object that exists: the column, and the row's key; None where no row does.

    Only rows that `condition` selects, in the transaction's snapshot. Asks nothing for a table without such columns.
    """
    forms, is_any = Forms(lambda: connection), None
    for column in schema.columns:
        if column.name not in columns or column.generated or not may_name(column):
            continue
        form = forms.of(schema.id, column)
        if form not in (ObjectForm.PLAIN, ObjectForm.ARRAY):
            continue
        is_any = bool(one(connection, _ANY)) if is_any is None else is_any
        if is_any and (key := _first_key(connection, schema, column, form, condition)) is not None:
            return column, key
    return None


def _first_key(
    connection: Connection, schema: TableSchema, column: Column, form: ObjectForm, condition: sql.Composable
) -> Mapping[str, str | None] | None:
    value: sql.Composable = sql.Identifier("t", column.name)
    if form is ObjectForm.ARRAY:
        value = sql.SQL("ANY ({}::oid[])").format(value)
    texts = [sql.SQL("{}::text").format(sql.Identifier("t", name)) for name in schema.primary_key]
    query = sql.SQL(
        "SELECT {} FROM {} AS t WHERE {} AND EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata AS m WHERE m.oid = {})"
        " LIMIT 1"
    ).format(sql.SQL(", ").join(texts), own_rows(schema), condition, value)
    row = connection.execute(query).fetchone()
    return None if row is None else dict(zip(schema.primary_key, row, strict=True))


# --- before a load ----------------------------------------------------------------------------------------------------


def check_large_objects(connection: Connection, context: PreflightContext, choice: str) -> Iterator[CheckResult]:
    forms, is_any = Forms(lambda: connection), bool(one(connection, _ANY))
    for table, schema in sorted(context.tables.items(), key=lambda found: str(found[0])):
        for column in schema.columns:
            form = None if column.name in context.dropped_columns.get(table, ()) else forms.of(table, column)
            if form is None or column.generated:
                continue
            if choice == NUMBERS:
                why = f"column {column.name} ({column.native}): numbers arrive without their large objects, as the job says"
                yield CheckResult(CHECK, CheckVerdict.OK, why, "", str(table))
            elif is_any or is_declared(column):
                yield _judged(connection, schema, column, form, is_any)


def _judged(connection: Connection, schema: TableSchema, column: Column, form: ObjectForm, is_any: bool) -> CheckResult:
    what = f"column {column.name} ({column.native})"
    found, of = _counted(connection, schema, column, form) if is_any and form is not ObjectForm.NESTED else (0, "")
    if found:
        many = f"at least {found:,}" if found >= COUNTED or of else f"{found:,}"
        why = f"{what} names large objects in {many} values{of}: the numbers would arrive, the objects are in no log"
        return CheckResult(CHECK, CheckVerdict.FAILED, why, REMEDY, str(schema.id))
    if form is ObjectForm.NESTED:
        why = f"{what} has numbers that may name large objects, which do not arrive; anabranch cannot look into such a type"
        return CheckResult(CHECK, CheckVerdict.WARNING, why, REMEDY, str(schema.id))
    why = f"{what} names no large object now{of}; the first row of the log that names one parks the table"
    return CheckResult(CHECK, CheckVerdict.WARNING, why, REMEDY, str(schema.id))


def _counted(connection: Connection, schema: TableSchema, column: Column, form: ObjectForm) -> tuple[int, str]:
    """Return values that name an object, up to COUNTED; and of what, where not all rows are looked at. Another check
    says where the table may not be read.
    """
    row = connection.execute(_MAY_READ, [schema.id.schema, schema.id.name]).fetchone()
    if row is None or not row[0]:
        return 0, ""
    is_large = row[1] > SAMPLED_FROM
    sample = sql.SQL(f" TABLESAMPLE SYSTEM ({100 * SAMPLED_ROWS / row[1]})" if is_large else "")
    value: sql.Composable = sql.Identifier("t", column.name)
    if form is ObjectForm.ARRAY:
        value = sql.SQL("ANY ({}::oid[])").format(value)
    query = sql.SQL(
        "SELECT count(*) FROM (SELECT FROM {} AS t{} JOIN pg_catalog.pg_largeobject_metadata AS m ON m.oid = {} LIMIT {})"
        " AS found"
    )

    def count(part: sql.Composable, most: int) -> int:
        found = connection.execute(query.format(own_rows(schema), part, value, sql.Literal(most))).fetchone()
        return int(found[0]) if found else 0

    in_sample = count(sample, COUNTED)
    if not is_large or in_sample:
        return in_sample, f" of a sample of {SAMPLED_ROWS:,} rows" if is_large else ""
    try:  # a rare one is in no sample
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {WHOLE_MS}")
            return count(sql.SQL(""), COUNTED), ""
    except psycopg.errors.QueryCanceled:
        return 0, f" in a sample of {SAMPLED_ROWS:,} rows: to look at all of them took longer than {WHOLE_MS // 1000} s"
