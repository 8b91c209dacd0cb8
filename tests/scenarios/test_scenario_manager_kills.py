"""A manager is killed at every place between what is asked for and what is noted, and the next one goes on from there: each
job has one process, each action is done with its entry in the audit or is not there, no operation runs twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.testing.servers import Server
from rigs.managed import Managers, processes_of, runs_of
from rigs.scenario import Scenario, wait_until
from rigs.served import Served

Make = Callable[..., Scenario]
HERE = [point for point in failpoints.POINTS if point.startswith("manager.")]
DONE = ("done", "lost", "failed", "cancelled")


def actions(manager: Served) -> list[str]:
    code, found = manager.ask("GET", "/api/v1/audit")
    assert code == 200, found
    return [one["action"] for one in found["entries"] if one["job"] == "shop"]


def wait_one_process(made: Scenario, manager: Served) -> None:
    """Wait until the job runs, in one process, which the manager knows. A process that was started beside one which had not
    noted itself yet ends by itself: the other has the lock."""
    wait_until(lambda: [manager.job("shop")["pid"]] == runs_of(made), 120, "one process runs", manager.process.tail)
    made.wait_streaming(manager.process)
    assert [manager.job("shop")["pid"]] == runs_of(made) and manager.job("shop")["state"] == "running"


@pytest.mark.quick
def test_the_next_manager_goes_on_from_a_kill_anywhere(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    with closing(Managers(made)) as managers:
        _dies_at_actions(made, managers)
        _dies_around_the_process(made, managers)
        _dies_around_operations(made, managers)
        _dies_before_a_stop(made, managers)
    made.assert_identical("item")


def _dies_at_actions(made: Scenario, managers: Managers) -> None:
    """Kill managers around an action and its entry in the audit: both are there afterwards, or neither is."""
    job = {"text": made.job_file.read_text()}
    with managers.dying("manager.audit") as dying:
        assert dying.ask("POST", "/api/v1/jobs", job)[0] == 0
    with managers.next() as manager:
        assert manager.ask("GET", "/api/v1/jobs/shop")[0] == 404 and actions(manager) == []
    with managers.dying("manager.file") as dying:
        assert dying.ask("POST", "/api/v1/jobs", job)[0] == 0
    with managers.next() as manager:
        assert manager.job("shop")["state"] == "stopped" and actions(manager) == ["job_added"]
        file = next(made.directory.rglob("jobs/shop.toml"))
        assert file.read_text() == job["text"]
    with managers.dying("manager.audit") as dying:
        assert dying.ask("POST", "/api/v1/jobs/shop/start")[0] == 0
    with managers.next() as manager:
        assert manager.job("shop")["state"] == "stopped" and actions(manager) == ["job_added"]


def _dies_before_a_stop(made: Scenario, managers: Managers) -> None:
    with managers.dying("manager.job.stop") as dying:
        dying.ask("POST", "/api/v1/jobs/shop/stop")
    assert len(runs_of(made)) == 1
    with managers.next() as manager:
        manager.wait_job("shop", "stopped")
        wait_until(lambda: not processes_of(made), 120, "no process is left", manager.process.tail)
        assert actions(manager)[0] == "job_stopped"


def _dies_around_the_process(made: Scenario, managers: Managers) -> None:
    for number, point in enumerate(("manager.job.start", "manager.job.started"), 2):
        with managers.dying(point) as dying:
            dying.ask("POST", "/api/v1/jobs/shop/start")
        with managers.next() as manager:
            wait_one_process(made, manager)
            made.source.execute(f"INSERT INTO item VALUES ({number})")
            made.sync()
            if point == "manager.job.start":
                assert manager.ask("POST", "/api/v1/jobs/shop/stop")[0] == 202
                manager.wait_job("shop", "stopped")
                wait_until(lambda: not processes_of(made), 120, "no process is left", manager.process.tail)


def _dies_around_operations(made: Scenario, managers: Managers) -> None:
    """The job goes on meanwhile; what has begun is not begun again."""
    before = runs_of(made)
    told = {
        "manager.operation.marked": "lost",
        "manager.operation.started": "done",
        "manager.operation.ended": "done",
    }
    for point, state in told.items():
        with managers.dying(point) as dying:
            code, asked = dying.ask("POST", "/api/v1/jobs/shop/operations", {"verb": "schema ls", "arguments": []})
        with managers.next() as manager:
            found = operations(manager)
            wait_until(lambda: operations(manager)[0]["state"] in DONE, 120, f"{point}: it ends", manager.process.tail)
            assert code in (0, 202) and operations(manager)[0]["state"] == state, (asked, operations(manager))
            assert len(found) == list(told).index(point) + 1
    assert runs_of(made) == before


def operations(manager: Served) -> list[dict[str, Any]]:
    code, found = manager.ask("GET", "/api/v1/jobs/shop/operations")
    assert code == 200, found
    return list(found["operations"])


def test_every_place_of_the_manager_is_one_at_which_it_is_killed_here() -> None:
    text = Path(__file__).read_text()
    assert [point for point in HERE if f'"{point}"' not in text] == []
