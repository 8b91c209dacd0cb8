"""Jobs that stream between any two servers, with tables that a test makes: of each family as a source, to each as a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from anabranch import failpoints
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.scenario_postgresql import FromPostgres


class Streams(Protocol):
    """Makes a job that streams, from the server of a fixture to that of another one."""

    def __call__(
        self, ends: tuple[str, str], statements: Iterable[str], more: str, *, is_built: bool = False
    ) -> JobHere:
        """`ends`: the names of both fixtures; `statements` make the tables at the source; `more` is added to the job file;
        `is_built`: keys and indexes of the tables stand, too."""


@contextmanager
def streaming(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], place: Path
) -> Iterator[Streams]:
    """Provide what makes such jobs; what it has made is removed in the end."""
    made: list[tuple[JobHere, Database]] = []

    def make(ends: tuple[str, str], statements: Iterable[str], more: str, *, is_built: bool = False) -> JobHere:
        source, target = (request.getfixturevalue(name) for name in ends)
        of, to = source_database(source), create_database(target, "streamed")
        of.execute(*statements)
        kind = _kind(source, target)
        here = JobHere(kind(of, to, place, name=unique_name("job")))
        made.append((here, to))
        here.made.write_job(more)
        here.load()
        here.stream(is_built=is_built)
        return here

    yield make
    failpoints.arm({})
    for here, database in made:
        here.job.drop(execute=True)
        drop_database(database)


def _kind(source: Server, target: Server) -> type[Scenario]:
    if target.name != "postgresql":
        return MysqlToMysql
    return FromPostgres if source.name == "postgresql" else Scenario
