"""How long is waited for an end: by what its error says."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import pytest

from anabranch.apply import patience
from anabranch.apply.patience import Patience
from anabranch.errors import Fenced, TargetBusy, TargetError, TargetFull, TargetUnavailable
from anabranch.model.endpoint import EndLimits


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_pauses_grow_and_begin_anew(clock: list[float]) -> None:
    one = Patience()
    pauses = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [one.failure(TargetUnavailable("x")) for _ in range(8)] == pauses
    one.success()
    assert [one.failure(TargetBusy("x")) for _ in range(9)] == [0.0, *pauses]  # a deadlock is over for who has lost it


@pytest.mark.parametrize("kind", [TargetBusy, TargetUnavailable])
def test_five_minutes_and_ten_tries(clock: list[float], kind: type[TargetUnavailable]) -> None:
    one = Patience()
    one.failure(kind("x"))
    clock[0] += 301
    for _ in range(8):
        one.failure(kind("x"))
    with pytest.raises(kind):
        one.failure(kind("x"))


def test_pitfall_45_a_full_disk_is_waited_for_without_end(clock: list[float]) -> None:
    """And who comes after it has all the time again."""
    one = Patience()
    one.failure(TargetUnavailable("x"))
    for _ in range(100):
        clock[0] += 60
        assert one.failure(TargetFull("x")) <= 10.0
    for _ in range(9):
        one.failure(TargetUnavailable("x"))
        clock[0] += 60
    with pytest.raises(TargetUnavailable):
        one.failure(TargetUnavailable("x"))


def test_what_a_person_has_to_do_is_not_waited_for(clock: list[float]) -> None:
    for error in (TargetError("x"), Fenced("x")):
        with pytest.raises(type(error)):
            Patience().failure(error)


def test_stopping_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    one = Patience(lambda: len(slept) >= 2)
    one.wait(10.0)
    assert len(slept) == 2
    with pytest.raises(TargetBusy):
        one.failure(TargetBusy("x"))


def test_as_long_as_the_job_says(clock: list[float]) -> None:
    """After so many tries, or seconds; with pauses no longer than that; never where there is no limit."""
    three = Patience(retry=EndLimits(tries=3, interval=0.5))
    assert [three.failure(TargetUnavailable("x")) for _ in range(3)] == [0.2, 0.4, 0.5]
    with pytest.raises(TargetUnavailable):
        three.failure(TargetUnavailable("x"))
    short = Patience(retry=EndLimits(away=5.0, least=1))
    short.failure(TargetUnavailable("x"))
    clock[0] += 6
    with pytest.raises(TargetUnavailable):
        short.failure(TargetUnavailable("x"))
    never = Patience(retry=EndLimits(away=math.inf, lock=1.0, least=1))
    for _ in range(100):
        clock[0] += 600
        never.failure(TargetUnavailable("x"))
    with pytest.raises(TargetBusy):
        never.failure(TargetBusy("a lock has a limit of its own"))
