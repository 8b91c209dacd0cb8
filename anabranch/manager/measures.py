"""Measures of the jobs of a manager: lag, changes and rows a second, state. Nothing is asked but files of the job's home.

Each second there is a cheap look whether something can have changed; what is at rest is read anew every ten seconds. What does
not live here: how measures are kept (`statistics.py`), what is known of an end (`job/status.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
        self._lag, self._inode = Lag(job.trail), -1
        self._cell: Readable | None = None
        homes = dict.fromkeys([job.config.home, *(view.target_home for view in self._views)])
        self._states = [str(home / FILE) for home in homes]  # text: these are looked at each second
        self._published_file = str(job.trail / published.FILE)
        self._changes, self._rows = Rate(), Rate()
        self._looked = (0, 0)
        self._last: tuple[float, Measure] | None = None

    def close(self) -> None:
        """Close what is open of the job's files."""
        self._lag.close()
        for picture in self._pictures:
            picture.close()
        if self._cell is not None:
            self._cell.close()

    def now(self, now: float) -> Measure:
        """Return the measures. `now`: monotonic seconds."""
        looked = self._look()
        if self._last is not None:
            at, last = self._last
            # Parts that live say so every two seconds: of these, a file that was written to says nothing.
            is_same = looked[1] == self._looked[1] and (last.state == "streaming" or looked == self._looked)
            if last.is_at_rest and is_same and now - at < REST_S:
                return last
        self._looked = looked
        found = self._read(now)
        self._last = now, found
        return found

    def _look(self) -> tuple[int, int]:
        """Return when a state.db was written last, and the sequence up to which the trail goes."""
        return max(map(_written, self._states)), self._published()

    def _published(self) -> int:
        try:
            inode = os.stat(self._published_file).st_ino
            if self._cell is None or inode != self._inode:  # none until now, or another trail
                self._lag.close()
                self._lag = Lag(self._job.trail)
                if self._cell is not None:
                    self._cell.close()
                self._cell, self._inode = LocalStorage(self._job.trail).open(published.FILE), inode
            return published.read(self._cell).sequence
        except (OSError, AnabranchError):
            return -1

    def _read(self, now: float) -> Measure:
        snapshots = [picture.now() for picture in self._pictures]
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


def _written(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum of what is known, None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
