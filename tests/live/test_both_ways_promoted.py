"""Two jobs between the same tables, and a server that takes over at one end: what a job has written there is still known as its
own to the other one, whether it was read before or is read from the new server (K18, K21, K23)."""

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
VERSIONED = "CREATE TABLE versioned (id int PRIMARY KEY, v varchar(40), changed {time} NOT NULL)"
INSTANT = "2026-01-01 00:00:{:02}"


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
        is_postgresql = database.server.name == "postgresql"
        database.execute(TABLE, VERSIONED.format(time="timestamp(6)" if is_postgresql else "datetime(6)"))
        if is_postgresql:
            database.execute("ALTER TABLE versioned REPLICA IDENTITY FULL")
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


@dataclass
class Site:
    """The users of one site, and the versions of rows that they have written: by key the second, and the text."""

    way: Way
    name: str
    images: int = 0

    def writes(self, key: int, second: int, text: str, is_new: bool = True) -> tuple[int, int, str]:
        at, self.images = INSTANT.format(second), self.images + (1 if is_new else 2)
        new = f"INSERT INTO versioned VALUES ({key}, '{text}', '{at}')"
        old = f"UPDATE versioned SET v = '{text}', changed = '{at}' WHERE id = {key}"
        self.way.source.database.execute(new if is_new else old)
        return key, second, text


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rule_18_21_23_two_active_sites_go_on_at_a_server_that_takes_over(
    old: Old, ends: tuple[End, End], tmp_path: Path
) -> None:
    """Versions that cross, before one site's server goes and behind it: each job knows what its twin has written, also where it
    reads that from the server that has taken over, and the newer version stays at both sites."""
    out, back = active(*ends, tmp_path)
    here, there = Site(out, "one"), Site(back, "other")
    out.here.load()
    built(out)
    back.job.arm()
    here.writes(1, 1, "of one"), there.writes(2, 1, "of the other")
    settle(out, back)
    newest = {1: "", 2: ""}
    if there.way.source.is_postgresql:
        it_gets_the_slot(old, back, lambda number: newest.update([there.writes(500 + number, 1, "more")[::2]]))
    newest.update([here.writes(1, 3, "older of one", is_new=False)[::2]])
    newest.update([there.writes(1, 5, "newer of the other", is_new=False)[::2]])
    newest.update([there.writes(2, 3, "older of the other", is_new=False)[::2]])
    newest.update([here.writes(2, 5, "newer of one", is_new=False)[::2]])
    out.here.stream()  # what it decides is in the log of the server that goes, and its twin has not read that
    newest.update([here.writes(3, 1, "new of one")[::2], there.writes(4, 1, "new of the other")[::2]])
    old.take_over()
    newest.update([there.writes(5, 1, "at the new server")[::2]])
    newest.update([here.writes(5, 2, "the same key at one")[::2]])
    newest.update([there.writes(1, 6, "newest of the other", is_new=False)[::2]])
    settle(out, back)
    settle(out, back)
    rows = out.source.rows("versioned")
    assert rows == out.target.rows("versioned")
    assert {key: text for key, text, _ in rows} == newest
    for site in (here, there):
        assert Counter(table for table, _ in site.way.images()) == {"versioned": site.images}, site.name


def active(one: End, other: End, directory: Path) -> tuple[Way, Way]:
    """Two jobs with `[pair]` between two sites; the first one's wins where rows are equally new."""
    out, back = Way(one, other, directory, tables="versioned"), Way(other, one, directory, tables="versioned")
    out.leave_out, back.leave_out = (back.name,), (out.name,)
    for way, twin, sites in ((out, back, ("one", "other")), (back, out, ("other", "one"))):
        names = f'site = "{sites[0]}"\nother = "{sites[1]}"\nwinner = "one"\ntwin = "{twin.name}"\n'
        load = "defer_constraints = true" if way is out else 'existing = "take_over"'
        way.write(f'[load]\n{load}\n[pair]\n{names}newest_by = "changed"\n')
    return out, back


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
