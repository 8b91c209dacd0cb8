"""Measures of the jobs of a manager: lag, changes and rows a second, state. Nothing is asked but files of the job's home.

Each second there is a cheap look whether something can have changed; what is at rest is read anew every ten seconds, a job of
which nothing runs, and nothing is known to wait, every five minutes. What does not live here: how measures are kept
(`statistics.py`), what is known of an end (`job/status.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.job.lag import Lag
from anabranch.job.states import WORST, condition_of, worst
from anabranch.job.status import Picture
from anabranch.manager.flows import counted
from anabranch.manager.rates import Rate
from anabranch.model.metrics import PARKED
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.state.store import FILE
from anabranch.trail import published
from anabranch.trail.storage import LocalStorage, Readable
from anabranch.view.job_view import JobView

REST_S = 10.0  # a job at rest is read anew after so long
STILL_S = 300.0  # one of which nothing runs: whatever begins writes to its state.db, and that is seen at once
SETTLED_NS = 1_000_000_000  # a file that was written to so long ago has another time as soon as it is written to again
STATES = tuple(reversed(WORST))  # from the one that needs nobody to the one that needs a person most
ENDED = ("stopped", "failed", "died")


@dataclass(frozen=True, slots=True)
class TargetMeasure:
    """The measures of one target of a job. `name`: of the only one, its place."""

    name: str
    lag: float | None
    changes: int | None


@dataclass(frozen=True, slots=True)
class Measure:
    """The measures of a job at one moment; None where nobody knows. `lag`: in seconds, of several targets the longest;
    `changes` and `rows`: applied and loaded in a second, at all targets; `parked`: tables that are, as `run` has told."""

    state: str
    sub_state: str = ""
    detail: str = ""
    lag: float | None = None
    changes: float | None = None
    rows: float | None = None
    parked: int | None = None
    targets: tuple[TargetMeasure, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_at_rest(self) -> bool:
        """Return whether nothing is under way: all is applied, or nothing runs."""
        has_all = self.state == "streaming" and self.lag == 0 and not self.changes and not self.rows
        return has_all or self.state in ENDED


class JobMeasures:
    """The measures of one job, asked for again and again by one thread."""

    def __init__(self, job: JobView) -> None:
        self._job, self._views = job, job.targets()
        self._pictures = [Picture(view) for view in self._views]
        self._lag, self._published_at = Lag(job.trail), (-1, -1)
        self._sequence, self._is_settled = -1, False
        self._cell: Readable | None = None
        homes = dict.fromkeys([job.config.home, *(view.target_home for view in self._views)])
        self._states = [str(home / FILE) for home in homes]  # text: these are looked at each second
        self._published_file = str(job.trail / published.FILE)
        self._changes, self._rows = Rate(), Rate()
        self._looked = (0, 0)
        self._last: Measure | None = None
        self._fresh_until = 0.0  # monotonic; of what is at rest
        self._has_parts = False

    def close(self) -> None:
        """Close what is open of the job's files."""
        self._lag.close()
        for picture in self._pictures:
            picture.close()
        if self._cell is not None:
            self._cell.close()

    def now(self, now: float) -> Measure:
        """Return the measures. `now`: monotonic seconds."""
        last = self._last
        if last is not None and now < self._fresh_until:
            # Parts that live say so every two seconds: of these, a file that was written to says nothing.
            is_same = last.state == "streaming" or self._written() == self._looked[0]
            if is_same and self._published() == self._looked[1]:
                return last
        self._looked = self._written(), self._published()  # in front of what is read: what comes meanwhile is seen then
        found = self._last = self._read(now)
        self._fresh_until = now + self._kept_s(found)
        return found

    def _kept_s(self, measure: Measure) -> float:
        """Return for how long a measure holds, as long as no file says otherwise. What is behind gets older by itself."""
        if not measure.is_at_rest:
            return 0.0
        is_still = measure.state in ENDED and measure.lag is None and not self._has_parts
        if not is_still or time.time_ns() - self._looked[0] < SETTLED_NS:
            return REST_S
        for picture in self._pictures:  # of a thousand jobs that do not run, no file is open
            picture.close()
        return STILL_S

    def _written(self) -> int:
        """Return when a state.db was written last."""
        found = 0
        for path in self._states:
            try:
                found = max(found, os.stat(path).st_mtime_ns)
            except OSError:
                continue
        return found

    def _published(self) -> int:
        """Return the sequence up to which the trail goes; read where the file can have been written to since."""
        try:
            found = os.stat(self._published_file)
            if self._cell is None or found.st_ino != self._published_at[0]:  # none until now, or another trail
                self._lag.close()
                self._lag = Lag(self._job.trail)
                if self._cell is not None:
                    self._cell.close()
                self._cell, self._is_settled = LocalStorage(self._job.trail).open(published.FILE), False
            at = found.st_ino, found.st_mtime_ns
            if at != self._published_at or not self._is_settled:
                self._published_at, self._is_settled = at, time.time_ns() - found.st_mtime_ns > SETTLED_NS
                self._sequence = published.read(self._cell).sequence
            return self._sequence
        except (OSError, AnabranchError):
            return -1

    def _read(self, now: float) -> Measure:
        snapshots = [picture.now() for picture in self._pictures]
        self._has_parts = any(snapshot["parts"] for snapshot in snapshots)
        lags = [self._lag_of(snapshot) for snapshot in snapshots]
        counts = [counted(snapshot, "apply", "changes_applied") for snapshot in snapshots]
        each = zip(self._views, snapshots, lags, strict=True)
        whole = worst([(view.target, condition_of(snapshot, lag == 0)) for view, snapshot, lag in each])
        loaded = [one["done"] for snapshot in snapshots for one in snapshot["progress"].values()]
        parked = snapshots[0]["gauges"].get("run", {}).get(PARKED)
        is_known = bool(lags) and None not in lags
        targets = zip(self._views, lags, counts, strict=True)
        return Measure(
            whole.state,
            whole.sub_state,
            whole.detail,
            max(lag for lag in lags if lag is not None) if is_known else None,
            self._changes.after(now, _sum(counts)),
            self._rows.after(now, sum(loaded)),
            int(parked["value"]) if parked else None,
            tuple(
                TargetMeasure(view.target if view.is_one_of_several else str(view.endpoint), lag, count)
                for view, lag, count in targets
            ),
            {name: one["value"] for name, one in snapshots[0]["counters"].get("capture", {}).items()},
        )

    def _lag_of(self, snapshot: dict[str, Any]) -> float | None:
        noted = snapshot["positions"].get("applied")
        if noted is None:
            return None
        return self._lag.seconds(snapshot, Checkpoint("", 0, Position.parse(noted["text"])))


def of_nothing(state: str, detail: str = "") -> Measure:
    """Return the measure of a job of which nothing but this can be said."""
    return Measure(state, detail=detail)


def with_state(measure: Measure, state: str, detail: str) -> Measure:
    """Return a measure with the state that the manager knows better."""
    return replace(measure, state=state, sub_state="", detail=detail)


def rank(state: str) -> int:
    """Return a number for a state: the more it needs a person, the greater."""
    return STATES.index(state)


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum of what is known, None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
