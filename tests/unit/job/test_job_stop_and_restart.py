"""How a job's methods take over signals and give them back, and which children `run` starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.errors import StateError
from anabranch.job import Job, supervisor
from anabranch.job.children import Child, PartFailed
from anabranch.job.signals import Stop
from anabranch.job.supervisor import only_one
from anabranch.testing.in_time import until

BOTH = (signal.SIGINT, signal.SIGTERM)
HOLD = (
    "import sys, fcntl, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); "
    "print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    file = tmp_path / "job.toml"
    ends = '[source]\nurl = "memory:///a"\n[target]\nurl = "memory:///b"\n'
    file.write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    return Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_handlers() -> Iterator[list[int]]:
    """What a notebook's kernel had set before."""
    got: list[int] = []
    before = {number: signal.signal(number, lambda n, _: got.append(n)) for number in BOTH}
    yield got
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_ask_inside_and_mean_what_they_meant_before_outside(own_handlers: list[int]) -> None:
    before = list(map(signal.getsignal, BOTH))
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked() and stop.signal == signal.SIGINT and own_handlers == []
    assert list(map(signal.getsignal, BOTH)) == before
    signal.raise_signal(signal.SIGINT)
    assert own_handlers == [signal.SIGINT]


def test_handlers_come_back_after_an_error(own_handlers: list[int], job: Job) -> None:
    before = list(map(signal.getsignal, BOTH))
    with pytest.raises(StateError):
        job.verify()  # nothing is loaded
    with pytest.raises(ValueError, match="inside"), Stop():
        raise ValueError("inside")
    assert list(map(signal.getsignal, BOTH)) == before


def test_another_thread_leaves_signals_alone(own_handlers: list[int]) -> None:
    before = list(map(signal.getsignal, BOTH))
    seen: list[object] = []

    def inside() -> None:
        with Stop() as stop:
            seen.extend((stop.asked(), list(map(signal.getsignal, BOTH)) == before))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [False, True] and list(map(signal.getsignal, BOTH)) == before


# --- children ---------------------------------------------------------------------------------------------------------


def ended(child: Child, now: float) -> None:
    """Start it, wait for its end, and look at it."""
    child.poll(now)
    if child.process is not None:
        child.process.wait(120)
        child.poll(now)


def test_a_load_that_ended_is_done() -> None:
    child = Child("load", [sys.executable, "-c", "pass"], may_end=True)
    ended(child, 0.0)
    assert child.ended_well and not child.restarts


def test_capture_and_apply_that_somebody_stopped_are_started_again_five_times_an_hour() -> None:
    child = Child("capture", [sys.executable, "-c", "pass"])
    for restart in range(1, 6):
        now = 100.0 * restart
        ended(child, now)
        assert not child.ended_well and child.process is None and len(child.restarts) == restart
        assert now < child.not_before <= now + 30
    with pytest.raises(PartFailed) as failed:
        ended(child, 700.0)
    assert failed.value.exit_code == 1


# --- one run per job --------------------------------------------------------------------------------------------------


def test_a_second_run_is_refused_with_pid_and_host_of_the_first(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOCK_SECONDS", 0.2)
    with only_one(job, Stop()), pytest.raises(StateError) as refused:
        job.run()
    assert refused.value.exit_code == 7 and refused.value.job == "shop"
    assert f"process {os.getpid()} on " in str(refused.value)
    with only_one(job, Stop()):
        pass


def test_a_second_run_waits_for_one_that_is_about_to_end(job: Job) -> None:
    with only_one(job, Stop()):
        pass
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, job.config.home / supervisor.RUN_LOCK], stdout=subprocess.PIPE
    )
    assert first.stdout is not None and first.stdout.readline()
    threading.Timer(0.3, first.kill).start()
    with only_one(job, Stop()):
        assert first.wait(120) == -signal.SIGKILL
    first.communicate()


def test_a_run_that_is_asked_to_stop_does_not_wait(job: Job) -> None:
    stop = Stop()
    stop.ask()
    with only_one(job, Stop()), pytest.raises(StateError), only_one(job, stop):
        pass


@pytest.mark.parametrize("place", range(1, 201, 8))
def test_a_signal_at_any_place_of_a_wait_ends_it(place: int) -> None:
    """A handler runs between any two instructions of the main thread: also while that is about to wait, or just did."""
    for nth in range(place, place + 8):
        stop = Stop()
        thread = threading.Thread(target=_wait_and_meet_a_signal, args=(stop, nth), daemon=True)
        thread.start()
        until(lambda: not thread.is_alive(), f"the end of a wait that met a signal at its instruction {nth}", 60)  # noqa: B023 - asked at once
        assert stop.asked() and stop.signal == signal.SIGTERM


def _wait_and_meet_a_signal(stop: Stop, nth: int) -> None:
    count = 0

    def instruction(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        if event == "opcode" and count == nth:
            stop._on_signal(signal.SIGTERM, None)
        return instruction

    sys.settrace(instruction)
    while not stop.wait(0.001):
        pass
    sys.settrace(None)
