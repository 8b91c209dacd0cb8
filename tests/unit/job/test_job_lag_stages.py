"""A lag by its stages: seconds add up to the lag, bytes to what lies between two places, and what nobody knows is None."""

from __future__ import annotations

import random

import pytest

from anabranch.job.lag_stages import (
    APPLYING,
    READ_NOT_WRITTEN,
    SOURCE_NOT_READ,
    STAGES,
    WAITING_FOR_LOCKS,
    WRITTEN_NOT_PLANNED,
    Distances,
    Life,
    bytes_by_stage,
    seconds_by_stage,
    written_at,
)
from anabranch.state.store import PlaceSample

NOW = 1_000_000.0


def life(lag: float | None, **more: float | bool) -> dict[str, float | None]:
    """The stages of a transaction of the trail; the other times are so many seconds ago."""
    times = {name: NOW - ago for name, ago in more.items() if name in ("written", "begun", "waits")}
    return seconds_by_stage(Life(NOW, lag, bool(more.get("is_in_trail", True)), bool(more.get("is_read")), **times))


def test_a_life_is_split_at_what_is_known_of_it() -> None:
    assert life(100.0, written=90, begun=30, waits=20) == dict(zip(STAGES, (10, 0, 60, 20, 10), strict=True))
    assert life(100.0, written=90) == dict(zip(STAGES, (10, 0, 90, 0, 0), strict=True)), "no epoch is at work"
    assert life(100.0, written=90, waits=20) == dict(zip(STAGES, (10, 0, 70, 20, 0), strict=True))
    assert life(100.0, written=90, begun=10, waits=20)[APPLYING] == 0, "the wait is older than the epoch"
    assert life(0.0, is_in_trail=False) == dict.fromkeys(STAGES, 0.0)


def test_what_the_trail_lacks_is_not_read_or_not_written() -> None:
    assert life(7.0, is_in_trail=False)[SOURCE_NOT_READ] == 7.0
    found = life(7.0, is_in_trail=False, is_read=True)
    assert (found[READ_NOT_WRITTEN], found[SOURCE_NOT_READ]) == (7.0, 0.0)


def test_nothing_is_guessed() -> None:
    assert life(None) == dict.fromkeys(STAGES)
    found = life(100.0, begun=30)
    assert (found[SOURCE_NOT_READ], found[READ_NOT_WRITTEN], found[WRITTEN_NOT_PLANNED]) == (None, None, 70.0)
    assert bytes_by_stage(Distances(None, None, None, None), is_waiting=False) == dict.fromkeys(STAGES)


@pytest.mark.parametrize("seed", range(50))
def test_seconds_add_up_to_the_lag_whatever_the_clocks_say(seed: int) -> None:
    drawn = random.Random(seed)
    lag = round(drawn.uniform(0.001, 5000), 3)
    times = {name: drawn.uniform(-100, 6000) for name in ("written", "begun", "waits") if drawn.random() < 0.7}
    found = life(lag, **times)
    known = [one for one in found.values() if one is not None]
    assert min(known) >= 0 and sum(known) == pytest.approx(lag, abs=0.0006)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_bytes_add_up_to_what_is_between_the_target_and_the_source(is_waiting: bool) -> None:
    found = bytes_by_stage(Distances(1000, 900, 400, 300), is_waiting)
    at_work = (100, 0) if is_waiting else (0, 100)
    assert tuple(found.values()) == (300, 100, 500, *at_work) and sum(filter(None, found.values())) == 1000
    found = bytes_by_stage(Distances(1000, 1000, 2000, None), is_waiting)
    assert (found[SOURCE_NOT_READ], found[READ_NOT_WRITTEN], found[WRITTEN_NOT_PLANNED]) == (None, None, 0)
    assert found[WAITING_FOR_LOCKS] == found[APPLYING] == 0


def test_the_trail_had_a_transaction_when_its_end_had_come_so_far() -> None:
    samples = [PlaceSample(100, "5@a"), PlaceSample(105, "9@b"), PlaceSample(400, "20@c")]
    assert written_at(samples, 4) is None and written_at([], 4) is None, "it was there when looking began"
    assert written_at(samples, 6) == 100
    assert written_at(samples, 12) == 393, "nobody looked for long: seconds before it was there"
    assert written_at(samples, 21) == 400
