"""When apply cleans up at a target that keeps changes for a time, and what it counts as that time."""

from __future__ import annotations

import pytest

from anabranch import pace
from anabranch.apply import cleaning
from anabranch.apply.cleaning import Cleaning
from anabranch.errors import TargetUnavailable


class Target:
    """A writer that has `left` pieces to remove."""

    def __init__(self, left: int = 0) -> None:
        self.left, self.told, self.is_away = left, list[int](), False

    def clean_up(self, elapsed: int) -> bool:
        self.told.append(elapsed)
        if self.is_away:
            raise TargetUnavailable("away")
        self.left = max(0, self.left - 1)
        return self.left > 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(cleaning.time, "monotonic", lambda: now[0])
    return now


def test_only_time_in_which_apply_runs_counts_and_once(clock: list[float]) -> None:
    target = Target()
    cleans = Cleaning(target, clock[0])
    cleans.look()
    assert target.told == [0], "what the run before has left"
    clock[0] += pace.current.apply_clean_up - 1
    cleans.look()
    assert target.told == [0], "it is not time yet"
    clock[0] += 1.5
    cleans.look()
    assert target.told == [0, 300]
    target.is_away = True
    clock[0] += 400
    with pytest.raises(TargetUnavailable):
        cleans.look()
    target.is_away = False
    clock[0] += 300
    cleans.look()
    assert sum(target.told[:2]) + target.told[-1] == 600 and target.told[-1] == 300, "never twice"


def test_what_is_left_goes_piece_by_piece_and_epochs_wait_for_a_moment_only(clock: list[float]) -> None:
    target = Target(left=3)
    Cleaning(target, clock[0]).look()
    assert target.told == [0, 0, 0]
    cleans = Cleaning(slow := Target(left=3), clock[0])
    slow_piece = slow.clean_up

    def piece(elapsed: int) -> bool:
        clock[0] += cleaning.ENOUGH
        return slow_piece(elapsed)

    slow.clean_up = piece  # type: ignore[method-assign]  # a slow one, for this test
    for times in (1, 2, 3, 3):
        cleans.look()
        assert slow.told == [0] * times


def test_a_target_that_keeps_rows_has_nothing_to_clean_up(clock: list[float]) -> None:
    Cleaning(object(), clock[0]).look()
