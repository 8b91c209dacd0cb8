"""Jobs that go opposite ways between the same tables, in this process (job_here.py): a job file for each way, all of them at
once, with writers at the ends.

What does not live here: jobs of one way (scenario.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from anabranch.job import Job
from anabranch.rows.chunk import BarrierKind
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import PATIENCE
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.job_here import JobHere, _in_haste
from rigs.scenario import SOURCE_SECRET, TARGET_SECRET, Scenario


@dataclass(frozen=True)
class End:
    """A database that jobs read and write. `schema`: of its tables, as rules name it. `line`: by which jobs go there."""

    database: Database
    line: Proxy | None = None

    @property
    def is_postgresql(self) -> bool:
        return self.database.server.name == "postgresql"

    @property
    def schema(self) -> str:
        return "public" if self.is_postgresql else self.database.name

    def url(self, secret: str) -> str:
        server = self.database.server
        path = f"/{self.database.name}" if self.is_postgresql else ""
        host, port = ("127.0.0.1", self.line.port) if self.line else (server.host, server.port)
        return f"{server.name}://{server.user}:${{{secret}}}@{host}:{port}{path}"

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.database.query(f"SELECT * FROM {table}"))


@dataclass
class Made:
    """As much of a Scenario as JobHere asks for."""

    name: str
    job_file: Path
    environment: dict[str, str]


@dataclass(eq=False)
class Way:
    """A job from one end to another. `leave_out`: names of jobs, whose transactions it leaves out."""

    source: End
    target: End
    directory: Path
    name: str = field(default_factory=lambda: unique_name("way"))
    leave_out: tuple[str, ...] = ()
    tables: str = "*"

    def write(self, text: str = "", options: str = "") -> Way:
        origins = ", ".join(f'"anabranch:{name}"' for name in self.leave_out)
        self.job_file.write_text(
            f'name = "{self.name}"\n'
            f'[source]\nurl = "{self.source.url(SOURCE_SECRET)}"\nleave_out = [{origins}]\n{options}'
            f'[target]\nurl = "{self.target.url(TARGET_SECRET)}"\n'
            f'[[rules]]\ninclude = ["{self.source.schema}.{self.tables}"]\ntarget = "{self.target.schema}.{{table}}"\n'
            f"{text}"
        )
        self.__dict__.pop("here", None)
        return self

    @property
    def job_file(self) -> Path:
        return self.directory / f"{self.name}.toml"

    @cached_property
    def here(self) -> OneJob:
        home = {"ANABRANCH_HOME": str(self.directory / "home")}
        secrets = {
            SOURCE_SECRET: self.source.database.server.password,
            TARGET_SECRET: self.target.database.server.password,
        }
        made = Made(self.name, self.job_file, {**os.environ, **home, **secrets})
        return OneJob(cast("Scenario", made))

    @property
    def job(self) -> Job:
        return self.here.job

    def images(self) -> list[tuple[str, str | None]]:
        """Table and origin of each row image and barrier in the trail, without what brings in a table that joins, and without
        notes: of the keys, too, that the other job makes when its load ends."""
        unasked = (BarrierKind.SCHEMA, BarrierKind.NOTE)
        with TrailReader(self.job.trail) as trail:
            every = [row for row in show(trail, after=0) if row.operation not in unasked]
        assert not [row for row in every if row.operation == BarrierKind.PARK], every
        return [(row.table.name, row.origin) for row in every]

    def epoch(self) -> int:
        query = "SELECT epoch FROM anabranch.checkpoint WHERE job = %s"
        return int(self.target.database.query(query, [self.name])[0][0])

    def drop(self) -> None:
        self.job.drop(execute=True)


class OneJob(JobHere):
    """The job is read once: that changes the process's environment, which threads must not."""

    @cached_property
    def job(self) -> Job:  # type: ignore[override]  # it stands as it stood first
        return JobHere(self.made).job


def pair(one: End, other: End, directory: Path, **settings: str) -> tuple[Way, Way]:
    """The two jobs between two ends."""
    there = Way(one, other, directory)
    back = Way(other, one, directory, leave_out=(there.name,))
    there.leave_out = (back.name,)
    return there.write(**settings), back.write(**settings)


def at_once(*ways: Way) -> None:
    """Bring what each log has now to its target, all at the same time: each reads what the others write meanwhile, or not."""

    def stream(way: Way) -> None:
        way.here.capture()
        way.here.apply()

    with _in_haste(), ThreadPoolExecutor(len(ways)) as pool:
        for one in [pool.submit(stream, way) for way in ways]:
            one.result(PATIENCE)


class _Counting:
    """A watcher that counts how often apply has looked what there is to do beside epochs."""

    def __init__(self) -> None:
        self.rounds = 0

    def applied(self, checkpoint: Any) -> None:
        self.rounds += 1

    def __getattr__(self, _: str) -> Any:
        return lambda *told: None


def rest(*ways: Way, rounds: int = 40) -> None:
    """Let all of them follow, with nobody at work, until each has looked so often what there is to do."""
    watchers = [_Counting() for _ in ways]

    def is_over(*_: Any) -> bool:
        return all(watcher.rounds >= rounds for watcher in watchers)

    with _in_haste(), ThreadPoolExecutor(2 * len(ways)) as pool:
        parts = [pool.submit(way.here._capture, way.job, is_over) for way in ways]
        parts += [
            pool.submit(way.here._apply, way.job, is_over, watcher) for way, watcher in zip(ways, watchers, strict=True)
        ]
        for one in parts:
            one.result(PATIENCE)


def settle(*ways: Way) -> None:
    """Bring everything everywhere: what one has written the next one reads."""
    for _ in range(len(ways)):
        at_once(*ways)


def built(*ways: Way) -> None:
    """Bring what each log has now to its target, and let each build what belongs to its tables."""
    for way in ways:
        with _in_haste():
            way.here.capture()
            way.here.apply(is_built=True)


def are_at_rest(*ways: Way) -> bool:
    """Whether none of them has moved its checkpoint while all of them have followed for a while, with nobody at work."""
    before = [way.epoch() for way in ways]
    rest(*ways)
    return [way.epoch() for way in ways] == before


@contextmanager
def writing(*work: Callable[[int], Sequence[tuple[Database, str]]]) -> Iterator[list[int]]:
    """Each in a thread of its own, again and again meanwhile, with a number that rises. Gives how often each has been done."""
    stop, failures, counts = threading.Event(), list[BaseException](), [0] * len(work)

    def repeat(at: int) -> None:
        try:
            while not stop.wait(0.05):
                counts[at] += 1
                for database, statement in work[at](counts[at]):
                    database.execute(statement)
        except BaseException as failure:  # noqa: BLE001 - carried over to whoever waits for it
            failures.append(failure)

    threads = [threading.Thread(target=repeat, args=(at,), daemon=True) for at in range(len(work))]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    if failures:
        raise failures[0]
