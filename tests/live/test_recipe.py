"""A user with what a recipe grants, and nothing else, passes preflight and runs a job; one with nothing is told which steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.job import Job
from anabranch.model.checks import CheckVerdict
from anabranch.model.recipe import Asked, ItemKind
from anabranch.recipe.routes import Release
from anabranch.recipe.written import JOB, End, recipe
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.ends import version_of
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql
from rigs.users import user_at

Make = Callable[[Server], Database]
TABLE = ("CREATE TABLE orders (id int PRIMARY KEY, name varchar(40))", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")


def release_of(database: Database) -> Release:
    numbers = version_of(database.server)
    return Release(database.server.name, ".".join(map(str, numbers)))


def granted(end: End) -> list[str]:
    """Return what the recipe has for the user, without what is optional and without the login."""
    items = [item for step in end.steps if not step.name.endswith(".user") for item in step.items]
    return [item.text for item in items if item.kind is ItemKind.STATEMENT and not item.is_optional]


def runs_with_what_the_recipe_grants(made: Scenario) -> None:
    source, target = made.source, made.target
    with user_at(source, target) as who:
        made.user = made.target_user = who
        made.write_job()
        poor = failing(JobHere(made).job)
        assert {"source.rights", "target.rights"} <= set(poor.values()), poor
        asked = [Asked((), who[0], one.name, (schema,), one.server.user)
                 for one, schema in ((source, made.schema), (target, made.there))]  # fmt: skip
        written = recipe(release_of(source), release_of(target), *asked)
        known = {step.name for end in (written.source, written.target) for step in end.steps} | {JOB}
        assert set(poor.values()) <= known, poor
        source.execute(*granted(written.source))
        target.execute(*granted(written.target))
        here = JobHere(made)
        assert failing(here.job) == {}
        here.load()
        source.execute("INSERT INTO orders VALUES (3, 'c')", "UPDATE orders SET name = 'd' WHERE id = 1")
        here.stream()
        found = target.query(f"SELECT id, name FROM {made.there}.orders ORDER BY id")
        assert [tuple(row) for row in found] == [(1, "d"), (2, "b"), (3, "c")]
        made.cli("drop", "--execute")


def failing(job: Job) -> dict[str, str]:
    """Return the failed checks with the step that each names."""
    return {one.check: one.step for one in job.preflight().results if one.verdict is CheckVerdict.FAILED}


@pytest.mark.quick
def test_mysql_to_postgresql_by_the_recipe(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    runs_with_what_the_recipe_grants(scenario(mysql, *TABLE))


@pytest.mark.quick
def test_mariadb_to_postgresql_by_the_recipe(mariadb: Server, scenario: Callable[..., Scenario]) -> None:
    runs_with_what_the_recipe_grants(scenario(mariadb, *TABLE))


@pytest.mark.quick
def test_postgresql_to_mysql_by_the_recipe(
    logical_postgresql: Server, mysql: Server, source_database: Make, tmp_path: Path
) -> None:
    source = source_database(logical_postgresql)
    source.execute(*TABLE)
    with job_at_mysql(source, mysql, tmp_path / "job", is_quick=True) as made:
        runs_with_what_the_recipe_grants(made)
