"""Databases of PostgreSQL in other encodings, and statements sent as bytes."""

from __future__ import annotations

from contextlib import closing

from anabranch.testing.databases import Database, connect, unique_name
from anabranch.testing.servers import Server


def database_in(server: Server, encoding: str) -> Database:
    database = Database(server, unique_name(encoding))
    with closing(connect(server)) as connection:
        connection.execute(
            f"CREATE DATABASE {database.name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    return database


def as_stored(database: Database, *statements: bytes) -> None:
    with closing(database.connect(client_encoding="SQL_ASCII")) as connection:
        for statement in statements:
            connection.execute(statement)
