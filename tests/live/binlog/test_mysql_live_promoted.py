"""A replica of the same kind takes over: the log goes on there by GTIDs, prepared transactions too; one that lacks something
of ours is refused (K18)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.errors import LogLost
from anabranch.testing.databases import Database, create_database
from anabranch.testing.in_time import NotInTime
from anabranch.testing.servers import Server, start_mariadb, start_mysql
from anabranch.trail.reader import TrailReader
from rigs.mysql_capture import Captured

START = {"mariadb": start_mariadb, "mysql": start_mysql}
JOIN = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, SOURCE_USER = '{user}',"
    " SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = '{user}',"
    " MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos",
}
EXECUTED = {"mysql": "SELECT @@GLOBAL.gtid_executed", "mariadb": "SELECT @@GLOBAL.gtid_binlog_pos"}


@pytest.fixture(params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    """A source and its replica, with nothing in their logs yet."""
    start = START[request.param]
    options = ("--log-slave-updates=ON",) if request.param == "mariadb" else ()
    with (
        start(servers_directory / f"first-{request.param}") as first,
        start(servers_directory / f"second-{request.param}", options=("--server-id=2", *options)) as second,
    ):
        for server in (first, second):
            on(server).execute("RESET MASTER")
        place = {name: getattr(first, name) for name in ("host", "port", "user", "password")}
        on(second).execute(JOIN[request.param].format(**place), "START SLAVE")
        yield first, second


def on(server: Server) -> Database:
    return Database(server, "mysql")


def await_replica(first: Server, second: Server) -> None:
    ((wanted,),) = on(first).query(EXECUTED[first.name])
    for _ in range(3600):
        if on(second).query(EXECUTED[first.name])[0][0] == wanted:
            return
        time.sleep(0.05)
    raise NotInTime(on(second).query("SHOW SLAVE STATUS"))


@pytest.mark.long
def test_pitfall_25_rule_18_a_promoted_replica_is_followed(pair: tuple[Server, Server], tmp_path: Path) -> None:
    first, second = pair
    database = create_database(first, "promoted")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))")
    captured = Captured(database, tmp_path)
    captured.run()
    database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'x')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'x')")
    database.execute("XA START 'a'", "INSERT INTO t VALUES (4, 'x')", "XA END 'a'", "XA PREPARE 'a'")
    captured.run()
    await_replica(first, second)
    on(second).execute("STOP SLAVE")
    database.execute("INSERT INTO t VALUES (5, 'x')")
    captured.run()
    there = Captured(replace(database, server=second), tmp_path)
    with pytest.raises(LogLost, match="does not contain") as behind:
        there.run(until=lambda: False)
    assert behind.value.position
    on(second).execute("START SLAVE")
    database.execute("INSERT INTO t VALUES (6, 'x')")  # nobody has read it yet
    await_replica(first, second)
    first.stop(immediate=True)
    on(second).execute("STOP SLAVE", "RESET SLAVE ALL")
    there.database.execute(
        "INSERT INTO t VALUES (7, 'x')", "XA COMMIT 'a'", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (8, 'x')"
    )
    there.run(until=lambda: there.transactions()[-1] == [8])
    assert there.transactions() == [[1, 2], [3], [5], [6], [7], [4], [8]] and there.staged() == set()
    there.database.execute("INSERT INTO t VALUES (9, 'x')")
    there.run()
    assert there.transactions()[-1] == [9]
    with TrailReader(tmp_path) as trail:
        assert [entry.kind for entry in trail.history.entries].count("source") == 1
