"""CHECK constraints and sequences of loaded tables: what is made after the consistent point beside indexes and keys.

Everything is found by name and definition and may be repeated. What does not live here: rendering (ddl.py, planned.py), indexes
and foreign keys (constraints.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import LiteralString

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.catalog import read_table
from anabranch.connectors.postgresql.target.constraints import attempt, refused
from anabranch.connectors.postgresql.target.planned import PlannedCheck, plan_checks
from anabranch.connectors.postgresql.target.printed_definitions import check_definition
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

# Constraints of every kind: their names are one list per table.
CONSTRAINTS: LiteralString = """
SELECT k.conname::text, k.convalidated, pg_catalog.pg_get_constraintdef(k.oid)
  FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s
"""
# Of every wanted table the columns of numbers that take their values from a sequence, with it. The highest of texts is
# not the highest number.
# https://www.postgresql.org/docs/current/functions-info.html: pg_get_serial_sequence knows identities and OWNED BY
SEQUENCES: LiteralString = """
SELECT n.nspname::text, c.relname::text, a.attname::text,
       pg_get_serial_sequence(format('%%I.%%I', n.nspname, c.relname), a.attname)
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid AND t.typcategory = 'N'
 WHERE a.attidentity <> '' OR a.atthasdef
"""
# Never back: somebody may have drawn numbers at the target. `is_called` of a new sequence is false: its first is its next.
RAISE: LiteralString = """
SELECT setval({sequence}::regclass, highest::bigint)
  FROM (SELECT max({column})::numeric AS highest FROM {table}) AS t, {relation} AS s
 WHERE highest > 0 AND highest <= 9223372036854775807
   AND (highest > s.last_value OR highest = s.last_value AND NOT s.is_called)
"""
# SQLSTATE -> what to do about a sequence that could not be set
SEQUENCE_HINTS = {"22003": "; ALTER SEQUENCE … AS bigint at the target: its own type ends before the column's values"}


def build_checks(connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules) -> list[str]:
    """Add the source's CHECKs without checking the rows, then validate them. Returns what was not added and why.

    A check that rows break, as they may at a source that once did not check, is removed again: here it would refuse the
    next change of such a row.
    """
    if not schema.checks:
        return []
    with translated(f"read the checks of {table.target}"):
        rows = connection.execute(CONSTRAINTS, (table.target.schema, table.target.name)).fetchall()
    there = {name: (definition.removesuffix(" NOT VALID"), is_valid) for name, is_valid, definition in rows}
    problems = []
    for name, planned in plan_checks(schema, table, rules).items():
        if isinstance(planned, NotCarried):
            problems.append(f"check {name} of {table.source} is not built: {planned}")
            continue
        problems += _add_check(connection, table.target, planned, there)
    return problems


def _add_check(
    connection: Connection, table: TableId, planned: PlannedCheck, there: dict[str, tuple[str, bool]]
) -> list[str]:
    """Add one check. `there`: constraint -> definition, is it validated. Another constraint with the planned name is
    left alone.
    """
    if planned.name in there:
        try:
            if check_definition(connection, table, planned.condition, planned.tail) != there[planned.name][0]:
                planned = planned.renamed()
        except psycopg.Error as error:
            return [refused(error, f"check {planned.name} of {table}", "compared with the one that is there")]
    if planned.name in there and (there[planned.name][1] or not planned.is_valid):
        return []
    problems = [] if planned.name in there else attempt(connection, planned.add, f"check {planned.name} of {table}")
    if problems or not planned.is_valid:
        return problems
    try:
        connection.execute(planned.validate.encode())
    except psycopg.errors.CheckViolation:
        drop = f"ALTER TABLE {qualified(table)} DROP CONSTRAINT IF EXISTS {quote(planned.name)}"
        return attempt(connection, drop, f"check {planned.name} of {table}") or [
            f"check {planned.name} of {table} is not built: rows break it, as at the source"
        ]
    except psycopg.Error as error:  # it would refuse every change as it refuses the rows that are there
        said = refused(error, f"check {planned.name} of {table}", "validated")
        drop = f"ALTER TABLE {qualified(table)} DROP CONSTRAINT IF EXISTS {quote(planned.name)}"
        return [said, *attempt(connection, drop, f"check {planned.name} of {table}")]
    return []


def build_computed(connection: Connection, schema: TableSchema, table: TargetTable) -> list[str]:
    """Add the columns that the target computes and that were refused with the table. Returns those that are not added,
    and why.
    """
    if not table.computed:
        return []
    with translated(f"read the columns of {table.target}"):
        existing = read_table(connection, table.target)
    there = {column.name for column in existing.columns} if existing else set()
    problems = []
    for column, _, expression in verbatim.computed(schema, table):
        if isinstance(expression, NotCarried):
            problems.append(f"column {column.name} of {table.source} is not made: {expression}")
    for source, line in ddl.computed_columns(schema, table):
        name = dict(table.computed)[source]
        if name not in there:
            add = f"ALTER TABLE {qualified(table.target)} ADD {line}"
            problems += attempt(connection, add, f"column {name} of {table.target}")
    return problems


def build_defaults(connection: Connection, schema: TableSchema, table: TargetTable) -> list[str]:
    """Set defaults in the source's words, for columns that have none; all at once, and one by one where that is
    refused.

    The target may lack a function that one of them calls.
    """
    wanted = ddl.default_statements(schema, table)
    if not wanted:
        return []
    with translated(f"read the columns of {table.target}"):
        existing = read_table(connection, table.target)
    left = (
        {c.name: wanted[c.name] for c in existing.columns if c.name in wanted and not c.has_default} if existing else {}
    )
    if len(left) > 1:
        head = f"ALTER TABLE {qualified(table.target)} "
        if not attempt(connection, head + ", ".join(s.removeprefix(head) for s in left.values()), "defaults"):
            return []
    return [
        problem
        for name, statement in left.items()
        for problem in attempt(connection, statement, f"the default of {name} of {table.target}")
    ]


def raise_sequences(connection: Connection, tables: Iterable[TargetTable]) -> list[str]:
    """Set the sequences of replicated columns to the highest value there, so that the next row of another writer gets a
    free number.

    Returns those that could not be set, and why.
    """
    return [
        problem
        for table, column, sequence in sequences_of(connection, tables)
        for problem in _raise(connection, table, column, sequence)
    ]


def sequence_statements(connection: Connection, tables: Iterable[TargetTable]) -> dict[TableId, list[str]]:
    """Return statements that `raise_sequences` would run, by table."""
    found: dict[TableId, list[str]] = {}
    for table, column, sequence in sequences_of(connection, tables):
        found.setdefault(table, []).append(_raising(table, column, sequence).as_string(connection).strip())
    return found


def sequences_of(connection: Connection, tables: Iterable[TargetTable]) -> Iterator[tuple[TableId, str, str]]:
    """List for replicated columns the table, the column, and the sequence as the server quotes it."""
    wanted: dict[TableId, set[str]] = {}
    for one in tables:
        wanted.setdefault(one.target, set()).update(one.columns)
    names = [t.schema for t in wanted], [t.name for t in wanted]
    with translated("read the sequences of the target"):
        found = connection.execute(SEQUENCES, names).fetchall()
    for schema, name, column, sequence in found:
        table = TableId(schema, name)
        if sequence is not None and column in wanted[table]:
            yield table, column, sequence


def _raising(table: TableId, column: str, sequence: str) -> sql.Composed:
    return sql.SQL(RAISE).format(
        sequence=sql.Literal(sequence),
        column=sql.Identifier(column),
        table=table_name(table),
        relation=sql.SQL(sequence),
    )


def _raise(connection: Connection, table: TableId, column: str, sequence: str) -> Iterator[str]:
    try:
        connection.execute(_raising(table, column, sequence))
    except psycopg.Error as error:
        yield refused(error, f"sequence {sequence} of {table}", "set") + SEQUENCE_HINTS.get(error.sqlstate or "", "")
