"""A server and its replica, which takes over: a MySQL or MariaDB with GTIDs, a PostgreSQL that keeps its slots in step.

What does not live here: who reads them (test_mysql_live_promoted.py, test_scenario_promoted.py, test_both_ways_promoted.py).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.testing import packages
from anabranch.testing.databases import Database, connect
from anabranch.testing.in_time import until
from anabranch.testing.recipes import give_away
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql
from rigs.postgresql_source import SOURCE_OPTIONS

START = {"mariadb": start_mariadb, "mysql": start_mysql}
JOIN = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, SOURCE_USER = '{user}',"
    " SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = '{user}',"
    " MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos",
}
EXECUTED = {"mysql": "SELECT @@GLOBAL.gtid_executed", "mariadb": "SELECT @@GLOBAL.gtid_binlog_pos"}
PRIMARY = (*SOURCE_OPTIONS, "--hot-standby-feedback=on", "--wal-keep-size=64MB")


def administered(server: Server) -> Database:
    return Database(server, "postgres" if server.name == "postgresql" else "mysql")


@contextmanager
def with_replica(family: str, directory: Path) -> Iterator[tuple[Server, Server]]:
    """A MySQL or MariaDB and its replica, with nothing in their logs yet."""
    start = START[family]
    options = ("--log-slave-updates=ON",) if family == "mariadb" else ()
    with (
        start(directory / f"first-{family}", options=options) as first,
        start(directory / f"second-{family}", options=("--server-id=2", *options)) as second,
    ):
        for server in (first, second):
            administered(server).execute("RESET MASTER")
        place = {name: getattr(first, name) for name in ("host", "port", "user", "password")}
        administered(second).execute(JOIN[family].format(**place), "START SLAVE")
        yield first, second


@contextmanager
def a_primary(directory: Path, release: str = "") -> Iterator[Server]:
    with start_postgresql(directory / "primary", release=release, options=PRIMARY) as server:
        yield server
    shutil.rmtree(directory / "primary")


@contextmanager
def a_standby(
    primary: Server, directory: Path, release: str = "", keeps_slots: bool = True, name: str = "standby"
) -> Iterator[Server]:
    """It gets the primary's slots, as far as it has come."""
    directory = directory / name
    directory.mkdir()
    administered(primary).query("SELECT pg_create_physical_replication_slot(%s)", (name,))
    line = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password} dbname=postgres"
    program = packages.find_postgresql().program("pg_basebackup")
    subprocess.run([program, "-D", directory / "data", "-d", line, "-c", "fast", "-X", "stream"], check=True)
    shutil.copy(primary.datadir.parent / "server.json", directory)  # type: ignore[union-attr]  # ours has one
    (directory / "data" / "standby.signal").touch()
    give_away(directory / "data")
    for path in (directory / "data").rglob("*"):
        give_away(path)
    options = (f"--primary-conninfo={line}", f"--primary-slot-name={name}")
    options += ("--sync-replication-slots=on",) if keeps_slots else ()
    with start_postgresql(directory, release=release, options=(*PRIMARY, *options)) as server:
        yield server
    shutil.rmtree(directory)


def await_replica(first: Server, second: Server) -> None:
    """Wait until the replica has all that the first one has now."""
    if first.name == "postgresql":
        ((end,),) = administered(first).query("SELECT pg_current_wal_flush_lsn()::text")
        has_it = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: asked(second, has_it, end) == [(True,)], "the standby has the log")
    else:
        wanted = asked(first, EXECUTED[first.name])
        until(lambda: asked(second, EXECUTED[first.name]) == wanted, "the replica has the log")


def has_slot(standby: Server, slot: str) -> bool:
    query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"
    return bool(asked(standby, query, slot))


def promote(second: Server) -> None:
    if second.name == "postgresql":
        asked(second, "SELECT pg_promote()")
        until(lambda: asked(second, "SELECT pg_is_in_recovery()") == [(False,)], "it is promoted")
    else:
        administered(second).execute("STOP SLAVE", "RESET SLAVE ALL")


def asked(server: Server, query: str, *parameters: object) -> list[tuple[object, ...]]:
    if server.name != "postgresql":
        return administered(server).query(query, parameters or None)
    with connect(
        server
    ) as connection:  # a standby's sessions end when it is promoted, or the server that is stopped has none
        return list(connection.execute(query, parameters).fetchall())
