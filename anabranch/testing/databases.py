"""Fresh databases on a server, for tests: made, spoken to, and dropped whoever still uses them."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

from anabranch.testing.servers import Server
from anabranch.testing.sessions import Kept, Plain

_LONGEST_NAME = 63  # PostgreSQL's limit; MySQL's is 64
_FORCE = 130_000  # from here on PostgreSQL ends the sessions of a database that is dropped
_STRATEGY = 150_000  # from here on it copies files only if asked to; to log each page costs twice the processor time
_plain = Plain()
_administrators = Kept()  # of sessions in which databases are made and dropped, and nothing else is done


@dataclass(frozen=True, slots=True)
class Database:
    """One database (MySQL: schema) of a server."""

    server: Server
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def connect(self, **options: Any) -> Any:
        """A DB-API connection of PyMySQL or psycopg, autocommit unless `autocommit=False`; close it yourself."""
        return connect(self.server, self.name, **options)

    def execute(self, *statements: str) -> None:
        """Run statements in one session that is like a new one, each committed at once."""
        with self._session(*statements) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def query(self, sql: str, parameters: Sequence[object] | None = None, **options: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query, in a session that is like a new one; `options` go to the driver."""
        with self._session(sql, **options) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def _session(self, *statements: str, **options: Any) -> AbstractContextManager[Any]:
        if self.server.name == "postgresql":  # a plan that is kept would not survive that its table is altered
            options["prepare_threshold"] = None
        key = (*_entry(self.server), self.name, *sorted(options.items()))
        return _plain.get(lambda: _open(self.server, self.name, **options), statements, *key)


def connect(server: Server, database: str = "", **options: Any) -> Any:
    """A DB-API connection to `server` with its administrator's account; `options` go to the driver."""
    connection = _open(server, database, **options)
    _plain.somebody_has(connection)
    return connection


def _open(server: Server, database: str = "", **options: Any) -> Any:
    place: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "autocommit": True,
    }
    if server.name == "postgresql":
        import psycopg

        return psycopg.connect(**place | {"dbname": database or "postgres"} | options)
    from anabranch.connectors.mysql.connection import Connection

    return Connection(**place | {"database": database or None, "charset": "utf8mb4"} | options)


def create_database(server: Server, label: str = "") -> Database:
    """A new, empty database whose name contains `label` and is used by nobody else."""
    database = Database(server, unique_name(label))
    with _administrator(server) as connection, closing(connection.cursor()) as cursor:
        if server.name != "postgresql":
            how = " CHARACTER SET utf8mb4"
        else:
            how = " STRATEGY file_copy" if connection.info.server_version >= _STRATEGY else ""
        cursor.execute(f"CREATE DATABASE {database.name}{how}")
    return database


def drop_database(database: Database) -> None:
    """Drop it, ending the sessions that still use it; a server of ours that a test left stopped is started."""
    if database.server.can_restart:
        database.server.start()
    _plain.close()
    with _administrator(database.server) as connection, closing(connection.cursor()) as cursor:
        if database.server.name == "postgresql":
            _end_readers(cursor, database.name)
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database.name])
            force = " WITH (FORCE)" if connection.info.server_version >= _FORCE else ""
            cursor.execute(f"DROP DATABASE IF EXISTS {database.name}{force}")
        else:
            _end_sessions(cursor, database.name)
            cursor.execute(f"DROP DATABASE IF EXISTS {database.name}")


def _administrator(server: Server) -> AbstractContextManager[Any]:
    return _administrators.get(lambda: _open(server), *_entry(server))


def _entry(server: Server) -> tuple[object, ...]:
    return server.host, server.port, server.user, server.password


def unique_name(label: str = "") -> str:
    """A database name that needs no quotes: `t_`, what of `label` fits, and 40 random bits."""
    suffix = secrets.token_hex(5)
    readable = re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")[: _LONGEST_NAME - len(suffix) - 3]
    return "_".join(part for part in ("t", readable, suffix) if part)


def _end_readers(cursor: Any, name: str) -> None:
    """End the readers of its replication slots: an active slot would refuse the DROP, others go with the database."""
    until = time.monotonic() + 120
    query = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active"
    while cursor.execute(query, (name,)).fetchall() and time.monotonic() < until:
        time.sleep(0.05)


def _end_sessions(cursor: Any, name: str) -> None:
    """An open transaction would hold the DROP up on its metadata lock."""
    import pymysql

    cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
    for (session,) in cursor.fetchall():
        try:
            cursor.execute(f"KILL {session}")
        except pymysql.err.OperationalError as e:
            if e.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:  # it ended by itself
                raise
