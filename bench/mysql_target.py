"""A MySQL or MariaDB as the target of workloads. The state of all jobs is in one database of the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from anabranch.testing.databases import Database, connect, create_database, drop_database
from anabranch.testing.servers import Server
from bench import mysql_family
from bench.at_target import Command, Looking
from bench.orders import TABLE

# As durable as a PostgreSQL is by default; rows by LOAD DATA LOCAL. No log of its own: a replica has none here either.
OPTIONS = (
    *mysql_family.OPTIONS,
    "--innodb-flush-log-at-trx-commit=1",
    "--skip-log-bin",
    "--local-infile=1",
    "--loose-innodb-log-file-size=2G",
    "--loose-innodb-redo-log-capacity=4G",
)
STREAMING = "SELECT count(*) FROM anabranch.table_state WHERE job = %s AND state = 'streaming'"
BUILT = """ AND facts LIKE '%%"built"%%'"""
INDEXES = "SELECT count(DISTINCT index_name) FROM information_schema.statistics WHERE table_schema = DATABASE()"
NAMED = "SELECT count(*) FROM (SELECT DISTINCT table_name, index_name FROM information_schema.statistics"
NAMED += " WHERE table_schema = DATABASE() AND index_name REGEXP %s) AS found"
DIRTY = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"
# Written at once, and not at the pace of a server that has something else to do. The later ones depend on the first.
AT_ONCE = {
    "innodb_io_capacity_max": 20_000,
    "innodb_io_capacity": 20_000,
    "innodb_max_dirty_pages_pct_lwm": 0,
    "innodb_max_dirty_pages_pct": 0,
}
FEW_PAGES, PATIENCE = 200, 60.0
REDO = ("ib_logfile", "#ib_redo", "ib_redo")


@dataclass(frozen=True)
class MysqlTarget:
    """Databases of one server, with `anabranch` beside them."""

    server: Server

    @classmethod
    def start(cls, kind: str, directory: Path) -> Self:
        return cls(mysql_family.STARTERS[kind](directory / f"target-{kind}", options=OPTIONS))

    @property
    def kind(self) -> str:
        return self.server.name

    @property
    def short(self) -> str:
        return self.server.name

    def url(self, database: Database) -> str:
        return f"{self.server.url()}?ssl_mode=disabled"

    def place(self, database: Database) -> str:
        return database.name

    def table(self, name: str) -> str:
        return name

    def orders(self, name: str) -> str:
        return TABLE.format(name=name)

    def copy(self, database: Database, label: str) -> Database:
        copy = create_database(self.server, label)
        copy.execute(
            f"CREATE TABLE orders LIKE {database.name}.orders",
            f"INSERT INTO orders SELECT * FROM {database.name}.orders",
            "ANALYZE TABLE orders",
        )
        return copy

    def reads(self, database: Database, name: str) -> Command:
        return mysql_family.rows(database, name)

    def writes(self, database: Database, name: str, form: str) -> Command:
        command, environment = mysql_family.program(self.server, mysql_family.CLIENTS[self.kind])
        load = f"LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE {name} CHARACTER SET utf8mb4"
        return [*command, "--local-infile=1", "-e", load, database.name], environment

    @contextmanager
    def without_local(self) -> Iterator[None]:
        """It takes no LOAD DATA LOCAL meanwhile."""
        with closing(connect(self.server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SET GLOBAL local_infile = 0")
            try:
                yield
            finally:
                cursor.execute("SET GLOBAL local_infile = 1")

    def applied(self, looking: Looking, job: str) -> int:
        return int(looking.one("SELECT `sequence` FROM anabranch.checkpoint WHERE job = %s", job))

    def epochs(self, looking: Looking, job: str) -> int:
        return int(looking.one("SELECT epoch FROM anabranch.checkpoint WHERE job = %s", job))

    def streaming(self, looking: Looking, job: str, *, built: bool = False) -> int:
        known = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'anabranch'"
        if not looking.one(known + " AND table_name = 'table_state'"):
            return 0
        return int(looking.one(STREAMING + (BUILT if built else ""), job))

    def megabytes(self, looking: Looking) -> float:
        """Return the size of the server's files without its redo log, which has a fixed length."""
        assert self.server.datadir is not None
        sizes = 0
        for file in self.server.datadir.rglob("*"):
            with suppress(OSError):  # it may be gone
                if not file.name.startswith(REDO) and file.is_file():
                    sizes += file.stat().st_blocks * 512
        return sizes / (1 << 20)

    def indexes_of(self, looking: Looking, name: str) -> int:
        return int(looking.one(INDEXES + " AND table_name = %s", name))

    def indexes_named(self, looking: Looking, pattern: str) -> int:
        return int(looking.one(NAMED, pattern))

    def look_by_key(self, looking: Looking) -> None:
        """It plans each question anew."""

    def flush(self) -> None:
        with closing(connect(self.server)) as connection, closing(connection.cursor()) as cursor:

            def ask(query: str) -> str:
                cursor.execute(query)
                return str(cursor.fetchone()[-1])

            before = {name: ask(f"SELECT @@GLOBAL.{name}") for name in AT_ONCE}
            for name, value in AT_ONCE.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
            limit = time.monotonic() + PATIENCE
            while int(ask(DIRTY)) > FEW_PAGES and time.monotonic() < limit:
                time.sleep(0.02)
            for name in reversed(before):
                cursor.execute(f"SET GLOBAL {name} = {before[name]}")

    def analyse(self, database: Database, name: str) -> None:
        database.execute(f"ANALYZE TABLE {name}")
        self.flush()

    def forget(self, database: Database, *names: str) -> None:
        database.execute(*(f"DROP TABLE {name}" for name in names))
        self.clear()

    def drop(self, database: Database) -> None:
        drop_database(database)
        self.clear()

    def clear(self) -> None:
        with closing(connect(self.server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("DROP DATABASE IF EXISTS anabranch")
