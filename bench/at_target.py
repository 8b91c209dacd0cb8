"""Serve what workloads ask: a target's start, its programs, what it says about a job. A PostgreSQL here, MySQL and MariaDB in
mysql_target.py.

What a workload asks of the product's own tables at the target, or of the server itself, is asked here; a workload's own
tables are its own. Statements name tables as `table` gives them, over a connection to their database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from anabranch.testing.databases import Database, connect, create_database, drop_database
from anabranch.testing.packages import find_postgresql
from anabranch.testing.servers import Server, start_postgresql
from bench.orders import TARGET_TABLE

OPTIONS = ("--shared-buffers=3GB", "--max-wal-size=8GB", "--checkpoint-timeout=15min")
HAS_STATES = "SELECT to_regclass('anabranch.table_state') IS NOT NULL"
STREAMING = "SELECT count(*) FROM anabranch.table_state WHERE job = %s AND state = 'streaming'"
BUILT = " AND facts ? 'built'"
VALID = "SELECT count(*) FROM pg_index WHERE indrelid = %s::text::regclass AND indisvalid"
Command = tuple[list[object], dict[str, str]]  # a program with its options, and its environment


class Looking:
    """An open connection to a database. Each question is a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self.connection = connect(database.server, database.name)

    def ask(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(query, parameters or None)
            return list(cursor.fetchall())

    def one(self, query: str, *parameters: object) -> Any:
        """The value of a query that has one."""
        return self.ask(query, *parameters)[0][0]

    def tell(self, *statements: str) -> None:
        with closing(self.connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


class Target(Protocol):
    """A server that rows go to; `short` is its name in names of figures, behind the source's."""

    @property
    def kind(self) -> str: ...
    @property
    def short(self) -> str: ...
    @property
    def server(self) -> Server: ...

    # --- a job, and tables ---

    def url(self, database: Database) -> str:
        """Return the `[target]` section of a job that writes to this database."""

    def place(self, database: Database) -> str:
        """Return the place to which a job's rules send its tables."""

    def table(self, name: str) -> str: ...

    def orders(self, name: str) -> str:
        """CREATE TABLE of one with the columns of `orders`."""

    def copy(self, database: Database, label: str) -> Database:
        """Another database of the server's with the same table `orders`."""

    # --- programs ---

    def reads(self, database: Database, name: str) -> Command:
        """Print all rows of a table."""

    def writes(self, database: Database, name: str, form: str) -> Command:
        """Take the rows of a table from its input, in a form in which the source's client prints them."""

    # --- what it says about a job ---

    def applied(self, looking: Looking, job: str) -> int:
        """The sequence up to which a job has applied, once its load has begun."""

    def epochs(self, looking: Looking, job: str) -> int:
        """How many epochs a job has applied."""

    def streaming(self, looking: Looking, job: str, *, built: bool = False) -> int:
        """How many tables of a job stream, 0 before it has begun; `built`: and have their indexes and keys."""

    # --- what it says about itself, and does ---

    def megabytes(self, looking: Looking) -> float:
        """Return what the table's rows take on disk, those included that are not committed yet."""

    def indexes_of(self, looking: Looking, name: str) -> int:
        """How many indexes of a table are whole, that of its primary key too."""

    def indexes_named(self, looking: Looking, pattern: str) -> int:
        """How many indexes of the database have a name that matches a regular expression."""

    def look_by_key(self, looking: Looking) -> None:
        """Whoever looks for what is new in a table will not read all of it, whatever the server knew when it was empty."""

    def flush(self) -> None:
        """All that was written is on the disk: what comes next does not pay for it."""

    def analyse(self, database: Database, name: str) -> None:
        """A table is as it is after a while."""

    def forget(self, database: Database, *names: str) -> None:
        """Drop these tables, and all that the product keeps beside them."""

    def drop(self, database: Database) -> None:
        """With all that the product keeps beside its tables."""

    def clear(self) -> None:
        """A workload is over: its jobs are not known any more, so that others may have their names."""


@dataclass(frozen=True)
class PostgresTarget:
    """Each database has the state of its jobs in a schema of its own."""

    server: Server
    kind: ClassVar[str] = "postgresql"
    short: ClassVar[str] = "pg"

    @classmethod
    def start(cls, directory: Path) -> Self:
        return cls(start_postgresql(directory / cls.kind, options=OPTIONS))

    def url(self, database: Database) -> str:
        return database.url

    def place(self, database: Database) -> str:
        return "public"

    def table(self, name: str) -> str:
        return f"public.{name}"

    def orders(self, name: str) -> str:
        return TARGET_TABLE.format(name=self.table(name))

    def copy(self, database: Database, label: str) -> Database:
        copy = create_database(self.server, label)
        copy.execute(self.orders("orders"))
        with closing(database.connect()) as reader, closing(copy.connect()) as writer:
            with (
                reader.cursor().copy("COPY public.orders TO STDOUT (FORMAT binary)") as rows,
                writer.cursor().copy("COPY public.orders FROM STDIN (FORMAT binary)") as into,
            ):
                for block in rows:
                    into.write(block)
            writer.execute("ANALYZE public.orders")
        return copy

    def reads(self, database: Database, name: str) -> Command:
        return psql(database, "-c", f"COPY {self.table(name)} TO STDOUT")

    def writes(self, database: Database, name: str, form: str) -> Command:
        return psql(database, "-c", rf"\copy {self.table(name)} from pstdin {form}")

    def applied(self, looking: Looking, job: str) -> int:
        return int(looking.one("SELECT sequence FROM anabranch.checkpoint WHERE job = %s", job))

    def epochs(self, looking: Looking, job: str) -> int:
        return int(looking.one("SELECT epoch FROM anabranch.checkpoint WHERE job = %s", job))

    def streaming(self, looking: Looking, job: str, *, built: bool = False) -> int:
        if not looking.one(HAS_STATES):
            return 0
        return int(looking.one(STREAMING + (BUILT if built else ""), job))

    def megabytes(self, looking: Looking) -> float:
        return float(looking.one("SELECT pg_database_size(current_database())")) / (1 << 20)

    def indexes_of(self, looking: Looking, name: str) -> int:
        return int(looking.one(VALID, self.table(name)))

    def indexes_named(self, looking: Looking, pattern: str) -> int:
        return int(looking.one("SELECT count(*) FROM pg_indexes WHERE indexname ~ %s", pattern))

    def look_by_key(self, looking: Looking) -> None:
        looking.tell("SET enable_seqscan = off", "SET enable_bitmapscan = off")
        looking.connection.prepare_threshold = 0  # planned once

    def flush(self) -> None:
        connect(self.server).execute("CHECKPOINT")

    def analyse(self, database: Database, name: str) -> None:
        database.execute(f"VACUUM ANALYZE {self.table(name)}")

    def forget(self, database: Database, *names: str) -> None:
        database.execute(*(f"DROP TABLE {self.table(name)}" for name in names), "DROP SCHEMA anabranch CASCADE")

    def drop(self, database: Database) -> None:
        drop_database(database)

    def clear(self) -> None:
        """Each workload has databases of its own."""


def psql(database: Database, *options: str) -> Command:
    """`psql` on a database of a PostgreSQL, and its environment."""
    software, server = find_postgresql(), database.server
    command: Sequence[object] = [software.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", *options]
    variables = {
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": server.user,
        "PGPASSWORD": server.password,
        "PGDATABASE": database.name,
    }
    return list(command), {**os.environ, **software.environment(), **variables}
