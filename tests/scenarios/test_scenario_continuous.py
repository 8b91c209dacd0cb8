"""`[apply] runner = "continuous"`: the whole way without Structured Streaming, killed in the middle; Spark comes when an epoch
is worth tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.demo.child import descendants
from anabranch.testing.servers import Server
from anabranch.testing.usage import kind_of
from anabranch.testing.workload import SCHEMA, TABLES, Writer, fill
from rigs.scenario import HALVES, Running, Scenario, pitfall_14_no_half_transaction_is_seen, wait_until

Make = Callable[..., Scenario]
MANY = (
    "CREATE TABLE many (id INT PRIMARY KEY, n INT NOT NULL)",
    "CREATE TABLE digit (n INT PRIMARY KEY)",
    "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
)
FILL_MANY = "INSERT INTO many SELECT a.n + 10*b.n + 100*c.n + 1000*d.n, 0 FROM digit a, digit b, digit c, digit d"
CONTINUOUS = '[apply]\nrunner = "continuous"\nstage_rows = 10000\n'


@pytest.mark.timeout(1200)
def test_the_continuous_runner_is_killed_and_goes_on(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *SCHEMA, *MANY, *HALVES, *fill(2))
    made.write_job(CONTINUOUS)
    with Writer(made.source, seed=7, rate=15):  # what comes while it starts again stays less than an epoch for Spark
        run = made.start("run")
        made.wait_streaming(run, seconds=200)
        made.sync(run, seconds=180)
        run.kill()
        run = made.start("run")
        made.wait_streaming(run)
        with pitfall_14_no_half_transaction_is_seen(made):
            made.sync(run, seconds=180)
        assert not runs_java(run), "nothing of it needs Spark"
        made.source.execute(FILL_MANY)
        wait_until(lambda: runs_java(run), 120, "a large epoch starts Spark", run.tail, run)
        made.sync(run, seconds=180)
    made.sync(run, seconds=180)
    made.assert_identical()
    assert run.stop().code == 0
    assert set(made.states()) == {*TABLES, "scenario_mark", "half", "other_half", "many", "digit"}
    assert set(made.states().values()) == {"streaming"}


def runs_java(run: Running) -> bool:
    return any(kind_of(pid) == "java" for pid in descendants(run.pid))
