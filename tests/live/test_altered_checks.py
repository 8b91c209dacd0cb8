"""Checks that a MySQL or MariaDB makes and drops come to the target where the job file says so, with rows behind them that they
would refuse."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT, m INT, CONSTRAINT small CHECK (m < 100))",
    "INSERT INTO item (id, v, n, m) VALUES (1, 'one', 1, 1), (2, 'two', 2, 2)",
)
PAIRS = [
    ("mariadb", "postgresql"),
    ("mysql", "mariadb"),
    pytest.param(("mariadb", "mysql"), marks=pytest.mark.long),
]
APPLY = '[ddl]\nchecks = "apply"\ndrop_column = "apply"\n'
CHECKS = {
    "postgresql": """
        SELECT k.conname FROM pg_constraint k
         WHERE k.conrelid = (%s || '.item')::regclass AND k.contype = 'c' AND k.convalidated""",
    "mysql": """
        SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = 'item'
           AND CONSTRAINT_TYPE = 'CHECK'""",
}


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams a table, with the check that it has."""
    return streams(request.param, TABLES, APPLY, is_built=True)


def _checks(here: JobHere) -> set[str]:
    kind = "postgresql" if here.made.target.server.name == "postgresql" else "mysql"
    return {str(name) for (name,) in here.made.target.query(CHECKS[kind], [here.made.there])}


def _builds(here: JobHere) -> None:
    here.capture()
    here.apply(is_built=True)
    assert here.made.states()["item"] == "streaming", here.made.reason("item")
    here.made.assert_identical("item")


def test_checks_come_and_go_with_those_of_the_source(here: JobHere) -> None:
    """One is gone before rows that it would refuse, and another one of its name has their condition."""
    assert _checks(here) == {"small"}
    planned = here.job.plan_ddl("ALTER TABLE item ADD CONSTRAINT large CHECK (n > 0), DROP CONSTRAINT small")
    assert planned.outcome is Outcome.ALTERED and planned.altering and len(planned.altering.statements) >= 2
    here.made.source.execute(
        "ALTER TABLE item ADD CONSTRAINT large CHECK (n > -0.5 AND n <> 77)",
        "ALTER TABLE item DROP CONSTRAINT small",
        "UPDATE item SET m = 1000 WHERE id = 1",
        "ALTER TABLE item ADD CONSTRAINT small CHECK (m <= 1000), ADD CHECK (id BETWEEN 1 AND 10)",
        "INSERT INTO item (id, n, m) VALUES (3, 3, 999)",
    )
    _builds(here)
    assert _checks(here) >= {"small", "large"} and len(_checks(here)) == 3
    noted = here.job.ddl_changes()
    assert {one.outcome for one in noted} == {Outcome.ALTERED} and noted[0].rule == DdlRule("[ddl] checks", "apply")
    assert noted[0].why == "built while rows go on: large"
    here.made.source.execute(
        "ALTER TABLE item DROP CONSTRAINT small, ADD CONSTRAINT small CHECK (m < 2000)",
        "UPDATE item SET m = 1999",
        "ALTER TABLE item ADD COLUMN c INT DEFAULT 5 CHECK (c > 0), DROP CONSTRAINT large, DROP COLUMN v",
        "UPDATE item SET n = 77",
    )
    _builds(here)
    assert len(_checks(here)) == 3 and "large" not in _checks(here)


def test_rule_17_a_kill_on_the_way_of_a_check_is_made_good(here: JobHere) -> None:
    places = ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed", "apply.built")
    for number, place in enumerate(places, 100):
        before = f"c{number - 1}" if number > 100 else "small"
        here.made.source.execute(
            f"ALTER TABLE item DROP CONSTRAINT {before}, ADD CONSTRAINT c{number} CHECK (m <= {number})",
            f"UPDATE item SET m = {number}",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.capture()
            here.apply(is_built=True)
        except failpoints.FailpointReached:
            pass
        finally:
            failpoints.arm({})
        _builds(here)
        assert _checks(here) == {f"c{number}"}, place


@pytest.mark.one_case("mariadb to postgresql")
def test_a_check_that_is_not_certain_to_mean_the_same_parks_its_table(here: JobHere) -> None:
    here.made.source.execute("ALTER TABLE item ADD CONSTRAINT long_enough CHECK (SQRT(n) < 9)", "UPDATE item SET n = 5")
    here.stream()
    assert here.made.states()["item"] == "parked" and "check long_enough cannot be made" in here.made.reason("item")


@pytest.mark.one_case("mariadb to postgresql")
def test_checks_are_left_alone_where_the_file_says_nothing_and_a_job_that_follows_them_goes_on(here: JobHere) -> None:
    made = here.made
    made.write_job('[ddl]\nindexes = "apply"\n')
    made.source.execute(
        "ALTER TABLE item ADD KEY by_n (n), ADD CONSTRAINT large CHECK (n > 0)", "UPDATE item SET n = 5"
    )
    _builds(here)
    assert _checks(here) == {"small"}
    assert here.job.ddl_changes()[0].why == 'built while rows go on: by_n; checks = "ignore": add check large'
    made.write_job(APPLY)
    made.source.execute("ALTER TABLE item DROP CONSTRAINT large", "UPDATE item SET n = -1")
    made.source.execute("ALTER TABLE item DROP CONSTRAINT small", "UPDATE item SET m = 100")
    _builds(here)
    assert _checks(here) == set()


def test_another_check_under_a_name_that_the_target_has_parks_its_table_where_checks_are_ignored(here: JobHere) -> None:
    here.made.write_job('[ddl]\nindexes = "apply"\n')
    here.made.source.execute(
        "ALTER TABLE item DROP CONSTRAINT small, ADD CONSTRAINT small CHECK (m < 2000), ADD KEY by_n (n)",
        "UPDATE item SET m = 1000",
    )
    here.stream()
    assert here.made.states()["item"] == "parked" and "check small" in here.made.reason("item")
