"""A PostgreSQL source whose standby is promoted: followed where it has the slot and all that the trail has, else refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server
from rigs.promoted import a_primary, a_standby, await_replica, has_slot, promote
from rigs.scenario import wait_until
from rigs.scenario_postgresql import FromPostgres

Make = Callable[..., FromPostgres]
ITEM = "CREATE TABLE item (id int PRIMARY KEY, v int)"


@pytest.fixture
def primary(servers_directory: Path) -> Iterator[Server]:
    with a_primary(servers_directory) as server:
        yield server


@pytest.fixture
def standby(primary: Server, servers_directory: Path) -> Iterator[Server]:
    with a_standby(primary, servers_directory) as server:
        yield server


def it_gets_the_slot(made: FromPostgres, standby: Server) -> None:
    """It does when the slot's beginning moves on, which takes a reader and something to read."""
    running = made.start("run")
    made.wait_streaming(running)
    wait_until(lambda: is_there(made, standby), 60, "the standby has the slot", running.tail, running)
    running.stop()


def is_there(made: FromPostgres, standby: Server) -> bool:
    made.source.execute("SELECT pg_log_standby_snapshot()")
    made.sync()
    return has_slot(standby, made.slot)


@pytest.fixture
def line(primary: Server) -> Iterator[Proxy]:
    """The name that the job knows its source by."""
    with Proxy(primary.host, primary.port) as proxy:
        yield proxy


def take_over(made: FromPostgres, standby: Server, line: Proxy) -> None:
    promote(standby)
    line.target_port = standby.port
    made.source = Database(standby, made.source.name)


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_rule_18_a_standby_is_promoted(primary: Server, standby: Server, line: Proxy, scenario: Make) -> None:
    rows = "INSERT INTO item SELECT g, g FROM generate_series(1, 99) g"
    made = scenario(primary, ITEM, rows, source_at=("127.0.0.1", line.port))
    it_gets_the_slot(made, standby)
    made.source.execute("UPDATE item SET v = -v WHERE id < 50")
    await_replica(primary, standby)
    primary.stop()
    take_over(made, standby, line)
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
    take_over(made, standby, line)
    made.source.execute("UPDATE item SET v = 3")
    refused = made.run_until_caught_up(code=5).stderr
    assert "of timeline 1, and this server left it at" in refused
    assert made.target_rows("item") == [("1", "2")]
