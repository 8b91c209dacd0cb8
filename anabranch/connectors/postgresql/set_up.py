"""What a job needs at its source and leaves there, over a session of its own. What that is: slots.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import psycopg

from anabranch.abc import LogOptions, SetUpStep
from anabranch.connectors.postgresql.decoders import DECODERS
from anabranch.connectors.postgresql.slots import missing as statements
from anabranch.connectors.postgresql.slots import removal
from anabranch.connectors.postgresql.source_catalog import PostgresCatalog
from anabranch.connectors.postgresql.source_connection import open_session
from anabranch.connectors.postgresql.source_errors import translate, translated
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema


def missing(
    endpoint: Endpoint, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool
) -> list[SetUpStep]:
    with open_session(endpoint) as connection, translated("look at what the source has of the job"):
        return statements(connection, options.name, tables, begins, DECODERS[options.decoder])


def astray(endpoint: Endpoint, options: LogOptions, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
    """The log has no statements: what became of a table says its next row, if ever one comes."""
    with closing(PostgresCatalog(endpoint)) as catalog:
        now = catalog.tables(tables.__contains__)
        attached = catalog.attached
    with open_session(endpoint) as connection, translated("look at what the source has of the job"):
        steps = statements(connection, options.name, now, False, DECODERS[options.decoder])
    found = {
        table: f"the log does not have all of its rows any more: {step.sql}" for step in steps for table in step.tables
    }
    for table, schema in tables.items():
        if table not in now:
            found[table] = "it is gone at the source, or has another name"
        elif not schema.reads_like(now[table]) or schema.primary_key != now[table].primary_key:
            found[table] = "its definition changed at the source"
        elif gone := sorted(set(schema.partitions) - set(now[table].partitions)):
            found[table] = f"the partition {gone[0]} was detached or dropped: its rows went without the log"
        elif come := sorted((set(now[table].partitions) - set(schema.partitions)) & attached):
            found[table] = f"the table {come[0]} was attached as a partition: its rows came without the log"
    return found


def carry_out(endpoint: Endpoint, steps: Sequence[SetUpStep]) -> None:
    """Raises SourceError with the statement that was refused."""
    with open_session(endpoint) as connection:
        for step in steps:
            run(connection, step.sql)


def leftovers(endpoint: Endpoint, name: str, remove: bool) -> list[str]:
    if not name:
        return []
    with open_session(endpoint) as connection:
        with translated("look at what the source has of the job"):
            found = removal(connection, name)
        for statement in found if remove else ():
            run(connection, statement)
    return found


def run(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        raise translate(error, f"set the source up: {statement}") from None
