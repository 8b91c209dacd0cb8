"""[retry.source] silence_s where a log is read: a server that stands still is away, one that answers others is not; and how
often preflight asks an end that swallows packets."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.connectors.postgresql.source import silence
from anabranch.connectors.postgresql.source.silence import Silence
from anabranch.contracts import LogOptions, LogReader
from anabranch.errors import SourceUnavailable
from anabranch.job import Job
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.faults import Proxy, descendants, frozen
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql
from rigs.endpoints import endpoint_of
from rigs.postgresql_log import LogFollower
from rigs.waiting import Doing, at_once

SOON = 240.0
LIMITS = EndLimits(connect=4.0, silence=4.0)
JOB = """
name = "job"
[source]
url = "{source}"
[target]
url = "{target}"
[[rules]]
include = ["*.*"]
target = "public.{{table}}"
[retry.source]
connect_s = 2
"""


@contextmanager
def still(server: Server) -> Iterator[None]:
    """All of its processes."""
    assert server.pid is not None
    with ExitStack() as stack:
        for pid in (server.pid, *descendants(server.pid)):
            stack.enter_context(frozen(pid))
        yield


def goes_on(reader: LogReader, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        reader.read(0.2)


def ends(reader: LogReader) -> None:
    """Raises what ends it."""
    while True:
        reader.read(0.2)


def silent(away: SourceUnavailable) -> int:
    """Return for how many seconds, rounded, nothing had come, as the error says."""
    found = re.search(r"silent for (\d+) s", away.message)
    assert found, away.message
    return int(found[1])


@pytest.fixture
def own(quick_directory: Path) -> Iterator[Callable[..., Server]]:
    """Servers of one test alone, all of whose processes may be made to stand still."""
    with ExitStack() as stack:

        def started(start: Callable[..., Server], *options: str) -> Server:
            directory = quick_directory / unique_name("still")
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            server = start(directory, options=options)
            stack.callback(server.stop, immediate=True)
            return server

        yield started


def test_sources_that_stand_still_or_answer_others(own: Callable[..., Server]) -> None:
    """Each waits for as long as the limits are, so that they do it side by side."""
    still_one, busy_one = (create_database(own(start_postgresql, "--wal-level=logical"), "still") for _ in range(2))
    at_once(
        partial(a_mysql_that_stands_still, own(start_mariadb)),
        partial(a_mysql_that_stands_still, own(start_mysql)),
        partial(a_postgresql_that_stands_still, still_one),
        partial(a_postgresql_that_answers_others_is_not_cut, busy_one),
    )


def a_mysql_that_stands_still(own_source: Server) -> None:
    """Its heartbeats come while nothing happens, and then they do not."""
    end = Endpoint(
        own_source.name, own_source.host, own_source.port, own_source.user, own_source.password, limits=LIMITS
    )
    with closing(connectors.source(end).log(LogOptions(77002, 1.0))) as reader:
        reader.start(reader.end(), {}.get)
        begun = time.monotonic()
        goes_on(reader, 1.5 * LIMITS.silence)
        with still(own_source):
            reading = Doing(lambda: ends(reader))
            with pytest.raises(SourceUnavailable, match="the source has been silent for") as away:
                reading.done(SOON)
        assert LIMITS.silence <= silent(away.value) <= time.monotonic() - begun


def a_postgresql_that_stands_still(own_database: Database) -> None:
    """No second connection is answered either."""
    with closing(LogFollower(own_database, "pgoutput", limits=LIMITS)) as follower:
        begun = time.monotonic()
        goes_on(follower.reader, 1.5 * LIMITS.silence)
        with still(own_database.server):
            reading = Doing(lambda: ends(follower.reader))
            with pytest.raises(SourceUnavailable, match="does not answer a second connection either") as away:
                reading.done(SOON)
        assert LIMITS.silence <= silent(away.value) <= time.monotonic() - begun


def a_postgresql_that_answers_others_is_not_cut(own_database: Database) -> None:
    """As one that decodes for long what is not ours: the process that sends the log is busy, the server is not."""
    own_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with closing(LogFollower(own_database, "pgoutput", limits=LIMITS)) as follower:
        ((sender,),) = own_database.query("SELECT pid FROM pg_stat_replication")
        with frozen(sender) as is_there:
            assert is_there
            goes_on(follower.reader, 3 * LIMITS.silence)
        own_database.execute("INSERT INTO t VALUES (1)")
        assert len(follower.take()) == 1


def test_how_often_a_silent_postgresql_is_asked(target_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the reader's clock: after each `silence` once more, up to a bound of which the server's own limit is a part."""
    with Proxy(target_database.server.host, target_database.server.port) as proxy:
        end = replace(endpoint_of(target_database), host="127.0.0.1", port=proxy.port, limits=EndLimits(silence=5.0))
        endless = Silence(end, float("inf"))
        asked = []
        for now in (1.0, 5.0, 6.0, 8.0, 11.0, 12.0, 1e6):
            endless.look(0.0, now, "0/1")
            asked.append(proxy.lines)
        assert [after - before for before, after in zip([0, *asked], asked, strict=False)] == [0, 0, 1, 0, 0, 1, 1]
        monkeypatch.setattr(silence, "LEAST", 7.0)
        for timeout, most in ((1.0, 7.0), (60.0, 120.0)):
            Silence(end, timeout).look(0.0, most, "0/1")
            with pytest.raises(SourceUnavailable, match="the source's log has been silent"):
                Silence(end, timeout).look(0.0, most + 1, "0/1")


@pytest.mark.parametrize("kind", ["mariadb", "mysql", "logical_postgresql"])
@pytest.mark.one_case("logical_postgresql")
def test_preflight_asks_an_address_that_swallows_packets_once(
    kind: str,
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    target_database: Database,
    tmp_path: Path,
) -> None:
    """Each try takes all of `connect_s`."""
    database = source_database(request.getfixturevalue(kind))
    with Proxy(database.server.host, database.server.port) as proxy:
        url = database.url.replace(f":{database.server.port}/", f":{proxy.port}/")
        file = tmp_path / "job.toml"
        file.write_text(JOB.format(source=url, target=target_database.url))
        proxy.stall()
        found = Job.from_file(str(file)).preflight()
        assert (
            "source.reached" in {one.check for one in found.failed} and found.exit_code == SourceUnavailable.exit_code
        )
        until(lambda: proxy.lines, "the line is opened")
        assert proxy.lines == 1
        proxy.restore()
