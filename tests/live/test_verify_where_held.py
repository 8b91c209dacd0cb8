"""Verification at one position where a job has several targets, each with an apply of its own that is held, and where a source
tells the place of a snapshot under a lock alone. Without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path

import pytest

from anabranch.job import Job
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import PATIENCE, until
from anabranch.testing.servers import Server, start_mysql
from anabranch.trail.holding import Hold
from anabranch.verify.report import Verification
from rigs.job_here import JobHere, _in_haste
from rigs.scenario import TARGET_SECRET, Scenario
from rigs.scenario_postgresql import FromPostgres

ITEM = ("CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO item VALUES (1, 0), (2, 0)")
NAMES = ("north", "south")
MOST = 30.0  # seconds: a busy machine is to have the time
LOCKED = '[load]\nlock = "global"\n'


class OfTarget(JobHere):
    """Show what concerns one of several targets. The job is read once: that changes the process's environment."""

    def __init__(self, made: Scenario, name: str) -> None:
        super().__init__(made)
        self.name = name

    @cached_property
    def job(self) -> Job:  # type: ignore[override]  # it stands as it stood first
        return JobHere(self.made).job.on(self.name)


def exactly(here: JobHere, different: int = 0) -> Verification:
    """Verify until both ends were read at one position: a busy machine may need longer than apply may be held."""
    found: list[Verification] = []

    def is_exact() -> bool:
        found[:] = [here.verify(max_pause=MOST)]
        assert sum(one.differs for one in found[0].tables) == different
        return bool(found[0].exact)

    until(is_exact, "both ends are read at one position")
    return found[0]


@contextmanager
def writer(database: Database) -> Iterator[None]:
    """Two rows change their values together, so that no two moments are alike."""
    is_over = threading.Event()

    def write() -> None:
        with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            while not is_over.wait(0.003):
                cursor.execute("UPDATE item SET n = n + 1 WHERE id = 1")
                cursor.execute("UPDATE item SET n = n - 1 WHERE id = 2")
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def applying(here: JobHere) -> Iterator[None]:
    """Its apply in a thread, until the block ends."""
    is_over, job = threading.Event(), here.job
    with _in_haste(), ThreadPoolExecutor(1) as beside:
        applied = beside.submit(here._apply, job, is_over.is_set)
        try:
            yield
        finally:
            is_over.set()
        applied.result(PATIENCE)


@pytest.fixture
def targets(logical_postgresql: Server, postgresql: Server, tmp_path: Path) -> Iterator[dict[str, OfTarget]]:
    with ExitStack() as stack:
        source, *ends = (create_database(server, "held") for server in (logical_postgresql, postgresql, postgresql))
        for database in (source, *ends):
            stack.callback(drop_database, database)
        source.execute(*ITEM)
        made = FromPostgres(source, ends[0], tmp_path, name=unique_name("job"))
        url = f"postgresql://{postgresql.user}:${{{TARGET_SECRET}}}@{postgresql.host}:{postgresql.port}"
        entries = (
            f'[[targets]]\nname = "{name}"\nurl = "{url}/{end.name}"\n' for name, end in zip(NAMES, ends, strict=True)
        )
        made.write_job("".join(entries))
        text = made.job_file.read_text()
        begin = text.index("[target]")
        made.job_file.write_text(text[:begin] + text[text.index("[[rules]]", begin) :])
        yield {name: OfTarget(made, name) for name in NAMES}
        JobHere(made).job.drop(execute=True)


@pytest.mark.timeout(600)
def test_rule_25_each_of_several_targets_is_held_by_itself(targets: dict[str, OfTarget]) -> None:
    """One is held, the other goes on; each is read at a position of its own."""
    north, south = (targets[name] for name in NAMES)
    for one in (north, south):
        one.load()
    north.stream()
    south.apply()
    source = north.made.source
    with north.running(), applying(south), writer(source):
        found = [exactly(one) for one in (north, south)]
        assert all(
            one.identical and one.paused > 0 and {table.exact for table in one.tables} == {one.exact} for one in found
        )
        with closing(Hold(north.job.names.held(north.job.trail), 0, 60.0)) as hold:
            source.execute("INSERT INTO item VALUES (7, 0)")
            until(lambda: has(south, 7), "the other one goes on")
            is_there, lasted = has(north, 7), time.monotonic() - hold.began
            assert not is_there or lasted > 55, "nobody holds apply for longer than a minute"
            at_rest = ("public.scenario_mark",)  # which needs no apply to be told
            assert "held by another verification" in north.verify(max_pause=MOST, patterns=at_rest).not_exact
            assert exactly(south).identical
        until(lambda: has(north, 7), "it goes on, too")


def has(one: OfTarget, key: int) -> bool:
    end = Database(one.made.target.server, one.job.endpoint.database)
    return end.query("SELECT count(*) FROM item WHERE id = %s", [key]) == [(1,)]


@pytest.fixture
def nameless(servers_directory: Path, postgresql: Server, tmp_path: Path) -> Iterator[JobHere]:
    """A job from a MySQL whose transactions have no GTIDs."""
    options = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    with start_mysql(servers_directory / unique_name("nameless"), options=options) as server, ExitStack() as stack:
        source, target = create_database(server, "held"), create_database(postgresql, "held")
        stack.callback(drop_database, target)
        source.execute(*ITEM)
        made = JobHere(Scenario(source, target, tmp_path, name=unique_name("job")))
        yield made
        made.job.drop(execute=True)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rule_25_a_mysql_without_gtids_tells_a_place_under_its_lock_alone(nameless: JobHere) -> None:
    """The lock that the job takes for its load is taken for the moment in which the snapshot is opened; else there is none."""
    nameless.load()
    nameless.stream()
    source = nameless.made.source
    with nameless.running(), writer(source):
        found = nameless.verify(max_pause=0.5)
        assert not found.exact and '[load] lock = "global"' in found.not_exact and found.exit_code != 4
    nameless.made.write_job(LOCKED)
    with nameless.running(), writer(source):
        found = exactly(nameless)
        assert found.identical and found.paused > 0
        nameless.made.target.execute("INSERT INTO item VALUES (9, 9)")
        found = exactly(nameless, different=1)
        assert (sum(one.extra for one in found.tables), found.exit_code) == (1, 4)
