"""Definitions that change under a running job: what goes on, what parks, and how a table joins again (K15, K16, K19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, fill
from rigs.scenario import PARKS_ADDED, Running, Scenario, wait_until
from rigs.scenario_mysql_target import job_at_mysql


@pytest.fixture(params=["postgresql", pytest.param("mysql", marks=pytest.mark.long)], ids="to a {}".format)
def made(
    request: pytest.FixtureRequest, mariadb: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[Scenario]:
    if request.param == "postgresql":
        yield request.getfixturevalue("scenario")(mariadb, *SCHEMA, *fill(1))
        return
    source = source_database(mariadb)
    source.execute(*SCHEMA, *fill(1))
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(source, request.getfixturevalue("mysql"), tmp_path / "job", is_quick=is_quick) as made:
        yield made


@pytest.mark.quick
def test_definitions_change_while_it_streams(made: Scenario) -> None:
    made.write_job(f'{PARKS_ADDED}change_type = "park"\n')
    run = made.start("run")
    made.wait_streaming(run)
    rule_16_truncate_is_applied_in_order(made, run)
    what_changes_no_definition_goes_on(made, run)
    rule_19_a_changed_definition_parks_the_table_alone(made, run)
    a_table_created_after_start_is_parked(made, run)
    rule_15_a_parked_table_joins_while_the_others_stream(made, run)
    a_new_table_joins(made, run)
    the_foreign_key_component_parks_together(made, run)
    assert run.is_alive
    run.stop()
    assert "parked" in made.run_until_caught_up(code=8).stderr
    assert made.cli("verify", code=8, seconds=120).stdout.count("identical  ") == 5


def rule_16_truncate_is_applied_in_order(made: Scenario, run: Running) -> None:
    made.source.execute(
        "INSERT INTO visit VALUES ('before', 1, NULL)",
        "TRUNCATE TABLE visit",
        "INSERT INTO visit VALUES ('after', 1, NULL), ('after', 1, NULL)",
    )
    made.sync(run)
    assert made.target_rows("visit") == [("after", 1, None), ("after", 1, None)]


def what_changes_no_definition_goes_on(made: Scenario, run: Running) -> None:
    made.source.execute(
        "CREATE INDEX later ON tick (at)", "ANALYZE TABLE tick", "CREATE VIEW seen AS SELECT * FROM tick"
    )
    made.source.execute("INSERT INTO tick VALUES (77, 1, NOW(6))", "DROP VIEW seen")
    made.sync(run)
    made.assert_identical("tick")
    assert set(made.states().values()) == {"streaming"}


def rule_19_a_changed_definition_parks_the_table_alone(made: Scenario, run: Running) -> None:
    made.source.execute(
        "ALTER TABLE cell ADD COLUMN extra INT DEFAULT 5", "INSERT INTO cell VALUES (900, 'n', 1, NULL, 6)"
    )
    made.sync(run)
    assert made.states()["cell"] == "parked"
    assert "ALTER TABLE cell" in made.reason("cell") and "anabranch load JOB --table" in made.reason("cell")
    assert {s for t, s in made.states().items() if t != "cell"} == {"streaming"}
    assert made.target_rows("cell", ["x"], "x = 900") == []


def a_table_created_after_start_is_parked(made: Scenario, run: Running) -> None:
    made.source.execute("CREATE TABLE fresh (id INT PRIMARY KEY, t TEXT)", "INSERT INTO fresh VALUES (1, 'one')")
    made.sync(run)
    assert made.states()["fresh"] == "parked" and "created after start" in made.reason("fresh")
    assert "CREATE TABLE fresh" in made.reason("fresh")


def rule_15_a_parked_table_joins_while_the_others_stream(made: Scenario, run: Running) -> None:
    table = f"{made.source.name}.cell"
    refused = made.cli("load", "--table", table, code=2)
    assert "--recreate" in refused.stderr and "CREATE TABLE" in refused.stderr and refused.stdout == ""
    made.cli("load", "--table", table, "--recreate", seconds=120)
    made.source.execute("UPDATE cell SET extra = 7 WHERE x = 900", "DELETE FROM cell WHERE x = 1")
    _wait_streams(made, run, "cell")
    made.sync(run)
    made.assert_identical("cell")


def a_new_table_joins(made: Scenario, run: Running) -> None:
    made.cli("load", "--table", f"{made.source.name}.fresh", seconds=120)
    made.source.execute("INSERT INTO fresh VALUES (2, 'two')")
    _wait_streams(made, run, "fresh")
    made.sync(run)
    made.assert_identical("fresh")


def the_foreign_key_component_parks_together(made: Scenario, run: Running) -> None:
    made.source.execute("ALTER TABLE entry MODIFY amount DECIMAL(14,3) NOT NULL")
    made.sync(run)
    states = made.states()
    assert {table for table, state in states.items() if state == "parked"} == {"account", "entry", "remark"}
    assert "foreign key" in made.reason("remark")


def _wait_streams(made: Scenario, run: Running, table: str) -> None:
    wait_until(lambda: made.states()[table] == "streaming", 60, f"{table} streams", lambda: str(made.states()), run)
