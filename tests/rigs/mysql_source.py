"""A MySQL or MariaDB database as a source that is loaded: its connector, a table's definition, rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from anabranch import connectors
from anabranch.contracts import SourceConnector, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database

RULES = ValueRules()


def endpoint(database: Database) -> Endpoint:
    server = database.server
    return Endpoint(server.name, server.host, server.port, server.user, server.password, database.name)


def source_of(database: Database) -> SourceConnector:
    return connectors.source(endpoint(database))


def definition(database: Database, name: str = "t") -> TableSchema:
    with closing(source_of(database).catalog()) as catalog:
        (table,) = catalog.tables(lambda t: (t.schema, t.name) == (database.name, name)).values()
        return table


def fill(database: Database, table: str, rows: Sequence[Sequence[object]]) -> None:
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)
