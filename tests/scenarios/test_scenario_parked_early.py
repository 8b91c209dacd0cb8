"""Tables that the source drops or alters before their load is through: the load says that they are parked, the others
stream, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from anabranch.model.ids import TableId
from anabranch.testing import faults
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader
from rigs.scenario import PARKS_ADDED, Running, Scenario, wait_until

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "CREATE TABLE wider (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE late (id INT PRIMARY KEY)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
)
ROWS = (
    "INSERT INTO item VALUES (1,'a'),(2,'b')",
    "INSERT INTO gone VALUES (1)",
    "INSERT INTO wider VALUES (1,'a')",
    "INSERT INTO parent VALUES (1)",
    "INSERT INTO child VALUES (1, 1)",
)
CHANGES = (
    "DROP TABLE gone",
    "ALTER TABLE wider ADD COLUMN extra INT DEFAULT 5",
    "ALTER TABLE child ADD COLUMN extra INT",
    "INSERT INTO wider VALUES (2, 'b', 6)",
    "INSERT INTO item VALUES (3, 'c')",
)
STREAMING = {"item", "scenario_mark"}


@pytest.mark.long
def test_rule_15_tables_parked_while_the_load_is_stopped(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES, *ROWS)
    made.write_job(PARKS_ADDED)
    capture = made.start("capture")
    load = made.start("load")
    wait_until(lambda: len(made.states()) == 7, 60, "the load has begun", load.tail, load)
    load.kill()
    assert "streaming" not in made.states().values()
    made.source.execute(*CHANGES)
    wait_until(lambda: len(parked_in_the_trail(made)) == 4, 30, "capture has parked four", capture.tail, capture)
    with faults.frozen(capture.pid):  # the load cannot know, and its first mark lies behind the statement
        made.source.execute("ALTER TABLE late ADD COLUMN extra INT DEFAULT 5")
        assert f"{made.source.name}.gone" in made.cli("load", code=8).stderr
        assert_parked(made, but=STREAMING | {"late"})
    assert "which foreign keys connect with this table" in made.reason("parent")
    apply = made.start("apply")
    made.wait_streaming(apply)
    made.sync(apply)
    assert "ALTER TABLE late" in made.reason("late")
    apply.stop()
    capture.stop()
    assert_parked(made)
    made.assert_identical("item")


@pytest.mark.long
def test_rule_15_tables_parked_under_a_running_load(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES, *ROWS)
    made.write_job(PARKS_ADDED)
    run = made.start("run")
    wait_until(lambda: list(made.states().values()).count("loading") == 7, 60, "chunks are planned", run.tail, run)
    made.source.execute(*CHANGES)
    made.wait_streaming(run)
    made.sync(run)
    assert_parked(made, but=STREAMING | {"late"})
    assert "part_restarts" not in run.stderr
    a_second_run_is_refused(made, run)
    a_part_that_somebody_stops_is_started_again(made, run)
    run.stop()
    made.assert_identical("item")


def a_second_run_is_refused(made: Scenario, run: Running) -> None:
    refused = made.cli("run", code=7).stderr
    assert "job shop: the job is being run by process" in refused and f" {run.pid} on " in refused
    assert {"run", "capture", "apply"} <= {part["name"] for part in made.status()["parts"]}


def a_part_that_somebody_stops_is_started_again(made: Scenario, run: Running) -> None:
    capture = run.part("capture")
    os.kill(capture, signal.SIGTERM)
    wait_until(lambda: not faults.is_alive(capture), 30, "capture has ended", run.tail, run)
    status = made.status()
    if "capture" not in {part["name"] for part in status["parts"]}:
        assert (status["phase"], status["detail"]) == ("waiting", "for capture, which is not running")
    made.source.execute("INSERT INTO item VALUES (4, 'd')")
    made.sync(run)
    assert "part_restarts" in run.stderr


def parked_in_the_trail(made: Scenario) -> dict[TableId, str]:
    with TrailReader(made.trail) as trail:
        return trail.history.parked()


def assert_parked(made: Scenario, but: set[str] = STREAMING) -> None:
    states = made.states()
    assert {table for table, state in states.items() if state == "parked"} == states.keys() - but, states
    if "gone" in states:  # the target never had it: it is forgotten once capture has looked for tables
        assert "DROP TABLE" in made.reason("gone")
    assert "ALTER TABLE wider" in made.reason("wider")
    assert "anabranch load JOB --table" in made.reason("wider")
