"""Two jobs between the same tables, and a server that takes over at one end: what a job has written there is still known as its
own to the other one, whether it was read before or is read from the new server (K18, K21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.both_ways import End, Way, built, pair, settle
from rigs.promoted import a_primary, a_standby, administered, await_replica, has_slot, promote, with_replica

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v varchar(40))"


@dataclass
class Old:
    """The server that goes, the one that takes over, and the line by which jobs know whichever it is."""

    first: Server
    second: Server
    line: Proxy

    def take_over(self) -> None:
        await_replica(self.first, self.second)
        self.first.stop(immediate=True)
        promote(self.second)
        self.line.target_port = self.second.port


@pytest.fixture(params=["mariadb", "mysql", "postgresql"])
def old(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[Old]:
    with ExitStack() as stack:
        if request.param == "postgresql":
            first = stack.enter_context(a_primary(servers_directory))
            second = stack.enter_context(a_standby(first, servers_directory))
        else:
            first, second = stack.enter_context(with_replica(request.param, servers_directory))
        yield Old(first, second, stack.enter_context(Proxy(first.host, first.port)))


@pytest.fixture
def ends(old: Old, request: pytest.FixtureRequest) -> Iterator[tuple[End, End]]:
    """A PostgreSQL that stays where the other end is of MySQL's family, else a MariaDB; and the end that moves."""
    stays = "mariadb" if old.first.name == "postgresql" else "logical_postgresql"
    here, there = create_database(request.getfixturevalue(stays), "stays"), create_database(old.first, "moves")
    for database in (here, there):
        database.execute(TABLE)
    yield End(here), End(Database(replace(old.first, host="127.0.0.1", port=old.line.port), there.name))
    drop_database(here)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rule_18_21_what_jobs_have_written_is_known_at_a_server_that_takes_over(
    old: Old, ends: tuple[End, End], tmp_path: Path
) -> None:
    """Neither job has read all when the server goes: it reads the rest at the new one, rows of users and of the other job."""
    here, there = ends
    out, back = pair(here, there, tmp_path)
    expected = {out: Counter[tuple[str, str | None]](), back: Counter[tuple[str, str | None]]()}

    def writes(way: Way, first: int, *more: str, origin: str | None = None) -> None:
        way.source.database.execute(f"INSERT INTO t VALUES ({first}, 'a user'), ({first + 1}, 'a user')", *more)
        expected[way]["t", origin] += 2 + 2 * len(more)

    for way in (out, back):
        way.here.load()
        built(way)
    writes(out, 10)
    writes(back, 1010)
    settle(out, back)
    if there.is_postgresql:
        it_gets_the_slot(old, back, lambda number: writes(back, 5000 + 2 * number))
    writes(out, 20, "UPDATE t SET v = 'changed here' WHERE id = 1010")
    out.here.stream()  # rows of ours, in the log of the server that goes, that the other job has not read
    writes(
        back, 1020, origin=None if there.is_postgresql else "1"
    )  # the new server's log says whose it is: the old one's
    old.take_over()
    writes(back, 1030, "UPDATE t SET v = 'changed there' WHERE id = 20")
    writes(out, 30)
    settle(out, back)
    assert here.rows("t") == there.rows("t") and len(here.rows("t")) >= 12
    assert {way: Counter(way.images()) for way in (out, back)} == expected


def it_gets_the_slot(old: Old, back: Way, write: Callable[[int], None]) -> None:
    """The standby takes a slot over once its beginning moves on, which takes a reader and something to read."""
    name = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{back.source.database.name}'"
    ((slot,),) = administered(old.first).query(name)
    numbers = iter(range(100))

    def is_there() -> bool:
        write(next(numbers))
        administered(old.first).execute("SELECT pg_log_standby_snapshot()")
        back.here.stream()
        return has_slot(old.second, slot)

    until(is_there, "the standby has the slot")
