"""A job whose URL names a server and its standby: the server is killed while the job runs, the standby is promoted, and the job
goes on there by itself, at the same place; where the standby lacks what the trail has, it stops and says so (K18)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.promoted import (
    EXECUTED,
    a_primary,
    a_standby,
    administered,
    asked,
    await_replica,
    has_slot,
    promote,
    with_replica,
)
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[..., Scenario]
ITEM = "CREATE TABLE item (id int PRIMARY KEY, v int)"
KEYLESS = "CREATE TABLE note (v int)"  # where a row that came twice would be there twice
USER = ("repl", "of both")


@pytest.fixture(params=["postgresql", "postgresql 17", "mysql", "mariadb"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    family, _, release = request.param.partition(" ")
    if family == "postgresql":
        with a_primary(servers_directory, release) as first, a_standby(first, servers_directory, release) as second:
            administered(first).execute(f"CREATE ROLE {USER[0]} SUPERUSER LOGIN PASSWORD '{USER[1]}'")
            yield first, second
    else:
        with with_replica(family, servers_directory) as (first, second):
            administered(second).execute("SET GLOBAL read_only = ON")
            administered(first).execute(
                f"CREATE USER IF NOT EXISTS {USER[0]} IDENTIFIED BY '{USER[1]}'", f"GRANT ALL ON *.* TO {USER[0]}"
            )
            yield first, second


def addresses(*servers: Server) -> str:
    return ",".join(f"{one.host}:{one.port}" for one in servers)


def follow_with_slot(made: Scenario, second: Server, running: Running) -> None:
    """A PostgreSQL's standby gets the slot when its beginning moves on, which takes a reader and something to read."""
    slot = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"

    def is_there() -> bool:
        made.source.execute("SELECT pg_log_standby_snapshot()")
        made.sync(running)
        return has_slot(second, str(made.source.query(slot)[0][0]))

    if second.name == "postgresql":
        wait_until(is_there, 60, "the standby has the slot", running.tail, running)


def take_over(made: Scenario, second: Server) -> None:
    promote(second)
    if second.name != "postgresql":
        administered(second).execute("SET GLOBAL read_only = OFF")
    made.source = Database(second, made.source.name)


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(900)
def test_rule_18_a_job_goes_on_by_itself_at_the_server_that_takes_over(
    pair: tuple[Server, Server], scenario: Make
) -> None:
    first, second = pair
    made = scenario(first, ITEM, KEYLESS, source_addresses=addresses(second, first), user=USER)
    made.source.execute("INSERT INTO item VALUES (1, 1), (2, 2)", "INSERT INTO note VALUES (1)")
    running = made.start("run")
    made.wait_streaming(running)
    follow_with_slot(made, second, running)
    made.source.execute("INSERT INTO note VALUES (2)", "UPDATE item SET v = 20 WHERE id = 2")
    made.sync(running)
    made.source.execute("INSERT INTO note VALUES (3), (3)")  # perhaps read, perhaps not
    await_replica(first, second)
    first.kill()
    wait_until(
        lambda: "source_lost" in running.stderr or "source lost" in running.stderr, 60, "it is noticed", running.tail
    )
    take_over(made, second)
    made.source.execute(
        "INSERT INTO note VALUES (4)", "DELETE FROM item WHERE id = 1", "INSERT INTO item VALUES (3, 3)"
    )
    made.sync(running, 120)
    running.stop()
    made.assert_identical()
    assert sorted(str(v) for (v,) in made.target_rows("note")) == ["1", "2", "3", "3", "4"]


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(900)
def test_rule_18_a_server_that_lacks_what_was_read_is_refused(pair: tuple[Server, Server], scenario: Make) -> None:
    first, second = pair
    made = scenario(first, ITEM, source_addresses=addresses(first, second), user=USER)
    running = made.start("run")
    made.wait_streaming(running)
    follow_with_slot(made, second, running)
    await_replica(first, second)
    if second.name == "postgresql":
        asked(second, "SELECT pg_wal_replay_pause()")
        second.stop()
    else:
        administered(second).execute("STOP SLAVE")
    made.source.execute("INSERT INTO item VALUES (1, 1)")
    made.sync(running)
    first.kill()
    if second.name == "postgresql":
        second.start()
    take_over(made, second)
    made.source.execute("INSERT INTO item VALUES (1, 2)")
    refused = running.wait(240)
    assert refused.code == 5, refused.stderr
    words = "this server left it at" if second.name == "postgresql" else "does not contain"
    assert words in refused.stderr and USER[1] not in refused.stderr
    assert [tuple(map(str, row)) for row in made.target_rows("item")] == [("1", "1")]


@pytest.fixture
def target_pair(servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    with a_primary(servers_directory) as first, a_standby(first, servers_directory) as second:
        yield first, second


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(900)
def test_rule_18_a_target_that_lacks_the_last_epochs_gets_them_again(
    mariadb: Server, target_pair: tuple[Server, Server], scenario: Make
) -> None:
    """The standby that takes over has the checkpoint of what it has, so what it lacks is applied there once more."""
    first, second = target_pair
    made = scenario(mariadb, ITEM, KEYLESS, target_addresses=addresses(second, first))
    made.target = create_database(first, "target")
    made.write_job()
    made.source.execute("INSERT INTO item VALUES (1, 1), (2, 2)", "INSERT INTO note VALUES (1)")
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute("INSERT INTO note VALUES (2)", "UPDATE item SET v = 20 WHERE id = 2")
    made.sync(running)
    await_replica(first, second)
    second.stop()
    made.source.execute("INSERT INTO note VALUES (3), (3)", "DELETE FROM item WHERE id = 1")
    made.sync(running)
    first.kill()
    made.source.execute("INSERT INTO note VALUES (4)")
    second.start()
    promote(second)
    made.target = Database(second, made.target.name)
    made.sync(running, 120)
    running.stop()
    made.assert_identical()
    assert sorted(str(v) for (v,) in made.target_rows("note")) == ["1", "2", "3", "3", "4"]


@pytest.mark.long
@pytest.mark.quick
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_rule_18_a_target_that_is_demoted_gets_nothing_more(
    family: str, mariadb: Server, servers_directory: Path, tmp_path: Path
) -> None:
    """The switchover is planned: no session ends, and the job's user passes `read_only`."""
    directory = servers_directory / unique_name("demoted")
    directory.mkdir()
    with with_replica(family, directory) as (first, second):
        administered(second).execute("SET GLOBAL read_only = ON")
        source = create_database(mariadb, "demoted")
        source.execute(ITEM, "INSERT INTO item VALUES (1, 1)")
        both = addresses(first, second)
        with job_at_mysql(source, first, tmp_path, is_quick=True, target_addresses=both) as made:
            running = made.start("run")
            made.wait_streaming(running)
            source.execute("INSERT INTO item VALUES (2, 2)")
            made.sync(running)
            administered(first).execute("SET GLOBAL read_only = ON")
            await_replica(first, second)
            promote(second)
            administered(second).execute("SET GLOBAL read_only = OFF")
            had = asked(first, EXECUTED[family])
            source.execute("INSERT INTO item VALUES (3, 3)", "UPDATE item SET v = 20 WHERE id = 2")
            former, made.target = made.target, Database(second, made.target.name)
            made.sync(running)
            made.assert_identical()
            running.stop()
            assert asked(first, EXECUTED[family]) == had
            made.target = former
        drop_database(source)
    shutil.rmtree(directory)
