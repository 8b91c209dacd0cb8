"""MySQL and MariaDB as a history's source (sources.SourceFamily): their own modules, put together."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import PreflightFailed
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server, start_mariadb, start_mysql
from anabranch.testing.torture.beside import prepared, roll_back
from anabranch.testing.torture.ends import source_lines, version_of
from anabranch.testing.torture.events import EVENTS, Event
from anabranch.testing.torture.history import History
from anabranch.testing.torture.mysql_entered import entered
from anabranch.testing.torture.mysql_sessions import MysqlSpeaker
from anabranch.testing.torture.order import Place, commit_order, log_end, require_reader
from anabranch.testing.torture.place import LOCK_SECONDS
from anabranch.testing.torture.sources import Commits, Kinds, SourceFamily
from anabranch.testing.torture.tables import Schema, create_statements
from anabranch.testing.torture.values import Version, kinds
from anabranch.testing.torture.worst import at_each_login

# Nothing here has to survive a power failure, and what is to be lost must not be on its way to the disk already.
FAST = (
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--max-binlog-size=64M",
)
# What sessions of a history need, and a statement that shows whether they have it.
NEEDED = (
    ("REPLICATION CLIENT", "SHOW BINARY LOGS"),
    ("SESSION_VARIABLES_ADMIN (MariaDB: BINLOG ADMIN)", "SET SESSION binlog_row_image = 'FULL'"),
    ("XA_RECOVER_ADMIN", "XA RECOVER"),
)
NUMBERS = ("int", "int", "int", "bigint unsigned", "smallint", "decimal")
WHO = ("SHOW FULL PROCESSLIST", "XA RECOVER", "SELECT * FROM information_schema.INNODB_TRX")  # may hold a lock


@dataclass
class MysqlSource:
    name: str
    job_database: str = ""
    has_beside: bool = True
    has_images: bool = True
    commits_truncates: bool = True
    hides_actions: bool = True
    has_policies: bool = False
    preloaded: Sequence[str] = (
        "anabranch.connectors.mariadb",
        "anabranch.connectors.mysql.source.capture",
        "anabranch.connectors.mysql.source.catalog",
        "anabranch.connectors.mysql.source.statements",
        "anabranch.connectors.mysql.source.definitions",
        "anabranch.connectors.mysql.source.load",
        "anabranch.connectors.mysql.source.snapshot",
        "pymysql",
    )

    def kinds(self, version: Version, decoder: str = "") -> Kinds:
        return Kinds(kinds(self.name, version), NUMBERS, "int")

    def events(self, schema: Schema) -> Mapping[Event, int]:
        return EVENTS

    def start(self, directory: Path, decoders: Sequence[str] = ()) -> Server:
        starts = {"mariadb": start_mariadb, "mysql": start_mysql}
        return starts[self.name](directory / self.name, options=(*FAST, f"--init-connect={at_each_login(self.name)}"))

    def entered(self, end: Endpoint) -> Server:
        server = entered(end, "source")
        _require_log(server)
        require_reader(server)
        return server

    def named(self, server: Server) -> list[tuple[str, str]]:
        databases = Database(server, "").query("SELECT schema_name FROM information_schema.schemata")
        return [("database", name) for (name,) in databases]

    def prepare(self, history: History, server: Server) -> Place:
        with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {history.database}")
            cursor.execute(f"CREATE DATABASE {history.database} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {history.database}")
            cursor.execute("SET foreign_key_checks = 0")
            for statement in create_statements(history.schema.at_first, server.name, version_of(server)):
                cursor.execute(statement)
            return log_end(server, cursor)

    def tell_whole_rows(self, server: Server, name: str) -> None:
        """Do nothing: it does, where no session says otherwise (History.images)."""

    def commits(self, server: Server, place: Place, history: History) -> Commits:
        alone = ((one.number, one.alone) for one in history.transactions)
        drops = {statement.table: number for number, statement in alone if statement and statement.do == "drop"}
        return Commits(commit_order(server, place, history.database, drops))

    def lines(self, server: Server, database: str, schema: Schema) -> dict[str, list[bytes]]:
        return source_lines(server, database, schema)

    def drop(self, server: Server, name: str) -> None:
        """Drop the database; the error about a lock says who may hold it."""
        try:
            Database(server, "").execute(
                f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}", f"DROP DATABASE IF EXISTS {name}"
            )
        except Exception as error:  # whatever it was: said who may be in the way, and passed on
            with contextlib.suppress(Exception):  # a server that is away
                for question in WHO:
                    error.add_note(f"{question}: {Database(server, '').query(question)}")
            raise

    def roll_back(self, server: Server, name: str) -> None:
        roll_back(server, prepared(server, name))

    def session(self, server: Server, history: History, number: int) -> MysqlSpeaker:
        return MysqlSpeaker(server, history, number)


def family(name: str) -> SourceFamily:
    return MysqlSource(name)


# --- a server of the user's ----------------------------------------------------------------------------------------------


def _require_log(source: Server) -> None:
    """A log of rows, and the rights that sessions of a history use. Raises PreflightFailed."""
    import pymysql

    with closing(connect(source)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
        is_on, written = cursor.fetchone()
        if not int(is_on):
            raise PreflightFailed("--source: its binary log is off", hint="start it with log_bin and binlog_format=ROW")
        if str(written).upper() != "ROW":
            raise PreflightFailed(f"--source: binlog_format is {written}", hint="SET GLOBAL binlog_format = 'ROW'")
        for needs, tries in NEEDED:
            try:
                cursor.execute(tries)
                cursor.fetchall()
            except pymysql.err.MySQLError as error:
                raise PreflightFailed(
                    f"--source: its user may not {tries}: {error.args[-1]}", hint=f"grant it {needs}"
                ) from error
