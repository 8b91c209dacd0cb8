"""A replica of the same kind takes over: the log goes on there by GTIDs, prepared transactions too; one that lacks something
of ours is refused (K18)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.errors import LogLost
from anabranch.testing.databases import create_database
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader
from rigs.mysql_capture import Captured
from rigs.promoted import administered as on
from rigs.promoted import await_replica, promote, with_replica


@pytest.fixture(params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    with with_replica(request.param, servers_directory) as servers:
        yield servers


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
    promote(second)
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
