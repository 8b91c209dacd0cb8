"""A table comes to a job later, and the target has one of its name that the job did not fill (K29): its rows are nobody's to
remove, and its columns have to hold the source's values, before the table joins the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.errors import PreflightFailed, TargetError
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

LATER = (
    "CREATE TABLE later (id INT PRIMARY KEY, at DATETIME(6))",
    "INSERT INTO later VALUES (1, '2024-05-06 07:08:09.123456')",
)
OTHER = """
INSERT INTO anabranch.table_state (job, source_table, target_table, state, generation)
VALUES ('other', 'a.b', '{}', 'parked', 1)
"""
KINDS = {"postgresql": (Scenario, "timestamp"), "mysql": (MysqlToMysql, "datetime")}


@pytest.fixture(params=["postgresql", "mysql"])
def here(
    request: pytest.FixtureRequest, mariadb: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    """A job that streams, and whose source has got a table more."""
    kind, _ = KINDS[request.param]
    source, target = source_database(mariadb), create_database(request.getfixturevalue(request.param), "standing")
    source.execute("CREATE TABLE early (id INT PRIMARY KEY)")
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job")))
    made.load()
    made.stream()
    source.execute(*LATER)
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(target)


def _stands(here: JobHere, digits: int, *rows: int) -> None:
    """Make the table at the target, as somebody else would."""
    made = here.made
    type = f"{KINDS[made.target.server.name][1]}({digits})"
    made.target.execute(f"CREATE TABLE {made.there}.later (id int PRIMARY KEY, at {type})")
    made.target.execute(*(f"INSERT INTO {made.there}.later VALUES ({one}, NULL)" for one in rows))


def _later(here: JobHere) -> list[tuple[int, str]]:
    found = here.made.target.query(f"SELECT id, at FROM {here.made.there}.later ORDER BY id")
    return [(key, str(at)) for key, at in found]


def test_rule_29_rows_that_are_nobodys_stay_until_the_job_says_so(here: JobHere) -> None:
    table = TableId(here.made.schema, "later")
    _stands(here, 6, 7, 8)
    with pytest.raises(PreflightFailed, match="holds rows"):
        here.load(table)
    assert [key for key, _ in _later(here)] == [7, 8]
    assert here.made.states()[table.name] == "parked"
    here.made.write_job('[load]\nexisting = "empty"\n')
    here.load(table)
    here.stream()
    assert _later(here) == [(1, "2024-05-06 07:08:09.123456")]
    here.made.write_job()
    here.load(table)  # again: these rows are the job's own
    here.stream()
    assert here.verify().identical


def test_rule_29_a_table_whose_columns_would_round_values_is_refused_or_made_anew(here: JobHere) -> None:
    table = TableId(here.made.schema, "later")
    _stands(here, 0)
    with pytest.raises(PreflightFailed, match="column at"):
        here.load(table)
    with pytest.raises(PreflightFailed, match="column at"):
        here.load(table, keep=True)
    here.load(table, recreate=True)
    here.stream()
    assert _later(here) == [(1, "2024-05-06 07:08:09.123456")]
    assert here.verify().identical


def test_rule_29_what_the_job_file_says_of_keys_holds_for_a_newcomer_too(here: JobHere) -> None:
    made, table = here.made, TableId(here.made.schema, "later")
    _stands(here, 6)
    made.target.execute(f"CREATE UNIQUE INDEX later_at ON {made.there}.later (at)")
    with pytest.raises(PreflightFailed, match="defer_constraints"):
        here.load(table)
    made.write_job("[load]\ndefer_constraints = true\n")
    here.load(table)
    # whoever drops the job now is told what it took off
    (statement,) = [line.partition("by hand: ")[2] for line in here.job.drop().lines if "later_at" in line]
    made.target.execute(statement)
    here.stream()
    assert not [line for line in here.job.drop().lines if "later_at" in line]
    assert here.verify().identical


def test_rule_29_a_table_that_another_job_writes_to_is_not_taken_out_to_be_refused(here: JobHere) -> None:
    made = here.made
    made.target.execute(OTHER.format(f"{made.there}.early"))
    with pytest.raises(TargetError, match="other jobs write to"):
        here.load(TableId(made.schema, "early"))
    assert made.states()["early"] == "streaming"
    made.target.execute("DELETE FROM anabranch.table_state WHERE job = 'other'")
