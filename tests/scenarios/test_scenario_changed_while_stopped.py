"""What was altered while the job stood still parks, and does not keep it from starting; and what may not be loaded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import PARKS_ADDED, Running, Scenario, wait_until

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "INSERT INTO item VALUES (1,'a'),(2,'b')",
    "INSERT INTO parent VALUES (1),(2)",
    "INSERT INTO child VALUES (1, 1), (2, 2)",
)


@pytest.mark.long
def test_what_changes_while_the_job_is_stopped(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    rule_01_cascades_that_would_get_lost_are_refused(made)
    made.write_job(PARKS_ADDED)
    assert "job.cascades" in made.cli("preflight").stdout
    made.run_until_caught_up()
    what_was_changed_parks(made)
    what_may_not_be_loaded_is_refused_by_name(made)
    a_job_with_every_table_parked_goes_on(made)


def rule_01_cascades_that_would_get_lost_are_refused(made: Scenario) -> None:
    made.write_job(f'[[tables]]\nname = "{made.source.name}.child"\nwhere = "id > 0"\n')
    refused = made.cli("preflight", code=3).stdout
    assert "job.cascades" in refused and "has a filter" in refused
    rules = f'[[rules]]\ninclude = ["{made.source.name}.*"]\nexclude = ["*.parent"]\ntarget = "public.{{table}}"\n'
    made.write_job(rules=rules)
    refused = made.cli("run", code=3).stderr
    assert f"leaves {made.source.name}.parent out" in refused and "include" in refused
    assert not (made.home / "trail").exists()


def what_was_changed_parks(made: Scenario) -> None:
    made.source.execute(
        "ALTER TABLE item ADD COLUMN place ENUM('a') CHARACTER SET binary, DROP PRIMARY KEY, ADD PRIMARY KEY (name)",
        "CREATE TABLE fresh (id INT PRIMARY KEY, place ENUM('a') CHARACTER SET binary)",
        "DROP TABLE gone",
        "ALTER TABLE parent ADD COLUMN more INT",
        "ALTER TABLE scenario_mark ADD COLUMN more INT",
    )
    shown = made.cli("preflight").stdout
    for name, what in (("item", "changed"), ("fresh", "is new"), ("gone", "is no longer at the source")):
        assert any(f".{name}: " in line and what in line and "warning" in line for line in shown.splitlines()), shown
    assert "it will be parked" in made.run_until_caught_up(code=8).stderr
    assert set(made.states().values()) == {"parked"}, made.states()


def what_may_not_be_loaded_is_refused_by_name(made: Scenario) -> None:
    def load(table: str, code: int, *more: str) -> str:
        return made.cli("load", "--table", f"{made.source.name}.{table}", *more, code=code).stderr

    assert "the source has no such table" in load("gone", 5)
    assert f"{made.source.name}.never" in load("never", 5)
    assert "place" in load("fresh", 5)
    message = load("child", 2)
    assert f"{made.source.name}.parent" in message and "load them together, parents first" in message
    assert not list((made.home / "trail" / "requests").glob("*"))


def a_job_with_every_table_parked_goes_on(made: Scenario) -> None:
    shown = made.cli("preflight").stdout
    assert "no table is followed at present" in shown and "6 tables are parked" in shown
    assert "6 tables are parked" in made.cli("load", code=8).stderr
    run = made.start("run")
    rule_01_parents_join_before_their_children(made, run)
    assert "6 tables are parked" in run.stderr
    run.stop()


def rule_01_parents_join_before_their_children(made: Scenario, run: Running) -> None:
    for table in ("parent", "child"):
        made.cli("load", "--table", f"{made.source.name}.{table}", "--recreate", seconds=120)
    wait_until(lambda: made.states()["child"] == "streaming", 60, "child streams", lambda: str(made.states()), run)
    made.source.execute("DELETE FROM parent WHERE id = 1", "INSERT INTO parent VALUES (7, 7)")
    wait_until(lambda: (7, 7) in made.target_rows("parent"), 30, "the change arrives", run.tail, run)
    made.assert_identical("child", "parent")
