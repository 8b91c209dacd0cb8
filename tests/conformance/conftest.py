"""The suites' subjects: the twin, MySQL, MariaDB and PostgreSQL, as sources and as targets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.memory.database import Transaction, database, forget
from anabranch.connectors.mysql.target.staging import NOT_YET
from anabranch.connectors.postgresql.source import PostgresSource, truncate_notes
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.decoders import DECODERS
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.testing.conformance.epochs import Target
from anabranch.testing.conformance.reader import OPTIONS, PATIENCE
from anabranch.testing.conformance.subject import COLUMNS, Texts
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.features import spelled
from anabranch.testing.in_time import in_time, until
from rigs.mysql_writer import Roles
from rigs.postgresql_sessions import drop_origins, drop_slots, session_from

TYPES = (
    LogicalType(Kind.INT64),
    LogicalType(Kind.TEXT, length=100),
    LogicalType(Kind.INT32),
    LogicalType(Kind.DECIMAL, precision=12, scale=2),
    LogicalType(Kind.BINARY, length=100),
    LogicalType(Kind.TIMESTAMP),
)
POSTGRESQL_TYPES = ("BIGINT NOT NULL", "VARCHAR(100)", "INT", "NUMERIC(12,2)", "BYTEA", "TIMESTAMP(6)")
SQL_TYPES = ("BIGINT NOT NULL", "VARCHAR(100)", "INT", "DECIMAL(12,2)", "VARBINARY(100)", "DATETIME(6)")


class MemorySubject:
    cuts_places = False
    origins = ("north", "south")

    def __init__(self, name: str) -> None:
        self.name, self.options = name, OPTIONS
        self.connector = connectors.source(Endpoint("memory", "", 0, "", "", name))

    def create(self, name: str, has_key: bool = True) -> TableId:
        columns = tuple(
            Column(column, type, str(type), nullable=column != "id")
            for column, type in zip(COLUMNS, TYPES, strict=True)
        )
        table = TableId(self.name, name)
        database(self.name).create(TableSchema(table, columns, ("id",) if has_key else ()))
        return table

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with database(self.name).transaction() as open_:
            yield open_

    @contextmanager
    def from_origin(self, origin: str) -> Iterator[Transaction]:
        with database(self.name).transaction(origin) as open_:
            yield open_

    def prepare(self, name: str) -> None:
        return None

    def decide(self, name: str, commit: bool) -> None:
        raise AssertionError("nothing is prepared here")

    def truncate(self, table: TableId) -> None:
        database(self.name).table(table).rows.clear()
        database(self.name).execute(f"TRUNCATE TABLE {table.name}", self.name)

    def purge(self) -> None:
        database(self.name).purge()


class SqlSubject:
    """MySQL or MariaDB."""

    cuts_places = False
    origins = ("4321", "4322")

    def __init__(self, made: Database) -> None:
        self.database, self.options = made, OPTIONS
        self.connector = connectors.source(endpoint(made.url))

    def create(self, name: str, has_key: bool = True) -> TableId:
        types = [spelled(self.database.server, type) for type in SQL_TYPES]
        columns = ", ".join(f"{column} {type}" for column, type in zip(COLUMNS, types, strict=True))
        self.database.execute(f"CREATE TABLE {name} ({columns}{', PRIMARY KEY (id)' if has_key else ''})")
        return TableId(self.database.name, name)

    @contextmanager
    def transaction(self) -> Iterator[SqlChanges]:
        with closing(self.database.connect(autocommit=False)) as connection:
            yield SqlChanges(connection)
            connection.commit()

    @contextmanager
    def from_origin(self, origin: str) -> Iterator[SqlChanges]:
        """What a replica's thread writes down: the id of the server that made it. MySQL lets no session have one of its own."""
        is_mysql = self.database.server.name == "mysql"
        ((own,),) = self.database.query("SELECT @@global.server_id")
        if is_mysql:
            self.database.execute(f"SET GLOBAL server_id = {origin}")
        try:
            with closing(self.database.connect(autocommit=False)) as connection:
                changes = SqlChanges(connection)
                if not is_mysql:
                    changes.cursor.execute(f"SET SESSION server_id = {origin}")
                yield changes
                connection.commit()
        finally:
            if is_mysql:
                self.database.execute(f"SET GLOBAL server_id = {own}")

    @contextmanager
    def prepare(self, name: str) -> Iterator[SqlChanges]:
        xid = f"'{name}','{self.database.name}'"
        with closing(self.database.connect()) as connection:
            changes = SqlChanges(connection)
            changes.cursor.execute(f"XA START {xid}")
            yield changes
            changes.cursor.execute(f"XA END {xid}")
            changes.cursor.execute(f"XA PREPARE {xid}")

    def decide(self, name: str, commit: bool) -> None:
        """MySQL lets others end it only when the session that prepared it is gone."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self.database.execute(f"XA {'COMMIT' if commit else 'ROLLBACK'} '{name}','{self.database.name}'")
                return
            except pymysql.err.MySQLError as error:
                assert "XAER_NOTA" in str(error), error
                in_time(give_up, error)
                time.sleep(0.05)

    def truncate(self, table: TableId) -> None:
        self.database.execute(f"TRUNCATE TABLE {table.name}")

    def purge(self) -> None:
        """A file that a reader has just left may stay for a moment."""
        self.database.execute("FLUSH BINARY LOGS")
        newest = self.database.query("SHOW BINARY LOGS")[-1][0]
        until(lambda: self._is_purged_to(newest), "the log is not purged")

    def _is_purged_to(self, newest: str) -> bool:
        self.database.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return len(self.database.query("SHOW BINARY LOGS")) == 1


class PostgresSubject:
    """With a slot of its own. Whole rows are logged, as the suite's images are."""

    def __init__(self, made: Database, decoder: str, decoding: str) -> None:
        self.database = made
        self.options, self.decoder = replace(OPTIONS, name=made.name, decoding=decoding), DECODERS[decoder]
        self.connector = PostgresSource(endpoint(made.url), PostgresSourceOptions(decoder=decoder))
        self.cuts_places = int(made.query("SHOW server_version_num")[0][0]) >= 140_000  # TID range scans
        self.origins = (f"{made.name} north", f"{made.name} south") if decoder == "pgoutput" else ()
        slot = f"SELECT pg_create_logical_replication_slot('{made.name}', '{decoder}')"
        made.execute(f"CREATE PUBLICATION {made.name} FOR ALL TABLES", slot)

    def create(self, name: str, has_key: bool = True) -> TableId:
        columns = ", ".join(f"{column} {type}" for column, type in zip(COLUMNS, POSTGRESQL_TYPES, strict=True))
        key = ", PRIMARY KEY (id)" if has_key else ""
        self.database.execute(f"CREATE TABLE {name} ({columns}{key})", f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        table = TableId("public", name)
        if not self.decoder.truncates:
            with open_session(self.connector.endpoint) as connection:
                steps = truncate_notes.missing(connection, self.options.name, [table])
            self.connector.run(steps, PATIENCE)
        return table

    @contextmanager
    def transaction(self) -> Iterator[SqlChanges]:
        with closing(self.database.connect(autocommit=False)) as connection:
            yield SqlChanges(connection)
            connection.commit()

    @contextmanager
    def from_origin(self, origin: str) -> Iterator[SqlChanges]:
        with session_from(self.database, origin) as connection:
            yield SqlChanges(connection)
            connection.commit()
            connection.execute("SELECT pg_replication_origin_session_reset()")  # the next may come before this ends

    def prepare(self, name: str) -> None:
        return None

    def decide(self, name: str, commit: bool) -> None:
        raise AssertionError("its log has rows where they are committed")

    def truncate(self, table: TableId) -> None:
        self.database.execute(f"TRUNCATE TABLE {table.name}")

    def purge(self) -> None:
        """Somebody else reads the slot."""
        self.database.execute(f"SELECT pg_replication_slot_advance('{self.database.name}', pg_current_wal_lsn())")

    def close(self) -> None:
        """The server lets go of a slot when it sees that its reader is gone."""
        drop_slots(self.database)
        drop_origins(self.database, f"{self.database.name} %")


class SqlChanges:
    def __init__(self, connection: Any) -> None:
        self.cursor = connection.cursor()

    def insert(self, table: TableId, values: Texts) -> None:
        marks = ", ".join(["%s"] * len(values))
        self.cursor.execute(f"INSERT INTO {table.name} ({', '.join(values)}) VALUES ({marks})", _native(values))

    def update(self, table: TableId, where: Texts, values: Texts) -> None:
        sets = ", ".join(f"{name} = %s" for name in values)
        self.cursor.execute(
            f"UPDATE {table.name} SET {sets} WHERE {_condition(where)}", [*_native(values), *_native(where)]
        )

    def delete(self, table: TableId, where: Texts) -> None:
        self.cursor.execute(f"DELETE FROM {table.name} WHERE {_condition(where)}", _native(where))


def _condition(where: Texts) -> str:
    return " AND ".join(f"{name} = %s" for name in where)


def _native(values: Texts) -> list[Any]:
    return [bytes.fromhex(v[2:]) if n == "data" and v is not None else v for n, v in values.items()]


def endpoint(url: str) -> Endpoint:
    found, problems = parse_url(url, {}, needs_database=True)
    assert found is not None, problems
    return found


OTHER_DECODERS = ("wal2json", "decoderbufs")
OTHER_POSTGRESQL = ("postgresql11", "postgresql12", "postgresql15", "postgresql17")
# Of the servers of `make test-servers` the one that has all that is asked here: fractions of seconds, XA in the log.
OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql9", *OTHER_DECODERS, *OTHER_POSTGRESQL)]


PYTHON = "postgresql by Python"  # without the compiled decoder
POSTGRESQL = {
    "postgresql": "logical_postgresql",
    PYTHON: "logical_postgresql",
    "wal2json": "postgresql15",
    "decoderbufs": "postgresql15",
}


@pytest.fixture(params=["memory", "mariadb", "mysql", "postgresql", PYTHON, *OTHERS])
def source(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield MemorySubject("conformance")
        forget()
        return
    if request.param in ("postgresql", PYTHON, *OTHER_DECODERS, *OTHER_POSTGRESQL):
        is_other = request.param in OTHER_DECODERS
        server = request.getfixturevalue(POSTGRESQL.get(request.param, request.param))
        made = create_database(server, request.node.name)
        decoder, decoding = request.param if is_other else "pgoutput", "python" if request.param == PYTHON else "auto"
        subject = PostgresSubject(made, decoder, decoding)
        yield subject
        subject.close()
    else:
        made = create_database(request.getfixturevalue(request.param), request.node.name)
        yield SqlSubject(made)
    drop_database(made)


OTHER_TARGETS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]


@pytest.fixture(params=["memory", "postgresql", "mysql", "mariadb", *OTHER_TARGETS])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    made = None
    connector: Any
    if request.param == "memory":
        connector = connectors.target(Endpoint("memory", "", 0, "", "", "conformance"))
    else:
        made = create_database(request.getfixturevalue(request.param), request.node.name)
        found = endpoint(made.url)
        connector = connectors.target(found) if request.param == "postgresql" else Roles(found)
        _clear_away(made)
    with closing(connector.store()) as store:
        store.prepare()
    yield Target(connector, NOT_YET)
    if made is None:
        forget()
    else:
        _clear_away(made)
        drop_database(made)


def _clear_away(made: Database) -> None:
    """At MySQL and MariaDB the suite's schema, and that of the state, are databases of their own."""
    if made.server.name != "postgresql":
        for name in ("public", "anabranch"):
            drop_database(replace(made, name=name))
