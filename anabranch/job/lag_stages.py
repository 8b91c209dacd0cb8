"""A lag by its stages: where the oldest transaction that is not applied has spent its life, and where the log is now.

Pure. What does not live here: gathering times and places (`explaining.py`), the name of what holds it up
(`lag_culprit.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.model.position import Position
from anabranch.state.store import SAMPLE_S, PlaceSample

SOURCE_NOT_READ, READ_NOT_WRITTEN = "source_not_read", "read_not_written"
WRITTEN_NOT_PLANNED, WAITING_FOR_LOCKS, APPLYING = "written_not_planned", "waiting_for_locks", "applying"
STAGES = (SOURCE_NOT_READ, READ_NOT_WRITTEN, WRITTEN_NOT_PLANNED, WAITING_FOR_LOCKS, APPLYING)
LATE_S = 2.0  # by which a sample may come later than it is due: it goes with a part's sign of life


@dataclass(frozen=True, slots=True)
class Life:
    """The life of the oldest transaction that is not applied. Times in seconds since 1970.

    `lag`: its age, None where nobody knows, 0 where there is none. `is_in_trail`; `is_read`: capture has it, and the
    trail lacks it. `written`: when it came into the trail, None where that is not known. `begun`: since when the epoch
    is at work that carries it out, `waits`: since when apply waits for somebody's lock; None where that is not so."""

    now: float
    lag: float | None
    is_in_trail: bool = False
    is_read: bool = False
    written: float | None = None
    begun: float | None = None
    waits: float | None = None


def seconds_by_stage(life: Life) -> dict[str, float | None]:
    """Return how long each stage has taken, in order. Together they are the lag, to the millisecond; where it is not known
    when the transaction came into the trail, all of the time before its epoch counts to WRITTEN_NOT_PLANNED, and the
    stages in front of that are None."""
    found: dict[str, float | None] = dict.fromkeys(STAGES, None if life.lag is None else 0.0)
    if life.lag is None:
        return found
    if not life.is_in_trail:
        found[READ_NOT_WRITTEN if life.is_read else SOURCE_NOT_READ] = life.lag
        return found
    age = round(life.lag * 1000)
    committed = life.now - life.lag
    waits = _passed(life.waits, committed, age, age)  # milliseconds of its life
    begun = _passed(life.begun, committed, waits, waits)
    found[WAITING_FOR_LOCKS], found[APPLYING] = (age - waits) / 1000, (waits - begun) / 1000
    if life.written is None:
        found[SOURCE_NOT_READ] = found[READ_NOT_WRITTEN] = None
        found[WRITTEN_NOT_PLANNED] = begun / 1000
    else:
        written = _passed(life.written, committed, begun, begun)
        found[SOURCE_NOT_READ], found[WRITTEN_NOT_PLANNED] = written / 1000, (begun - written) / 1000
    return found


def _passed(moment: float | None, since: float, otherwise: int, most: int) -> int:
    """Return a moment as milliseconds since another, from 0 to `most`."""
    return otherwise if moment is None else min(max(0, round((moment - since) * 1000)), most)


@dataclass(frozen=True, slots=True)
class Distances:
    """Bytes of the log from a place to the source's end: from what is applied, from the end of the epoch that is at work,
    from the trail's end, from what capture has read. None where that is not known."""

    applied: int | None
    planned: int | None
    written: int | None
    read: int | None


def bytes_by_stage(at: Distances, is_waiting: bool) -> dict[str, int | None]:
    """Return how much of the log is in each stage, in order. What an epoch has that waits for a lock is WAITING_FOR_LOCKS.
    Together it is what lies between what is applied and the source's end."""
    planned = _least(at.applied, at.planned)
    written = _least(planned, at.written)
    read = _least(written, at.read)
    at_work = _between(at.applied, planned)
    return {
        SOURCE_NOT_READ: read,
        READ_NOT_WRITTEN: _between(written, read),
        WRITTEN_NOT_PLANNED: _between(planned, written),
        WAITING_FOR_LOCKS: at_work if is_waiting or at_work is None else 0,
        APPLYING: 0 if is_waiting and at_work is not None else at_work,
    }


def _least(former: int | None, own: int | None) -> int | None:
    """Return a distance: a place never lies behind one that it is ahead of."""
    return own if former is None or own is None else min(former, own)


def _between(far: int | None, near: int | None) -> int | None:
    return None if far is None or near is None else far - near


def written_at(samples: Sequence[PlaceSample], sequence: int) -> float | None:
    """Return when the trail came to have a transaction, to within two samples' distance: rather too early, so that time is
    never counted to the source that was spent in the trail. `samples`: of `written`. None where they do not reach back."""
    first = bisect_left(samples, sequence, key=lambda one: Position.parse(one.text).sequence)
    if not samples or first == 0:
        return None
    before = samples[first - 1].at
    return before if first == len(samples) else max(before, samples[first].at - SAMPLE_S - LATE_S)
