"""A target table is created: its schema, itself, its partitions, as far as the server takes them.

What does not live here: the statements (ddl.py, partitions.py), what is built behind the load (constraints.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import psycopg

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.target import ddl, made_objects
from anabranch.connectors.postgresql.target.catalog import relation_table
from anabranch.connectors.postgresql.target.partitions import plan_partitions, taken
from anabranch.connectors.postgresql.verbatim import is_partitioned
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


def create_whole_table(
    connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId]
) -> None:
    """Create the table. Its key gets another name where something has its own.

    Computed columns that the server refuses, because it lacks a function that they call, are tried again, and reported,
    when the rest is built.
    """
    if schema.key_name and relation_table(connection, table.target.schema, schema.key_name):
        schema = replace(schema, key_name="")

    schema = _taken_as(connection, schema, table, rules, beside)

    def create(computed: Collection[str] | None) -> str:
        return ddl.create_table(schema, table, rules, connection.info.server_version, beside, computed)

    if not table.computed or _is_taken(connection, create(None)):
        _run(connection, create(None))
    else:
        _run(connection, create([source for source, _ in table.computed if _is_taken(connection, create([source]))]))
    _create_partitions(connection, schema, table, beside)
    for statement in ddl.complete_table(schema, table, rules, beside):
        _run(connection, statement)


def _taken_as(
    connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId]
) -> TableSchema:
    """Return the definition, without partitions where the server refuses those: it may lack a function or sort otherwise."""
    if not is_partitioned(schema, table):
        return schema
    plain = ddl.create_table(schema, table, rules, connection.info.server_version, beside, ())
    try:
        with connection.transaction(force_rollback=True):
            _run(connection, plain)
            _create_partitions(connection, schema, table, beside)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        bound = log.get(table=str(table.source), target=str(table.target))
        bound.warning("table_is_not_partitioned", reason=describe(error), by=schema.partition_key)
        return replace(schema, partition_key="", partitions=())
    return schema


def _create_partitions(
    connection: Connection, schema: TableSchema, table: TargetTable, beside: Collection[TableId]
) -> None:
    """Create the partitions. One whose name something at the target has gets another."""
    names = [part.name for part in plan_partitions(schema, table, beside)]
    for place in {name.schema for name in names}:
        create_schema_unless_there(connection, place)
    for part in plan_partitions(schema, table, {*beside, *taken(connection, names)}):
        _run(connection, part.sql)


def create_schema_unless_there(connection: Connection, name: str) -> None:
    """Create the schema unless it is there: nobody then asks for the right to create it."""
    if not made_objects.has_schema(connection, name):
        _run(connection, ddl.create_schema(name))


def _is_taken(connection: Connection, statement: str) -> bool:
    """Return whether the server would carry the statement out."""
    try:
        with connection.transaction(force_rollback=True):
            _run(connection, statement)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):
        return False
    return True


def _run(connection: Connection, statement: str) -> None:
    """Run a statement of ddl.py: rendered, nothing to bind."""
    connection.execute(statement.encode())
