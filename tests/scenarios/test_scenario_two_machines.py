"""Managers of two machines share a store on a PostgreSQL and the homes of jobs: one leads, and dies or falls asleep.

The two machines are two processes that know the shared directory by different paths; what a process on another host is to
them is in tests/unit/manager/test_manager_elsewhere.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.cli.managing import STORE
from anabranch.testing import faults
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until
from rigs.served import Served

Make = Callable[..., Scenario]
QUICK = Path(__file__).parents[1] / "rigs" / "quick"


@contextmanager
def machine(made: Scenario, store: Database, name: str) -> Iterator[Served]:
    """A manager whose path to the shared directory is its own."""
    home = made.directory / f"mount-{name}"
    Path(made.environment["ANABRANCH_HOME"]).mkdir(exist_ok=True)
    home.symlink_to(made.environment["ANABRANCH_HOME"])
    path = f"{QUICK}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = made.environment | {"PYTHONPATH": path, STORE: store.url, "ANABRANCH_HOME": str(home)}
    (made.directory / "output").mkdir(exist_ok=True)
    manager = Served(environment, made.directory / "output" / name)
    try:
        yield manager
    finally:
        manager.close()


def begin(made: Scenario, first: Served) -> int:
    """Take in the scenario's job, and start it. Returns its process."""
    first.wait_health()
    first.token = first.command("token", "create", "--role", "administrator", "--name", "test")
    assert first.ask("POST", "/api/v1/jobs", {"text": made.job_file.read_text()})[0] == 201
    assert first.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
    pid: int = first.wait_job("shop", "running")["pid"]
    made.wait_streaming(first.process)
    return pid


@pytest.mark.quick
def test_when_the_leader_is_killed_the_other_machine_takes_over_its_jobs(
    mariadb: Server, scenario: Make, target_database: Database
) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1), (2)")
    with machine(made, target_database, "a") as first:
        pid = begin(made, first)
        with machine(made, target_database, "b") as second:
            second.wait_health(503)
            assert f"process {first.process.pid}" in second.process.stderr
            first.kill()
            made.source.execute("INSERT INTO item VALUES (3)")
            second.wait_health()
            second.token = first.token
            found = second.wait_job("shop", "running")
            assert (found["pid"], found["restarts"]) == (pid, 0), "the job went on, and is not started twice"
            faults.kill_tree(pid)
            wait_until(lambda: second.job("shop")["pid"] not in (None, pid), 60, "it comes again", second.process.tail)
            made.source.execute("INSERT INTO item VALUES (4)")
            made.sync()
            assert second.ask("POST", "/api/v1/jobs/shop/stop")[0] == 202
            second.wait_job("shop", "stopped")
            second.process.stop()
    made.assert_identical("item")


@pytest.mark.quick
def test_a_leader_that_was_asleep_wakes_up_overtaken_changes_nothing_and_ends(
    mariadb: Server, scenario: Make, target_database: Database
) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    with machine(made, target_database, "a") as first:
        pid = begin(made, first)
        with machine(made, target_database, "b") as second:
            second.wait_health(503)
            os.kill(first.process.pid, signal.SIGSTOP)
            second.wait_health()
            second.token = first.token
            assert second.wait_job("shop", "running")["pid"] == pid
            assert second.ask("POST", "/api/v1/jobs/shop/stop")[0] == 202
            second.wait_job("shop", "stopped")
            os.kill(first.process.pid, signal.SIGCONT)
            ended = first.process.wait()
            assert ended.code == 7 and "another manager has taken over" in ended.stderr
            assert "job_started" not in ended.stderr.rpartition("lease_lost")[2], "it has started nothing"
            code, page = second.ask("GET", "/api/v1/audit?job=shop")
            assert code == 200 and page["entries"][0]["action"] == "job_stopped"
            assert second.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
            second.wait_job("shop", "running")
            made.source.execute("INSERT INTO item VALUES (2)")
            made.sync()
            second.ask("POST", "/api/v1/jobs/shop/stop")
            second.wait_job("shop", "stopped")
            second.process.stop()
    made.assert_identical("item")
