"""A Spark session of ours: quiet, leaves our signals alone, and ends with the process, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import accumulators

from anabranch.errors import AnabranchError, TargetError
from anabranch.spark import daemon, pieces
from anabranch.spark.session import PACKAGE_PARENT, session
from anabranch.spark.work import Failure, Outcome
from anabranch.testing.in_time import PATIENCE, until

DRIVER = """
import os, signal, sys, time
mine = lambda *_: None
signal.signal(signal.SIGINT, mine)
from anabranch.spark.session import session
spark = session("victim", "local[2]")
assert signal.getsignal(signal.SIGINT) is mine
def work(number):
    os.write(2, f"{os.getpid()}\\n".encode())  # at once: print may write a number and its end apart, and two mix
    time.sleep(600 if number else 0)
    return os.getpid()
assert spark.sparkContext.parallelize([0, 0], 2).map(work).count() == 2
print("up", flush=True)
spark.sparkContext.parallelize([1, 1], 2).map(work).count()
"""


def test_a_killed_driver_takes_jvm_and_workers_with_it(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    errors = tmp_path / "stderr"
    with errors.open("wb") as stderr:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=stderr
        )
    assert driver.stdout is not None and driver.stdout.readline() == b"up\n"
    until(lambda: sum(map(str.isdigit, errors.read_text().split())) == 4, "both tasks of the second job are at work")
    family = _descendants(driver.pid)
    assert len(family) >= 3, "a JVM, a daemon and a worker at least"
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    until(lambda: not any(map(_lives, family)), "all of them have ended")
    printed = [line for line in map(str.strip, errors.read_text().splitlines()) if line and not line.isdigit()]
    assert printed == [], "nothing on the terminal"
    assert [path.name for path in tmp_path.iterdir()] == ["stderr"], "nothing in the working directory"


def test_its_processes_take_the_pyspark_that_is_compiled(spark: Any) -> None:
    def where(_: int) -> tuple[str, str]:
        import pyspark

        return str(pyspark.__file__), os.environ["PYTHONPATH"]

    ((found, path),) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert ".zip" not in found and "pyspark.zip" not in path
    assert "spark-core" not in path and PACKAGE_PARENT in path.split(os.pathsep), "this package is there, no archive"


def test_workers_are_forks_of_what_has_imported_what_tasks_need(spark: Any) -> None:
    def parent(_: int) -> tuple[str, int, bool]:
        import gc
        from pathlib import Path

        line = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
        return line[2].decode(), gc.get_freeze_count(), gc.isenabled()

    found = spark.sparkContext.parallelize(range(4), 4).map(parent).collect()
    assert {name for name, _, _ in found} == {daemon.MODULE}
    assert all(frozen > 10_000 and enabled for _, frozen, enabled in found)


def _descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    found, todo = set(), [pid]
    while todo:
        children = [child for child, parent in parents.items() if parent == todo[-1]]
        todo.pop()
        found.update(children)
        todo += children
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_active_session_is_taken(spark: Any) -> None:
    assert session("another", "local[1]").sparkContext is spark.sparkContext


def test_outcomes_come_while_the_job_runs_and_the_first_failure_ends_it(spark: Any, tmp_path: Path) -> None:
    def work(number: int) -> Outcome:
        if number == 3:
            return Outcome(number, failure=Failure.of(TargetError("no")))
        time.sleep(0.05 if number < 3 else 600)
        return Outcome(number, number)

    seen: list[int] = []

    def take(outcome: Outcome) -> None:
        if outcome.failure:
            raise outcome.failure.error()
        seen.append(outcome.value)

    began = time.monotonic()
    with pytest.raises(TargetError, match="no"):
        pieces.run(spark, [spark.sparkContext.parallelize(range(40), 40).map(work)], take, lambda: False)
    assert set(seen) <= {0, 1, 2} and time.monotonic() - began < 300


def test_a_stop_ends_the_job_at_once(spark: Any) -> None:
    def work(number: int) -> Outcome:
        time.sleep(600)
        return Outcome(number)

    began = time.monotonic()
    rdd = spark.sparkContext.parallelize(range(4), 4).map(work)
    assert not pieces.run(spark, [rdd], lambda outcome: None, lambda: True)
    assert time.monotonic() - began < 300


def test_an_error_that_is_none_of_ours_is_one_message(spark: Any) -> None:
    def work(number: int) -> Outcome:
        raise KeyError("a bug")

    with pytest.raises(AnabranchError, match="KeyError: 'a bug'"):
        pieces.run(spark, [spark.sparkContext.parallelize([1], 1).map(work)], lambda outcome: None, lambda: False)


def test_nothing_of_a_job_is_kept(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification that goes on for ever runs jobs without end."""
    monkeypatch.setattr(pieces, "LONGEST_CANCEL", PATIENCE)  # Spark may be slow to hear it
    before, seen = set(accumulators._accumulatorRegistry), list[int]()
    for _ in range(3):
        rdd = spark.sparkContext.parallelize(range(8), 4).map(lambda number: Outcome(number, number))
        assert pieces.run(spark, [rdd], lambda outcome: seen.append(outcome.value), lambda: False)

    def never_ends(number: int) -> Outcome:
        time.sleep(600)
        return Outcome(number)

    stopped = spark.sparkContext.parallelize([1], 1).map(never_ends)
    assert not pieces.run(spark, [stopped], lambda outcome: None, lambda: True)
    assert sorted(seen) == sorted(3 * [*range(8)]) and set(accumulators._accumulatorRegistry) <= before


def test_a_worker_that_is_killed_is_tried_again(spark: Any, tmp_path: Path) -> None:
    marker = tmp_path / "killed"

    def work(number: int) -> Outcome:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome(number, number)

    seen: list[int] = []
    rdd = spark.sparkContext.parallelize([7], 1).map(work)
    assert pieces.run(spark, [rdd], lambda outcome: seen.append(outcome.value), lambda: False)
    assert seen == [7]
