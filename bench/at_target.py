"""The target of every workload, a PostgreSQL: its start, its client, and what it says about a job.

What a workload asks of the product's own tables at the target, or of the server itself, is asked here; a workload's own
tables are its own. Connections are open ones of the caller's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database, connect
from anabranch.testing.packages import find_postgresql
from anabranch.testing.servers import Server, start_postgresql

NAME = "pg"  # in names of figures, behind the source's
OPTIONS = ("--shared-buffers=3GB", "--max-wal-size=8GB", "--checkpoint-timeout=15min")
HAS_STATES = "SELECT to_regclass('anabranch.table_state') IS NOT NULL"
STREAMING = "SELECT count(*) FROM anabranch.table_state WHERE job = %s AND state = 'streaming'"
BUILT = " AND facts ? 'built'"


def start(directory: Path) -> Server:
    return start_postgresql(directory / "postgresql", options=OPTIONS)


def client(server: Server, database: Database, *options: str) -> tuple[list[object], dict[str, str]]:
    """`psql` on a database of the server's, and its environment."""
    software = find_postgresql()
    command = [software.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", *options]
    variables = {
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": server.user,
        "PGPASSWORD": server.password,
        "PGDATABASE": database.name,
    }
    return command, {**os.environ, **software.environment(), **variables}


# --- what it says about a job -----------------------------------------------------------------------------------------


def applied(connection: Any, job: str) -> int:
    """The sequence up to which a job has applied, once its load has begun."""
    return int(_one(connection, "SELECT sequence FROM anabranch.checkpoint WHERE job = %s", job))


def epochs(connection: Any, job: str) -> int:
    """How many epochs a job has applied."""
    return int(_one(connection, "SELECT epoch FROM anabranch.checkpoint WHERE job = %s", job))


def streaming(connection: Any, job: str, *, built: bool = False) -> int:
    """How many tables of a job stream, 0 before it has begun; `built`: and have their indexes and keys."""
    if not _one(connection, HAS_STATES):
        return 0
    return int(_one(connection, STREAMING + (BUILT if built else ""), job))


def forget(database: Database, *tables: str) -> None:
    """Drop these tables, and all that the product keeps in the database."""
    database.execute(*(f"DROP TABLE {table}" for table in tables), "DROP SCHEMA anabranch CASCADE")


def flush(database: Database) -> None:
    """All that was written is on the disk: what comes next does not pay for it."""
    connect(database.server).execute("CHECKPOINT")


# --- what it says about itself ----------------------------------------------------------------------------------------


def megabytes(connection: Any) -> float:
    """The database's size, with what is not committed yet."""
    return float(_one(connection, "SELECT pg_database_size(current_database())")) / (1 << 20)


def valid_indexes(connection: Any, table: str) -> int:
    return int(
        _one(connection, "SELECT count(*) FROM pg_index WHERE indrelid = %s::text::regclass AND indisvalid", table)
    )


def indexes_named(connection: Any, pattern: str) -> int:
    """How many indexes have a name that matches a regular expression."""
    return int(_one(connection, "SELECT count(*) FROM pg_indexes WHERE indexname ~ %s", pattern))


def _one(connection: Any, query: str, *parameters: str) -> Any:
    return connection.execute(query, parameters or None).fetchone()[0]
