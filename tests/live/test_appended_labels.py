"""Labels that a MySQL or MariaDB appends to an ENUM or SET come at the target just there, between rows of both definitions."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ddl_changes import DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.streams import Streams

PLACES = ("apply.altering", "apply.altered.apart", "apply.altered", "apply.ddl.noted", "apply.committed")
APART = ("apply.altering", "apply.altered.apart")  # where the statement commits by itself
MANY, MEMBERS = [f"l{n}" for n in range(255)], [f"m{n}" for n in range(8)]
PAIRS = [
    ("mysql", "postgresql"),
    ("mariadb", "mysql"),
    *(pytest.param(pair, marks=pytest.mark.long) for pair in (("mariadb", "postgresql"), ("mysql", "mariadb"))),
]
APPLY = f'[ddl]\n{ColumnChange.TYPE} = "apply"\n{ColumnChange.RENAME} = "apply"\n'


def _of(labels: list[str]) -> str:
    return f"({', '.join(map(repr, labels))})"


TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, e ENUM('new','it''s') NOT NULL DEFAULT 'new', s SET('a','b'))",
    f"CREATE TABLE wide (id INT PRIMARY KEY, e ENUM{_of(MANY)}, s SET{_of(MEMBERS)}, v INT)",
    "CREATE TABLE inside (id INT PRIMARY KEY, e ENUM('a','c'))",
    "CREATE TABLE alike (id INT PRIMARY KEY, e ENUM('x','\u00df'))",
    "CREATE TABLE mine (id INT PRIMARY KEY, e ENUM('a','c'))",
    "INSERT INTO item VALUES (1, 'new', 'a'), (2, 'it''s', 'a,b')",
    "INSERT INTO wide VALUES (1, 255, 255, 1), (2, 1, 1, 1), (3, NULL, NULL, 1)",
)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams the tables."""
    return streams(request.param, TABLES, APPLY)


def _streams(here: JobHere) -> None:
    here.stream()
    assert {here.made.states()[table] for table in ("item", "wide")} == {"streaming"}, here.made.status()
    here.made.assert_identical("item", "wide")


def test_rule_17_labels_come_between_the_rows_of_both_definitions(here: JobHere) -> None:
    """Follow labels also where values take more bytes and the source writes its rows anew. The job dies at each place on the
    statement's way, and goes on."""
    source = here.made.source
    source.execute(
        "UPDATE item SET e = 'new' WHERE id = 2",
        "ALTER TABLE item MODIFY e ENUM('new','it''s','paid') NOT NULL DEFAULT 'new', "
        "CHANGE s t SET('a','b','c') CHARACTER SET utf8mb4",
        "INSERT INTO item VALUES (3, 'paid', 'c'), (4, 'it''s', 'a,b,c')",
        "UPDATE wide SET v = 2 WHERE id = 1",
        f"ALTER TABLE wide MODIFY e ENUM{_of([*MANY, 'last'])}, MODIFY s SET{_of([*MEMBERS, 'last'])}",
        "UPDATE wide SET v = 3, e = 256, s = 511 WHERE id = 2",
        "UPDATE wide SET v = 3 WHERE id IN (1, 3)",
        "INSERT INTO wide VALUES (4, 'last', 'm0,last', 4)",
    )
    _streams(here)
    assert here.verify().identical
    noted = here.job.ddl_changes(f"{here.made.schema}.wide")
    assert [(one.outcome, one.rule) for one in noted] == [(Outcome.ALTERED, DdlRule("[ddl] change_type", "apply"))]
    labels, met = "'new','it''s','paid'", []
    for number, place in enumerate(PLACES):
        labels += f",'k{number}'"
        source.execute(
            f"UPDATE item SET e = 'it''s' WHERE id = {number}",
            f"ALTER TABLE item MODIFY e ENUM({labels}) NOT NULL DEFAULT 'new'",
            f"INSERT INTO item VALUES ({number + 10}, 'k{number}', 'b')",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        _streams(here)
    is_apart = isinstance(here.made, MysqlToMysql)
    assert met == [place for place in PLACES if is_apart or place not in APART]
    assert len(here.job.ddl_changes(f"{here.made.schema}.item")) == 1 + len(PLACES)


def test_labels_in_another_place_and_checks_of_others_park(here: JobHere) -> None:
    """Park what would give rows another label, and a check at the target that the job has not made."""
    made = here.made
    is_postgresql = not isinstance(made, MysqlToMysql)
    if is_postgresql:
        made.target.execute(
            f"ALTER TABLE {made.there}.mine DROP CONSTRAINT mine_e_check, ADD CONSTRAINT own CHECK (e IN ('a', 'c', 'z'))"
        )
    else:
        made.target.execute(f"ALTER TABLE {made.there}.mine MODIFY e ENUM('a','c','z')")
    made.source.execute(
        "ALTER TABLE inside MODIFY e ENUM('a','b','c')",
        "ALTER TABLE alike MODIFY e ENUM('x','\u00df','y')",
        "ALTER TABLE mine MODIFY e ENUM('a','c','b')",
        "INSERT INTO mine VALUES (1, 'b')",
        "ALTER TABLE item MODIFY e ENUM('new','it''s','paid') NOT NULL DEFAULT 'new'",
        "INSERT INTO item VALUES (3, 'paid', 'a')",
    )
    here.stream()
    states = made.states()
    assert [states[table] for table in ("inside", "alike", "mine", "item")] == [*["parked"] * 3, "streaming"]
    why = (
        "own of the target's table admits other labels"
        if is_postgresql
        else "e of the target's table is enum('a','c','z')"
    )
    assert why in made.reason("mine"), made.reason("mine")


def test_a_plan_says_that_no_rows_are_written(here: JobHere) -> None:
    plan = here.job.plan_ddl("ALTER TABLE item MODIFY e ENUM('new','it''s','x') NOT NULL DEFAULT 'new'")
    assert (plan.outcome, plan.exit_code) == (Outcome.ALTERED, 0) and plan.altering is not None
    assert len(plan.altering.statements) == 1 and "'x'" in plan.altering.statements[0] and not plan.altering.rewrites
    wide = here.job.plan_ddl(f"ALTER TABLE wide MODIFY e ENUM{_of([*MANY, 'last'])}")
    assert wide.altering is not None and wide.altering.rewrites is isinstance(here.made, MysqlToMysql)
    inside = here.job.plan_ddl("ALTER TABLE inside MODIFY e ENUM('a','b','c')")
    assert (inside.outcome, inside.exit_code) == (Outcome.PARKED, 3)
