"""A PostgreSQL source whose standby is promoted: followed where it has the slot and all that the trail has, else refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing import packages
from anabranch.testing.databases import Database, connect
from anabranch.testing.faults import Proxy
from anabranch.testing.recipes import give_away
from anabranch.testing.servers import Server, start_postgresql
from rigs.postgresql_source import SOURCE_OPTIONS
from rigs.scenario import wait_until
from rigs.scenario_postgresql import FromPostgres

Make = Callable[..., FromPostgres]
ITEM = "CREATE TABLE item (id int PRIMARY KEY, v int)"
PRIMARY = ("--hot-standby-feedback=on", "--wal-keep-size=64MB")


@pytest.fixture
def primary(servers_directory: Path) -> Iterator[Server]:
    with start_postgresql(servers_directory / "primary", options=(*SOURCE_OPTIONS, *PRIMARY)) as server:
        yield server
    shutil.rmtree(servers_directory / "primary")


@pytest.fixture
def standby(primary: Server, servers_directory: Path) -> Iterator[Server]:
    """It has the primary's slots, as far as it has come."""
    directory = servers_directory / "standby"
    directory.mkdir()
    with connect(primary) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('standby')")
    line = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password} dbname=postgres"
    program = packages.find_postgresql().program("pg_basebackup")
    subprocess.run([program, "-D", directory / "data", "-d", line, "-c", "fast", "-X", "stream"], check=True)
    shutil.copy(primary.datadir.parent / "server.json", directory)  # type: ignore[union-attr]  # ours has one
    (directory / "data" / "standby.signal").touch()
    give_away(directory / "data")
    for path in (directory / "data").rglob("*"):
        give_away(path)
    options = (f"--primary-conninfo={line}", "--primary-slot-name=standby", "--sync-replication-slots=on")
    with start_postgresql(directory, options=(*SOURCE_OPTIONS, *PRIMARY, *options)) as server:
        yield server
    shutil.rmtree(directory)


def it_gets_the_slot(made: FromPostgres, standby: Server) -> None:
    """It does when the slot's beginning moves on, which takes a reader and something to read."""
    running = made.start("run")
    made.wait_streaming(running)
    wait_until(lambda: is_there(made, standby), 60, "the standby has the slot", running.tail, running)
    running.stop()


def is_there(made: FromPostgres, standby: Server) -> bool:
    made.source.execute("SELECT pg_log_standby_snapshot()")
    made.sync()
    query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"
    with connect(standby) as connection:
        return bool(connection.execute(query, [made.slot]).fetchone())


def has_all(made: FromPostgres, standby: Server) -> bool:
    end = made.source.query("SELECT pg_current_wal_flush_lsn()::text")[0][0]
    with connect(standby) as connection:
        found = connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [end]).fetchone()
    return bool(found and found[0])


@pytest.fixture
def line(primary: Server) -> Iterator[Proxy]:
    """The name that the job knows its source by."""
    with Proxy(primary.host, primary.port) as proxy:
        yield proxy


def promote(made: FromPostgres, standby: Server, line: Proxy) -> None:
    with connect(standby) as connection:
        connection.execute("SELECT pg_promote()")
    line.target_port = standby.port
    made.source = Database(standby, made.source.name)
    wait_until(lambda: not made.source.query("SELECT pg_is_in_recovery()")[0][0], 30, "it is promoted")


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_rule_18_a_standby_is_promoted(primary: Server, standby: Server, line: Proxy, scenario: Make) -> None:
    rows = "INSERT INTO item SELECT g, g FROM generate_series(1, 99) g"
    made = scenario(primary, ITEM, rows, source_at=("127.0.0.1", line.port))
    it_gets_the_slot(made, standby)
    made.source.execute("UPDATE item SET v = -v WHERE id < 50")
    wait_until(lambda: has_all(made, standby), 30, "the standby has the log")
    primary.stop()
    promote(made, standby, line)
    made.source.execute("INSERT INTO item VALUES (1000, 1)")
    made.run_until_caught_up()
    made.assert_identical()


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_rule_18_a_standby_that_lacks_what_the_trail_has_is_refused(
    primary: Server, standby: Server, line: Proxy, scenario: Make
) -> None:
    made = scenario(primary, ITEM, "INSERT INTO item VALUES (1, 1)", source_at=("127.0.0.1", line.port))
    it_gets_the_slot(made, standby)
    standby.stop()
    made.source.execute("UPDATE item SET v = 2")
    made.run_until_caught_up()
    made.assert_identical()
    primary.stop()
    standby.start()
    promote(made, standby, line)
    made.source.execute("UPDATE item SET v = 3")
    refused = made.run_until_caught_up(code=5).stderr
    assert "of timeline 1, and this server left it at" in refused
    assert made.target_rows("item") == [("1", "2")]
