"""Jobs whose source is a PostgreSQL that alters its tables while they stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

KINDS = {"postgresql": FromPostgres, "mariadb": PostgresToMysql, "mysql": PostgresToMysql}
Make = Callable[..., JobHere]
STARTS = {"INSERT": "INSERT INTO {}", "UPDATE": "UPDATE {}", "TRUNCATE": "TRUNCATE {}", "DELETE": "DELETE FROM {}"}


@contextmanager
def jobs(
    request: pytest.FixtureRequest, source_database: Callable[[], Database], directory: Path, ddl: str
) -> Iterator[Make]:
    """Yield `make(to, *statements)`: a job that streams the tables which these make, with these lines in its file; not
    `is_loaded`: one whose trail has not begun."""
    made: list[JobHere] = []

    def job(to: str, *statements: str, ddl: str = ddl, is_loaded: bool = True) -> JobHere:
        source = source_database()
        target = create_database(request.getfixturevalue(to), "altered")
        source.execute(*statements)
        made.append(JobHere(KINDS[to](source, target, directory / f"{to}{len(made)}", name=unique_name("job"))))
        made[-1].made.write_job(ddl)
        if is_loaded:
            made[-1].load()
            made[-1].stream()
        return made[-1]

    yield job
    for one in made:
        one.job.drop(execute=True)
        drop_database(one.made.target)


def jobs_with(ddl: str) -> Any:
    """Return the fixture `make` of a file whose jobs have these lines, and a PostgreSQL with logical decoding as the source."""

    @pytest.fixture
    def make(
        request: pytest.FixtureRequest,
        logical_postgresql: Server,
        source_database: Callable[[Server], Database],
        tmp_path: Path,
    ) -> Iterator[Make]:
        with jobs(request, lambda: source_database(logical_postgresql), tmp_path, ddl) as job:
            yield job

    return make


def streams(here: JobHere, *tables: str) -> None:
    """Stream until all is there, and find every table as at the source."""
    here.stream()
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical(*tables)


@contextmanager
def dies(here: JobHere, place: str) -> Iterator[list[str]]:
    """Stream once, and die at the place if it is reached."""
    met: list[str] = []
    failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
    try:
        here.stream()
    except failpoints.FailpointReached:
        met.append(place)
    finally:
        failpoints.arm({})
    yield met


def statement(table: str, text: str) -> str:
    """Return `ADD …`, `INSERT …` and so on of a table; several of one transaction between `;`."""
    found = []
    for one in text.split("; "):
        word, _, rest = one.partition(" ")
        is_plain = word in ("BEGIN", "COMMIT", "ROLLBACK")
        start = STARTS.get(word, "ALTER TABLE {} " + word).format(table)
        found.append(one if is_plain else f"{start} {rest}")
    return "; ".join(found)
