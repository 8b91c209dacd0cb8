"""Two standbys of one primary that are promoted apart: both call their timeline 2, and only one has what was read.

What does not live here: one standby that is promoted (test_scenario_promoted.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector
from anabranch.connectors.postgresql.source.positions import lsn_of, place_of
from anabranch.contracts import LogOptions, LogReader
from anabranch.errors import LogLost
from anabranch.model.position import LogMark
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.promoted import a_primary, a_standby, administered, asked, await_replica, promote

SLOT = "anabranch_timelines"


@pytest.fixture
def primary(servers_directory: Path) -> Iterator[Server]:
    with a_primary(servers_directory) as server:
        yield server


@pytest.fixture
def second(primary: Server, servers_directory: Path) -> Iterator[Server]:
    with a_standby(primary, servers_directory, keeps_slots=False, name="second") as server:
        yield server


@pytest.fixture
def third(primary: Server, servers_directory: Path) -> Iterator[Server]:
    with a_standby(primary, servers_directory, keeps_slots=False, name="third") as server:
        yield server


@contextmanager
def log_of(server: Server, begins: bool = False) -> Iterator[LogReader]:
    source, log = connector(endpoint_of(Database(server, "postgres"))), LogOptions(1, 1.0, name=SLOT)
    if begins:
        source.run(source.steps(log, {}, True), 30)
    with closing(source.log(log)) as reader:
        yield reader


def read_on(server: Server, after: LogMark | None) -> LogMark:
    """Read from a place, or from now on, until the log has moved on; return where it came to."""
    with log_of(server, begins=after is None) as reader:
        start = after or reader.end()
        reader.start(start, lambda table: None)
        administered(server).execute("CREATE TABLE IF NOT EXISTS moves (id int)", "INSERT INTO moves VALUES (1)")
        found: list[LogMark] = []

        def has_moved() -> bool:
            item = reader.read(0.1)
            found.extend([item.mark] if item is not None else [])  # type: ignore[union-attr]  # idle: nothing is selected
            return bool(found) and place_of(found[-1].resume).lsn > place_of(start.resume).lsn

        until(has_moved, "the log moves on")
        return found[-1]


def without_beginning(mark: LogMark) -> LogMark:
    """The mark as the release before wrote it."""
    facts = json.loads(mark.resume)
    del facts["began"]
    return replace(mark, resume=json.dumps(facts))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rule_18_a_server_that_never_followed_the_one_that_was_read_is_refused_though_its_timeline_has_the_same_number(
    primary: Server, second: Server, third: Server
) -> None:
    third.stop()
    administered(primary).execute("CREATE TABLE only_second (id int)")
    await_replica(primary, second)
    primary.stop()
    promote(second)
    administered(second).execute("CREATE TABLE much AS SELECT g, repeat('x', 200) FROM generate_series(1, 30000) AS g")
    read = read_on(second, None)
    place = place_of(read.resume)
    assert place.timeline == 2 and place.began.startswith("1@")
    former = without_beginning(read)
    noted = place_of(read_on(second, former).resume)
    assert noted.began == place.began, "a place of the release before has it from then on"
    second.stop()

    third.start()
    promote(third)
    with log_of(third, begins=True) as reader:
        other = place_of(reader.end().resume)
        assert other.identity == place.identity and other.lsn < place.lsn
        administered(third).execute(
            "CREATE TABLE more AS SELECT g, repeat('x', 200) FROM generate_series(1, 60000) AS g"
        )
        ((end,),) = asked(third, "SELECT pg_current_wal_flush_lsn()::text")
        assert lsn_of(str(end)) > place.lsn, "else it is refused for what it lacks"
        with pytest.raises(LogLost, match=r"timeline 2 that began at .* this server's began at .* never followed"):
            reader.start(read, lambda table: None)
