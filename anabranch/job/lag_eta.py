"""Estimate of when a target will have caught up, from the rate at which its backlog falls; with the error of such estimates
in the last hours, measured.

Pure: it works on samples of positions, which capture and apply keep (`state/store.py`). What does not live here: gathering them
(`explaining.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.model.position import Position
from anabranch.state.store import KEPT_S, PlaceSample

NEAR_S = 10.0  # a target that has what the source had so long ago has caught up: more is always on its way
WINDOW_S, HALF_S = 300.0, 30.0  # of a rate: how far it looks back, and after how long a point counts half
LEAST_POINTS, LEAST_S = 4, 15.0  # of a rate
GAP_S = 2 * KEPT_S + 10.0  # between two samples, from which on nobody knows what was meanwhile
EVERY_S = 60.0  # between two estimates that are measured
SHORTEST_S = 30.0  # a catch-up that is measured; the samples are seconds apart
Far = Callable[[str], int | None]  # bytes of the log from a native place to the source's end now; None: not known


@dataclass(frozen=True, slots=True)
class Point:
    """The backlog at a moment: bytes of the log that were not applied. `is_near`: the target had caught up (NEAR_S)."""

    at: float
    backlog: float
    is_near: bool


@dataclass(frozen=True, slots=True)
class Eta:
    """`seconds` until the target has caught up, None where it falls behind, or that is not known. `error`: mean of |estimated -
    real| / real. `rate`: bytes a second by which the backlog falls, below 0 where it grows."""

    seconds: float | None
    error: float | None
    rate: float | None


def estimated(points: Sequence[Point], now: float) -> Eta:
    """Estimate from points in order of time, of which the last is of `now`."""
    rate = rate_of(points, now)
    return Eta(_seconds(points, rate), measured_error(points), rate)


def points_of(
    applied: Sequence[PlaceSample], written: Sequence[PlaceSample], ends: Sequence[PlaceSample], far: Far, now: float
) -> list[Point]:
    """Return the backlog at each sample of `applied`, where the source's end of that time is known from `ends`. Where all
    of the trail was applied the target had all that the trail had, by `written`."""
    source = _Source(_of_one_log(thinned(ends, now), far), now)
    found = []
    for one in thinned(applied, now):
        place, end, past = far(_reached(one, written)), source.at(one.at), source.at(one.at - NEAR_S)
        if place is not None and end is not None:
            is_near = place <= end or (past is not None and place <= past)
            found.append(Point(one.at, max(0.0, place - end), is_near))
    return found


def _of_one_log(ends: Sequence[PlaceSample], far: Far) -> list[tuple[float, int]]:
    """Return how far each end was, back to where the source was another server: a log only grows."""
    found: list[tuple[float, int]] = []
    for one in reversed(ends):
        there = far(one.text)
        if there is None or (found and there < found[-1][1]):
            break
        found.append((one.at, there))
    return found[::-1]


def thinned(samples: Sequence[PlaceSample], now: float) -> list[PlaceSample]:
    """Return the samples of the rate's window, and of older ones one a minute: hours are a few hundred."""
    found: list[PlaceSample] = []
    for one in samples:
        if one.at <= now and (one.at > now - WINDOW_S or not found or one.at - found[-1].at >= KEPT_S):
            found.append(one)
    return found


def _reached(applied: PlaceSample, written: Sequence[PlaceSample]) -> str:
    position = Position.parse(applied.text)
    last = bisect_right(written, applied.at, key=lambda one: one.at) - 1
    then = Position.parse(written[last].text) if last >= 0 else position
    return then.native if then.sequence == position.sequence else position.native


@dataclass
class _Source:
    """The source's end at moments, as bytes in front of its end now; in between it is taken to grow evenly."""

    known: list[tuple[float, int]]
    now: float

    def __post_init__(self) -> None:
        self.known = [*self.known, (self.now, 0)]

    def at(self, moment: float) -> float | None:
        """Return how far the end was from the present one; None where nobody looked about then."""
        place = bisect_left(self.known, moment, key=lambda one: one[0])
        if place < len(self.known) and self.known[place][0] == moment:
            return self.known[place][1]
        if place == 0 or place == len(self.known):
            return None
        (since, before), (until, after) = self.known[place - 1 : place + 1]
        if until - since > GAP_S:
            return None
        return before + (after - before) * (moment - since) / (until - since)


def rate_of(points: Sequence[Point], now: float) -> float | None:
    """Return by how many bytes a second the backlog falls: the slope of a line through the points of the window, of which the
    latest count most. None where there are too few."""
    recent = [one for one in points if now - WINDOW_S <= one.at <= now]
    if len(recent) < LEAST_POINTS or recent[-1].at - recent[0].at < LEAST_S or now - recent[-1].at > GAP_S:
        return None
    weights = [math.exp2((one.at - now) / HALF_S) for one in recent]
    total = sum(weights)
    middle = sum(w * one.at for w, one in zip(weights, recent, strict=True)) / total
    mean = sum(w * one.backlog for w, one in zip(weights, recent, strict=True)) / total
    across = sum(w * (one.at - middle) * (one.backlog - mean) for w, one in zip(weights, recent, strict=True))
    along = sum(w * (one.at - middle) ** 2 for w, one in zip(weights, recent, strict=True))
    return -across / along if along else None


def _seconds(points: Sequence[Point], rate: float | None) -> float | None:
    if points and points[-1].is_near:
        return 0.0
    return points[-1].backlog / rate if points and rate is not None and rate > 0 else None


def measured_error(points: Sequence[Point]) -> float | None:
    """Return the mean of |estimated - real| / real over the estimates that came true: one a minute, as it would have been made
    from the points up to then, whether somebody asked or not. None before one did."""
    caught_up = _catch_ups(points)
    errors = []
    last = -math.inf
    for number, one in enumerate(points):
        if one.is_near or one.at - last < EVERY_S or (real := caught_up[number]) is None or real - one.at < SHORTEST_S:
            continue
        first = bisect_left(points, one.at - WINDOW_S, key=lambda point: point.at)
        recent = points[first : number + 1]
        if (seconds := _seconds(recent, rate_of(recent, one.at))) is not None:
            last = one.at
            errors.append(abs(seconds - (real - one.at)) / (real - one.at))
    return sum(errors) / len(errors) if errors else None


def _catch_ups(points: Sequence[Point]) -> list[float | None]:
    """Return for each point when the target had caught up after it. None: not yet, or nobody knows what was meanwhile."""
    found: list[float | None] = []
    later: Point | None = None
    next_near: float | None = None
    for one in reversed(points):
        if later is not None and later.at - one.at > GAP_S:
            next_near = None
        next_near = one.at if one.is_near else next_near
        found.append(next_near)
        later = one
    return found[::-1]
