"""Servers that restart and lines that are slow, silent or cut, while the job loads and while it streams: `run` goes on by
itself, nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.testing import faults
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail.reader import TrailReader
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_mysql_target import MysqlToMysql

BULK = 60_000
DIGITS = ",".join(f"({n})" for n in range(10))
BULKY = (
    "CREATE TABLE digit (n INT PRIMARY KEY)",
    f"INSERT INTO digit VALUES {DIGITS}",
    "CREATE TABLE bulk (id INT PRIMARY KEY, words VARCHAR(200) NOT NULL)",
    "INSERT INTO bulk SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n, REPEAT(MD5(a.n * e.n + c.n), 5)"
    f" FROM digit a, digit b, digit c, digit d, digit e WHERE e.n < {BULK // 10_000}",
)
IN_COPY = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
    " AND application_name = 'anabranch-load' AND query LIKE 'COPY %'",
    "mysql": "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'LOAD DATA LOCAL %'",
}
STARTS = {"postgresql": start_postgresql, "mysql": partial(start_mysql, options=["--local-infile=ON"])}


@pytest.fixture(params=["postgresql", pytest.param("mysql", marks=pytest.mark.long)], ids="to a {}".format)
def away(
    request: pytest.FixtureRequest, servers_directory: Path, tmp_path: Path
) -> Iterator[tuple[Scenario, Proxy, Proxy]]:
    """A job between servers of its own, by way of two lines that can be broken."""
    source, target = (
        start_mariadb(servers_directory / unique_name("away-source")),
        STARTS[request.param](servers_directory / unique_name("away-target")),
    )
    database = create_database(source, "away")
    database.execute(*SCHEMA, *fill(2), *BULKY)
    kind = Scenario if request.param == "postgresql" else MysqlToMysql
    with Proxy(source.host, source.port) as to_source, Proxy(target.host, target.port) as to_target:
        places = {"source_at": ("127.0.0.1", to_source.port), "target_at": ("127.0.0.1", to_target.port)}
        made = kind(database, create_database(target, "away"), tmp_path / "job", **places)
        made.is_quick = not request.config.getoption("--spark")
        yield made, to_source, to_target
        made.close()
    source.stop(immediate=True)
    target.stop(immediate=True)


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_ends_that_go_away_and_come_back(
    away: tuple[Scenario, Proxy, Proxy], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, to_source, to_target = away
    monkeypatch.setenv(failpoints.VARIABLE, "apply.claimed=raise:TargetBusy")  # hours of loading may lie before
    monkeypatch.setenv(failpoints.LOG_VARIABLE, str(tmp_path / "reached"))
    with Writer(made.source, seed=7, rate=40):
        run = made.start("run")
        lines_cut_while_it_loads(made, run, to_source, to_target)
        made.wait_streaming(run, seconds=200)
        lines_cut_while_it_streams(made, run, to_source, to_target)
        server_restarts(made, run, made.source, immediate=True)
        server_restarts(made, run, made.target, immediate=True)
        server_restarts(made, run, made.source, immediate=False)
        server_restarts(made, run, made.target, immediate=False)
        a_silent_line_is_waited_for(made, run, to_target)
    made.sync(run, seconds=120)
    made.assert_identical()
    assert run.stop().code == 0
    assert "part_restarts" not in run.stderr, "every part has seen through it"
    assert "apply.claimed=raise:TargetBusy" in (tmp_path / "reached").read_text()


def lines_cut_while_it_loads(made: Scenario, run: Running, to_source: Proxy, to_target: Proxy) -> None:
    to_target.slow(0.02)  # long enough in COPY to be met there
    for line in (to_source, to_target):
        wait_until(
            lambda: made.target.query(IN_COPY[made.target.server.name])[0][0], 100, "a chunk in COPY", run.tail, run
        )
        line.cut()
    to_target.restore()


def lines_cut_while_it_streams(made: Scenario, run: Running, to_source: Proxy, to_target: Proxy) -> None:
    for line in (to_source, to_target):
        for _ in range(3):
            line.cut()
            time.sleep(0.3)
        line.refuse()
        time.sleep(2)
        line.restore()
        made.sync(run, seconds=90)


def server_restarts(made: Scenario, run: Running, end: Database, immediate: bool) -> None:
    server: Server = end.server
    server.stop(immediate=immediate)
    time.sleep(1)
    server.start()
    made.sync(run, seconds=90)


def a_silent_line_is_waited_for(made: Scenario, run: Running, line: Proxy) -> None:
    line.stall()
    time.sleep(3)
    line.restore()
    made.sync(run, seconds=90)


ITEM = ("CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")


@pytest.mark.quick
def test_capture_goes_on_while_the_only_target_is_away(
    mariadb: Server, target_database: Database, scenario: Callable[..., Scenario]
) -> None:
    """Else the source keeps its log until somebody comes. Also apply that dies meanwhile, and finds no target when it starts
    again, ends nothing; who waits for the job to catch up is told with the code of an end that is away."""
    with Proxy(target_database.server.host, target_database.server.port) as to_target:
        made = scenario(mariadb, *ITEM, target_at=("127.0.0.1", to_target.port))
        it_is_waited_for(made, to_target)
        a_limit_of_the_job_ends_it(made, to_target)


def it_is_waited_for(made: Scenario, to_target: Proxy) -> None:
    made.write_job("[retry.target]\nconnect_s = 2\ninterval_s = 1\n")
    run = made.start("run")
    made.wait_streaming(run, seconds=200)
    made.sync(run, seconds=200)
    to_target.refuse()
    faults.kill_tree(run.part("apply"))
    wait_until(lambda: '"target_away"' in run.stderr, 120, "the target is known to be away", run.tail, run)
    read = TrailReader(made.trail).end().position.sequence
    made.source.execute("INSERT INTO item VALUES (2)")
    behind = lambda: TrailReader(made.trail).end().position.sequence > read  # noqa: E731 - asked again and again
    wait_until(behind, 60, "capture goes on", run.tail, run)
    assert run.is_alive
    found = wait_until(lambda: (s := made.status())["phase"] == "waiting" and s, 60, "status says so", run.tail, run)
    assert "target" in found["detail"] and [part["name"] for part in found["parts"] if part["name"] == "capture"]
    to_target.restore()
    made.sync(run, seconds=200)
    made.assert_identical("item")
    assert run.stop().code == 0


def a_limit_of_the_job_ends_it(made: Scenario, to_target: Proxy) -> None:
    """After so many tries, with the code of a target that is away."""
    made.write_job("[retry.target]\nconnect_s = 2\ninterval_s = 1\nlimit = 2\n")
    run = made.start("run")
    made.sync(run, seconds=200)
    to_target.refuse()
    assert run.wait(200).code == 6, run.tail()
    assert '"target_away"' not in run.stderr
    to_target.restore()


def test_a_source_that_is_away_is_tried_again_as_the_job_says(
    mariadb: Server, scenario: Callable[..., Scenario]
) -> None:
    """So many tries, with pauses of that length; then capture ends with 5."""
    with Proxy(mariadb.host, mariadb.port) as to_source:
        made = scenario(mariadb, *ITEM, source_at=("127.0.0.1", to_source.port))
        it_is_tried_three_times(made, to_source)


def it_is_tried_three_times(made: Scenario, to_source: Proxy) -> None:
    made.write_job("[retry.source]\ninterval_s = 2\nlimit = 3\n")
    capture = made.start("capture")
    wait_until(lambda: '"capture_follows"' in capture.stderr, 60, "capture follows", capture.tail, capture)
    to_source.refuse()
    assert capture.wait(60).code == 5
    lines = [json.loads(line) for line in capture.stderr.splitlines() if line.startswith("{")]
    told = [datetime.fromisoformat(line["timestamp"]) for line in lines if line["event"] == "capture_waiting"]
    assert len(told) == 3
    assert all((later - earlier).total_seconds() >= 1.9 for earlier, later in pairwise(told))
    to_source.restore()
