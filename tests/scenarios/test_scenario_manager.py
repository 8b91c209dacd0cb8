"""A manager that is served over HTTP keeps a job of two real servers running, and dies while it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server
from rigs.managed import processes_of, served
from rigs.scenario import TARGET_SECRET, Scenario, wait_until

Make = Callable[..., Scenario]


@pytest.mark.quick
def test_a_job_outlives_its_manager_and_obeys_the_next_one(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1), (2)")
    with served(made, 1, without=TARGET_SECRET) as first:
        assert first.ask("POST", "/api/v1/jobs", {"text": made.job_file.read_text()})[0] == 422
        first.command("secret", "set", TARGET_SECRET, given=made.environment[TARGET_SECRET])
        assert first.ask("POST", "/api/v1/jobs", {"text": made.job_file.read_text()})[0] == 201
        assert first.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
        pid = first.wait_job("shop", "running")["pid"]
        made.wait_streaming(first.process)
        first.kill()
        made.source.execute("INSERT INTO item VALUES (3)")
        made.sync()  # nobody manages it, and it goes on
        assert faults.is_alive(pid)
        with served(made, 2, without=TARGET_SECRET) as second:
            assert second.ask("GET", "/api/v1/jobs/shop/status")[0] == 200
            found = second.wait_job("shop", "running")
            assert (found["pid"], found["restarts"]) == (pid, 0)
            assert second.ask("POST", "/api/v1/jobs/shop/stop")[0] == 202
            assert second.wait_job("shop", "stopped")["exit_code"] == -1  # another process was its parent
            wait_until(lambda: not processes_of(made), 30, "no process is left", second.process.tail)
            assert second.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
            again = second.wait_job("shop", "running")["pid"]
            made.source.execute("INSERT INTO item VALUES (4)")
            made.sync()
            faults.kill_tree(again)
            wait_until(lambda: second.job("shop")["pid"] not in (None, again), 60, "it comes again")
            assert (second.job("shop")["restarts"], second.job("shop")["exit_code"]) == (1, 137)
            made.source.execute("INSERT INTO item VALUES (5)")
            made.sync()
            second.ask("POST", "/api/v1/jobs/shop/stop")
            assert second.wait_job("shop", "stopped")["exit_code"] == 0
            second.process.stop()
    assert processes_of(made) == []
    made.assert_identical("item")


@pytest.mark.quick
@pytest.mark.long
def test_a_manager_that_is_asked_for_it_stops_its_jobs_as_it_ends_and_the_next_one_starts_them(
    mariadb: Server, scenario: Make
) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    with served(made, 1, "--stop-jobs") as first:
        first.ask("POST", "/api/v1/jobs", {"text": made.job_file.read_text()})
        first.ask("POST", "/api/v1/jobs/shop/start")
        first.wait_job("shop", "running")
        made.wait_streaming(first.process)
        first.process.stop(90)
        assert processes_of(made) == []
    with served(made, 2) as second:
        second.wait_job("shop", "running")
        made.source.execute("INSERT INTO item VALUES (2)")
        made.sync()
        second.ask("POST", "/api/v1/jobs/shop/stop")
        second.wait_job("shop", "stopped")
    made.assert_identical("item")
