"""The two databases and the account that the job uses at each: only the rights a job needs.

The shop's tables and rows are in shop.sql and shop_postgresql.sql, what happens in it in writer.py.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass, field
from importlib.resources import files

from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server

NAME = "shop"
ACCOUNT = "anabranch"
TABLES = {"postgresql": "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"}
# https://mariadb.com/kb/en/grant/#global-privileges. SLAVE MONITOR: preflight asks whether this server is itself a replica.
# SHOW VIEW: without any right but SELECT on a table, MariaDB hides what its foreign keys do on delete and update
# (https://mariadb.com/kb/en/information-schema-referential_constraints-table/).
SOURCE_RIGHTS = "SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT, SLAVE MONITOR"


@dataclass(frozen=True, slots=True)
class End:
    """One end of the demo: its database, and the job's password there."""

    database: Database
    password: str = field(repr=False)

    @property
    def address(self) -> str:
        return f"{self.database.server.host}:{self.database.server.port}"


def create_source(server: Server) -> End:
    """Create the shop with its first rows; the server makes the rows itself."""
    return _create_postgresql(server) if server.name == "postgresql" else _create_mariadb(server)


def _create_postgresql(server: Server) -> End:
    """Create the shop in a PostgreSQL. The job's account owns the tables, because it publishes them."""
    end = End(Database(server, NAME), secrets.token_hex(12))
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE ROLE {ACCOUNT} LOGIN REPLICATION PASSWORD '{end.password}'")
        cursor.execute(f"CREATE DATABASE {NAME} OWNER {ACCOUNT}")
    with closing(end.database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SET ROLE {ACCOUNT}")
        for statement in statements("shop_postgresql.sql"):
            cursor.execute(statement)
        cursor.execute("ANALYZE")
    return end


def _create_mariadb(server: Server) -> End:
    end = End(Database(server, NAME), secrets.token_hex(12))
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {NAME}")
        for statement in statements():
            cursor.execute(statement)
        cursor.execute(f"CREATE USER {ACCOUNT}@'127.0.0.1' IDENTIFIED BY '{end.password}'")
        cursor.execute(f"GRANT {SOURCE_RIGHTS} ON *.* TO {ACCOUNT}@'127.0.0.1'")
    return end


def create_target(server: Server) -> End:
    """Create an empty database and the job's account, with the rights that a job needs there."""
    end = End(Database(server, NAME), secrets.token_hex(12))
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        if server.name != "postgresql":
            cursor.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
            cursor.execute(f"CREATE USER {ACCOUNT}@'127.0.0.1' IDENTIFIED BY '{end.password}'")
            for database in (NAME, ACCOUNT):  # the job keeps its state in a database of the product's name
                cursor.execute(f"GRANT ALL ON {database}.* TO {ACCOUNT}@'127.0.0.1'")
            return end
        # Owning the database, with the right to switch triggers and foreign keys off.
        cursor.execute(f"CREATE ROLE {ACCOUNT} LOGIN PASSWORD '{end.password}'")
        cursor.execute(f"CREATE DATABASE {NAME} OWNER {ACCOUNT}")
        cursor.execute(f"GRANT SET ON PARAMETER session_replication_role TO {ACCOUNT}")
    return end


def schema_at(family: str) -> str:
    """Return where the shop's tables are at a target: a schema, or a database of MySQL or MariaDB."""
    return "public" if family == "postgresql" else NAME


def statements(file: str = "shop.sql") -> list[str]:
    """Return the statements of a file, in order."""
    text = files("anabranch.demo").joinpath(file).read_text(encoding="utf-8")
    return [statement for part in text.split(";\n") if (statement := part.strip())]


def count_rows(end: End) -> tuple[int, int]:
    """Count the rows and the tables of the source. Returns (rows, tables)."""
    tables = [name for (name,) in end.database.query(TABLES.get(end.database.server.name, "SHOW TABLES"))]
    return sum(end.database.query(f"SELECT COUNT(*) FROM {name}")[0][0] for name in tables), len(tables)
