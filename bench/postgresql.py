"""A PostgreSQL as the source of the workloads: its options, its ceilings, its own replication as the peer.

What does not live here: what is measured (load.py, capture.py, catchup.py, latency.py)."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database, connect, create_database
from anabranch.testing.packages import find_postgresql
from anabranch.testing.servers import Server, start_postgresql
from bench import at_target
from bench.at_target import Command, psql
from bench.orders import ROWS_PER_UPDATE, Orders
from bench.processes import Cost, measured
from bench.stand import Job, Stand

# As the other sources it does not wait for the disk at commits: it is the reading that is measured.
OPTIONS = ("--wal-level=logical", "--max-replication-slots=50", "--synchronous-commit=off", *at_target.OPTIONS)
PATIENCE = 1800.0
TABLE = """
CREATE TABLE orders (
  id bigint PRIMARY KEY, customer_id integer NOT NULL, status varchar(16) NOT NULL, amount numeric(12,2) NOT NULL,
  note varchar(200) NOT NULL, created_at timestamp(6) NOT NULL, flag smallint NOT NULL, payload varchar(100) NOT NULL)
"""
_ROW = (
    "{k}, {k} % 100003, (ARRAY['new', 'paid', 'shipped', 'cancelled'])[1 + {k} % 4], {k} % 999983 / 100.0,"
    " 'order ' || {k} || ' of ' || md5({k}::text) || ' left the house today',"
    " timestamp '2024-01-01 00:00:00.000001' + {k} * interval '7 seconds', {k} % 2, md5(({k} + 1)::text) || ' pay'"
)
_ONE_BY_ONE = (
    "CREATE PROCEDURE one_by_one(k bigint, last bigint) LANGUAGE plpgsql AS $$ BEGIN WHILE k < last LOOP"
    f" INSERT INTO orders VALUES ({_ROW.format(k='k')}); COMMIT; k := k + 1; END LOOP; END $$"
)


@dataclass
class PostgresOrders(Orders):
    """The same rows and changes."""

    def create(self, rows: int) -> None:
        self._run(TABLE, _ONE_BY_ONE)
        for first in range(0, rows, 500_000):
            self.insert(min(500_000, rows - first))
        self.base = rows
        self._run("ANALYZE orders")

    def insert(self, rows: int) -> int:
        last = self.next + rows - 1
        self._run(
            f"INSERT INTO orders SELECT {_ROW.format(k='n')} FROM generate_series({self.next}::bigint, {last}) AS n"
        )
        self.next += rows
        return 1

    def _update(self, cursor: Any) -> None:
        keys = self._random.sample(range(self.base or self.next), ROWS_PER_UPDATE)
        cursor.execute(
            f"UPDATE orders SET amount = amount + 1, flag = 1 - flag WHERE id IN ({', '.join(map(str, keys))})"
        )


class PostgresStand(Stand):
    schema = "public"

    @property
    def forms(self) -> tuple[str, ...]:
        return ("", "(FORMAT binary)") if self.is_alike else ("",)

    def start(self, directory: Path) -> Server:
        return start_postgresql(directory, options=OPTIONS)

    def orders(self, database: Database) -> Orders:
        return PostgresOrders(database)

    def url(self, source: Database) -> str:
        return self.source.url(source.name)

    def ledger(self) -> str:
        """Its writer waits for the disk: a walsender gives nothing that is not on it."""
        table = "CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, written bigint NOT NULL)"
        waits = "EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database())"
        return f"{table}; DO $$ BEGIN {waits}; END $$"

    def rows(self, source: Database, form: str = "") -> Command:
        return psql(source, "-c", f"COPY orders TO STDOUT {form}")

    def log_begins(self, job: Job) -> Any:
        """A slot that stays where the trail begins."""
        job.source.execute(f"SELECT pg_copy_logical_replication_slot('{_slot(job)}', 'bench_begun')")
        return ""

    def copy_log(self, job: Job, begin: Any) -> Cost:
        """`pg_recvlogical`, of the same messages."""
        again(job.source, "bench_begun", "bench_raw")
        end = job.source.query("SELECT pg_current_wal_flush_lsn()::text")[0][0]
        file = self.copied()
        file.unlink(missing_ok=True)
        options = [f"--endpos={end}", "-o", "proto_version=1", "-o", f"publication_names={_slot(job)}"]
        command = [
            find_postgresql().program("pg_recvlogical"),
            "-d",
            job.source.name,
            "-S",
            "bench_raw",
            "--start",
            "-f",
            file,
            *options,
        ]
        _, environment = psql(job.source)
        return measured([*command, "--no-password"], environment)

    def copied(self) -> Path:
        return self.directory / "raw"

    def log_again(self, job: Job) -> None:
        again(job.source, "bench_begun", _slot(job))

    def replica(self, source: Database) -> Subscriber:
        server = start_postgresql(self.directory / "subscriber", options=OPTIONS)
        self._stack.enter_context(server)
        return Subscriber(source, create_database(server, "subscriber"))


class Subscriber:
    """Native logical replication with its defaults, of the same table."""

    def __init__(self, source: Database, own: Database) -> None:
        self._source, self._own = source, own
        own.execute(TABLE)
        source.execute("CREATE PUBLICATION peer FOR TABLE orders")
        server = source.server
        line = (
            f"host={server.host} port={server.port} user={server.user} password={server.password} dbname={source.name}"
        )
        own.execute(f"CREATE SUBSCRIPTION peer CONNECTION '{line}' PUBLICATION peer")
        _until(lambda: own.query("SELECT 1 FROM pg_subscription_rel WHERE srsubstate <> 'r'") == [])
        self.catch_up()
        own.execute("ALTER SUBSCRIPTION peer DISABLE")

    def catch_up(self) -> float:
        """From its start to the last transaction applied there."""
        end = self._source.query("SELECT pg_current_wal_flush_lsn()::text")[0][0]
        begin = time.monotonic()
        self._own.execute("ALTER SUBSCRIPTION peer ENABLE")
        with closing(connect(self._source.server, self._source.name)) as connection:
            query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = 'peer'"
            _until(lambda: connection.execute(query, [end]).fetchone()[0])
        seconds = time.monotonic() - begin
        self._own.execute("ALTER SUBSCRIPTION peer DISABLE")
        return seconds


def _slot(job: Job) -> str:
    query = (
        "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'anabranch%' AND database = current_database()"
    )
    return str(job.source.query(query)[0][0])


def again(database: Database, kept: str, name: str) -> None:
    """Slot `name` is where slot `kept` is, once nobody reads it."""
    drop_slot(database, name)
    database.query("SELECT pg_copy_logical_replication_slot(%s, %s)", [kept, name])


def drop_slot(database: Database, name: str) -> None:
    """Where there is one, once nobody reads it."""
    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    _until(lambda: not database.query("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", [name]))
    database.query(query, [name])


def _until(condition: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)
