"""How a job ends: signals, `--seconds`, `--until-caught-up`, and what each says with its exit code."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from anabranch import failpoints
from anabranch.job.supervisor import STOP_SECONDS
from anabranch.testing import faults
from anabranch.testing.in_time import NotInTime
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
ITEM = ("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO item VALUES (1, 'a')")
IN_EPOCH = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'anabranch:%' AND wait_event_type = 'Lock'"
)


@pytest.mark.quick
def test_signals_and_a_limit_of_time(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *ITEM)
    interrupted_before_it_caught_up(made, signal.SIGTERM, 143)
    assert made.cli("run", "--seconds", "0.5", seconds=200).code == 0
    made.assert_identical()
    a_second_signal_stops_at_once(made)
    a_first_signal_is_a_clean_end(made)
    made.assert_identical("item")


@pytest.mark.long
def test_an_interrupt_and_a_limit_within_an_epoch(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *ITEM)
    interrupted_before_it_caught_up(made, signal.SIGINT, 130)
    made.run_until_caught_up()
    a_limit_finishes_the_epoch(made)
    made.assert_identical("item")


def interrupted_before_it_caught_up(made: Scenario, number: signal.Signals, code: int) -> None:
    """While it loads; a run without a condition would end with 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, "load.begun=delay:5")  # a load of one row may be over before it is seen
        run = made.start("run", "--until-caught-up")
    run.part("load")
    run.signal(number)
    assert run.wait(60).code == code, run.tail()
    assert faults.descendants(run.pid) == []


def a_limit_finishes_the_epoch(made: Scenario) -> None:
    with target_locked(made) as unlock:
        made.source.execute("INSERT INTO item VALUES (2, 'b')")
        run, limit = in_epoch_before_its_limit(made)
        time.sleep(limit + 0.5)
        assert run.is_alive
        unlock()
        assert run.wait(60).code == 9 and "not caught up" in run.stderr, run.tail()
    assert made.target_rows("item", where="id = 2") == [(2, "b")]


def in_epoch_before_its_limit(made: Scenario) -> tuple[Running, float]:
    """On a busy machine the first epoch comes later than a short limit."""
    for limit in (8, 16, 64, 256):
        run = made.start("run", "--until-caught-up", "--seconds", str(limit))
        wait_until(lambda run=run: in_epoch(made) or not run.is_alive, 180, "an epoch that waits for a lock", run.tail)
        if run.is_alive:
            return run, limit
        assert run.wait().code == 9, run.tail()
    raise NotInTime(f"no epoch began within {limit} s")


def a_second_signal_stops_at_once(made: Scenario) -> None:
    with target_locked(made):
        made.source.execute("INSERT INTO item VALUES (3, 'c')")
        run = made.start("run")
        wait_until(lambda: in_epoch(made), 120, "an epoch that waits for a lock", run.tail, run)
        parts = faults.find(run.pid, "-m anabranch ")
        run.signal(signal.SIGTERM)
        time.sleep(1.0)
        assert run.is_alive, "the first signal waits for the epoch"
        run.signal(signal.SIGTERM)
        asked = time.monotonic()
        assert run.wait().code == 143 and time.monotonic() - asked < STOP_SECONDS, "it waits for nothing more"
        wait_until(lambda: not any(map(faults.is_alive, parts)), 10, "its parts are gone", run.tail)
    assert made.target_rows("item", where="id = 3") == []


def a_first_signal_is_a_clean_end(made: Scenario) -> None:
    """Without a condition it is what a run is ended with: 0."""
    run = made.start("run")
    made.sync(run, seconds=120)
    run.signal(signal.SIGINT)
    assert run.wait(60).code == 0, run.tail()


def in_epoch(made: Scenario) -> bool:
    return bool(made.target.query(IN_EPOCH)[0][0])


@contextmanager
def target_locked(made: Scenario) -> Iterator[Callable[[], None]]:
    """Nobody can write `item` meanwhile."""
    with made.target.connect(autocommit=False) as connection:
        connection.execute("LOCK TABLE public.item IN SHARE ROW EXCLUSIVE MODE")
        yield connection.rollback
        connection.rollback()


@pytest.mark.quick
def test_only_the_parts_of_a_run_that_is_gone_end_with_it(mariadb: Server, scenario: Make) -> None:
    """Its parts see that whoever started them is dead."""
    made = scenario(mariadb, *ITEM)
    run = made.start("run")
    run.part("capture")
    parts: list[int] = wait_until(lambda: _all_parts(run), 30, "three parts", run.tail, run)
    run.process.kill()
    wait_until(lambda: not any(map(faults.is_alive, parts)), 30, "its parts are gone", run.tail)
    made.capture().stop()


def _all_parts(run: Running) -> list[int] | None:
    found = faults.find(run.pid, "-m anabranch ")
    return found if len(found) >= 3 else None
