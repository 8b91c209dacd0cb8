"""SIGKILL, drawn by seed: each run kills once while a chunk is in COPY and twice while changes stream. After each a plain
restart (by `run` itself, or of it): nothing lost, nothing twice, both ends identical by our own SQL.

A kill counts only if the victim lived and was inside its phase: it is frozen first, the phase is looked at again, and
only then it is killed; otherwise it goes on and the next moment is tried.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.scenario import HALVES, Running, Scenario, pitfall_14_no_half_transaction_is_seen, repeating, wait_until

Make = Callable[..., Scenario]

BULK_ROWS = 400_000  # two chunks, each of them some tenths of a second in COPY
BULK = (
    "CREATE TABLE bulk (id INT PRIMARY KEY, a VARCHAR(120) NOT NULL, b BIGINT NOT NULL, c DATETIME(6) NULL)",
    "CREATE TABLE digit (n INT PRIMARY KEY)",
    "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
    "INSERT INTO bulk SELECT n, CONCAT(MD5(n), MD5(n + 1), MD5(n + 2)), n * 7919, '2024-02-29 12:00:00.5' FROM"
    " (SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n + 100000*f.n AS n FROM digit a, digit b, digit c, digit d,"
    f" digit e, digit f WHERE f.n < {BULK_ROWS // 100_000}) AS numbers",
)
IN_COPY = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'anabranch-load'"
    " AND state = 'active' AND query LIKE 'COPY %'"
)
EPOCH_IS_OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'anabranch:%'"
    " AND xact_start IS NOT NULL"
)

Victim = Callable[[Running], int | None]


def _part(name: str) -> Victim:
    return lambda run: next(iter(faults.find(run.pid, f"-m anabranch {name} ")), None)


def _worker(name: str) -> Victim:
    def of(run: Running) -> int | None:
        driver = _part(name)(run)
        return next(iter(faults.python_workers(driver)), None) if driver else None

    return of


LOAD_VICTIMS: dict[str, Victim] = {
    "capture": _part("capture"),
    "driver": _part("load"),
    "worker": _worker("load"),
    "group": lambda run: run.pid,
}
STREAM_VICTIMS: dict[str, Victim] = {
    "capture": _part("capture"),
    "driver": _part("apply"),
    "worker": _worker("apply"),
    "group": lambda run: run.pid,
}
RUNS = 7  # of three kills each; every test run kills in the histories of tests/torture


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(1200)
def test_pitfall_23_three_kills(seed: int, mariadb: Server, request: pytest.FixtureRequest, scenario: Make) -> None:
    server = mariadb if seed % 2 == 0 else request.getfixturevalue("mysql")
    draw = random.Random(seed)
    made = scenario(server, *SCHEMA, *fill(1), *BULK, *HALVES)
    made.write_job("[load]\nparallel = 1\n")
    with Writer(made.source, seed=100 + seed, rate=60), rule_03_rows_move_between_chunks(made, seed):
        run = made.start("run")
        run = strike(made, run, draw.choice(sorted(LOAD_VICTIMS)), LOAD_VICTIMS, lambda: _counts(made, IN_COPY))
        made.wait_streaming(run, seconds=240)
    made.sync(run, seconds=120)
    made.assert_identical()
    for number in (1, 2):
        with Writer(made.source, seed=1000 * number + seed, rate=60), pitfall_14_no_half_transaction_is_seen(made):
            name = draw.choice(sorted(STREAM_VICTIMS))
            inside = _falls_behind(made) if name == "capture" else lambda: _counts(made, EPOCH_IS_OPEN)
            run = strike(made, run, name, STREAM_VICTIMS, inside)
            made.sync(run, seconds=120)
        made.sync(run, seconds=60)
        made.assert_identical()
    run.stop()


@contextmanager
def rule_03_rows_move_between_chunks(made: Scenario, seed: int) -> Iterator[None]:
    """From a chunk that is not read yet into one that was, and the other way, while they are read one after the other; the
    log has of each such row its keys only."""
    draw, half, moved = random.Random(f"moves {seed}"), BULK_ROWS // 2, [0]
    connection = made.source.connect(init_command="SET SESSION binlog_row_image = 'MINIMAL'")

    def move() -> None:
        first = draw.randrange(BULK_ROWS - 10)
        way = BULK_ROWS if first < half else -BULK_ROWS - 1
        with connection.cursor() as cursor:
            moved[0] += cursor.execute(f"UPDATE bulk SET id = id + {way} WHERE id BETWEEN {first} AND {first + 9}")

    with connection, repeating(move, 0.02):
        yield
    assert moved[0] > 100


def strike(made: Scenario, run: Running, name: str, victims: dict[str, Victim], inside: Callable[[], bool]) -> Running:
    """Kill `name` inside its phase; the run that goes on: the same one, or a new one."""
    wait_until(lambda: _killed(run, name, victims[name], inside), 120, f"{name} inside its phase", run.tail, run)
    if name != "group":
        return run
    run.process.wait(180)
    return made.start("run")


def _killed(run: Running, name: str, find: Victim, inside: Callable[[], bool]) -> bool:
    victim = find(run)
    if victim is None or not inside():
        return False
    with faults.frozen(victim) as lives:
        if not lives or not inside():
            return False
        if name == "group":
            faults.kill_tree(victim)
        else:
            faults.kill(victim)
    return True


def _counts(made: Scenario, query: str) -> bool:
    return bool(made.target.query(query)[0][0])


def _falls_behind(made: Scenario) -> Callable[[], bool]:
    """Capture has something to flush: the source's log is further than what it has published."""

    def behind() -> bool:
        status = _source_end(made)
        time.sleep(0.02)
        return _source_end(made) != status

    return behind


def _source_end(made: Scenario) -> tuple[object, ...]:
    return tuple(made.source.query("SHOW MASTER STATUS")[0][:2])
