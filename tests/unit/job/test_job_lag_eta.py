"""When a target will have caught up: from drawn rates, and with the error that such estimates had."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from anabranch.job.lag_eta import GAP_S, Point, estimated, measured_error, points_of, rate_of, thinned
from anabranch.state.store import PlaceSample

NOW = 1_000_000.0


def falling(rate: float, last: float, seconds: float = 120, noise: Callable[[], float] = lambda: 0.0) -> list[Point]:
    """Points each five seconds up to now, of a backlog that falls at a rate to `last`."""
    ages = [5.0 * n for n in range(int(seconds / 5), -1, -1)]
    return [Point(NOW - age, last + rate * age + (noise() if age else 0), False) for age in ages]


@pytest.mark.parametrize("seed", range(20))
def test_a_backlog_that_falls_evenly_is_gone_when_it_is_estimated(seed: int) -> None:
    drawn = random.Random(seed)
    rate, last = drawn.uniform(10, 1e8), drawn.uniform(1e3, 1e11)
    found = estimated(falling(rate, last), NOW)
    assert found.seconds == pytest.approx(last / rate) and found.rate == pytest.approx(rate) and found.error is None
    noise = random.Random(seed + 1)
    shaken = estimated(falling(rate, last, 300, lambda: noise.gauss(0, 20 * rate)), NOW)
    assert shaken.seconds == pytest.approx(last / rate, rel=0.5), "as if epochs were of twenty seconds"


def test_what_grows_or_stands_has_no_end() -> None:
    grows = estimated(falling(-50, 1e6), NOW)
    assert grows.seconds is None and grows.rate == pytest.approx(-50)
    assert estimated(falling(0, 1e6), NOW).seconds is None


def test_too_few_or_too_old_points_tell_no_rate() -> None:
    assert rate_of(falling(10, 1e6)[-3:], NOW) is None and rate_of([], NOW) is None
    assert rate_of(falling(10, 1e6), NOW + GAP_S + 1) is None, "nobody has looked since"
    assert estimated([], NOW).seconds is None


def test_the_latest_points_count_most() -> None:
    """A lock is gone since a minute: what was before it says little."""
    held = [Point(NOW - 300 + 5 * n, 1e6 + 1000 * 5 * n, False) for n in range(48)]
    goes = [Point(NOW - 60 + 5 * n, 1.24e6 - 9000 * 5 * n, False) for n in range(13)]
    found = estimated([*held, *goes], NOW)
    assert found.rate is not None and found.rate > 2500 and found.seconds is not None


def test_one_that_has_caught_up_is_there_now() -> None:
    assert estimated([*falling(10, 1e6), Point(NOW, 12.0, True)], NOW).seconds == 0.0


def test_the_error_is_measured_by_estimates_that_came_true() -> None:
    """Even rates have none; one that doubles half-way had estimates that were too long."""
    even = falling(1000, 0.0, 600)
    even[-1] = Point(NOW, 0.0, True)
    assert measured_error(even) == pytest.approx(0.0, abs=0.01)
    before = [Point(one.at - 600, one.backlog / 2 + 600_000, False) for one in even[:-1]]
    error = measured_error([*before, *even])
    assert error is not None and 0.1 < error < 0.6
    assert measured_error(even[:-1]) is None, "it has not caught up yet"
    slept = [Point(one.at - 1000, one.backlog, False) for one in even[:-1]] + even[-1:]
    assert measured_error(slept) is None, "nobody knows what was meanwhile"


def test_points_are_what_the_source_had_then_and_the_target_lacked() -> None:
    """The source grows by 100 bytes a second, the target has twice its pace; places are bytes of the log."""

    def sampled(of: Callable[[int], str]) -> list[PlaceSample]:
        return [PlaceSample(NOW - age, of(age)) for age in range(300, 0, -5)]

    def far(native: str) -> int | None:
        return 1_000_000 - int(native) if native else None

    ends = sampled(lambda age: str(1_000_000 - 100 * age))[::2]
    applied = sampled(lambda age: f"{900 - age}@{920_000 - 200 * age}")
    written = sampled(lambda age: f"{900}@{1_000_000 - 100 * age}")
    points = points_of(applied, written, ends, far, NOW)
    assert len(points) == 60 and not any(one.is_near for one in points)
    assert rate_of(points, NOW) == pytest.approx(100) and points[-1].backlog == pytest.approx(80_500)
    same = points_of(sampled(lambda age: "900@0"), written, ends, far, NOW)
    assert all(one.is_near and one.backlog == 0 for one in same), "it has all that the trail has"
    assert points_of(applied, written, [], far, NOW) == [], "where the source was then nobody knows"
    other = [PlaceSample(NOW - 400, "2000000"), *ends]
    assert len(points_of(applied, written, other, far, NOW)) == 60, "another server's log is not counted"


def test_hours_are_a_few_hundred_samples() -> None:
    samples = [PlaceSample(NOW - age, "1@1") for age in range(21_600, 0, -5)]
    found = thinned(samples, NOW)
    assert 400 < len(found) < 430 and found[-1].at == NOW - 5 and found == sorted(found)
