"""Looks at jobs by what this machine has of them, state.db and the trail, without a question to an end.

A look at a job costs milliseconds, and is kept for a second, whoever asks. What was heard of both ends last is kept beside it.
What does not live here: asking them (`Job.status`), the process (`supervising.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.config import JobConfig
from anabranch.errors import AnabranchError, ConfigError, TrailError, UnknownName
from anabranch.job.counters import counters
from anabranch.job.lag import Lag
from anabranch.job.states import Condition, condition_of, worst
from anabranch.job.status import Picture
from anabranch.manager.flows import Flow, Flows
from anabranch.manager.hop_view import HopView
from anabranch.manager.jobs import Jobs
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.status import StateStatus
from anabranch.view.job_view import JobView

KEPT_S = 1.0
NO_FLOW = Flow()
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class TargetGlance:
    """A target of a job. `lag`: seconds, None where it is not known; `applied`: as `positions` of state.db has it; `loading`:
    rows by table, as `progress` has them; `counters`: of apply."""

    name: str
    url: str
    state: StateStatus
    lag: float | None
    applied: Mapping[str, Any] | None
    loading: Mapping[str, Mapping[str, Any]]
    counters: Mapping[str, Any] | None


@dataclass(frozen=True)
class Glance:
    """A job, or a hop of a trail. `state`: that of the target which needs a person most; `positions`: read, written; `problem`:
    why the file cannot be used here, "" where it can; `hop`: of a hop what `hop_status` says, of a job None; `flow`: with the
    targets in the same order."""

    source: str = ""
    state: StateStatus | None = None
    lag: float | None = None
    parts: tuple[Mapping[str, Any], ...] = ()
    positions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counters: Mapping[str, Any] | None = None
    targets: tuple[TargetGlance, ...] = ()
    last_error: Mapping[str, Any] | None = None
    problem: str = ""
    hop: Mapping[str, Any] | None = None
    flow: Flow = NO_FLOW


@dataclass(frozen=True)
class Heard:
    """The last answer of `status` about a job, and its time: seconds since 1970."""

    at: float
    status: Mapping[str, Any]
    began: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.began

    @property
    def parked(self) -> int:
        """The number of its parked tables, at all targets."""
        return sum(table["state"] == "parked" for target in self.status["targets"] for table in target["tables"])


@dataclass
class _Known:
    """The facts that are kept of one job between two looks. `version`: `Jobs.mark` of what `views` were made from."""

    version: tuple[int, ...]
    views: list[tuple[JobView, Picture]] = field(default_factory=list)
    hop: HopView | None = None
    source: str = ""
    problem: str = ""
    at: float = 0.0  # monotonic
    glance: Glance = field(default_factory=Glance)
    flows: Flows = field(default_factory=Flows)


class Glances:
    """The looks at one manager's jobs, from any thread."""

    def __init__(self, jobs: Jobs, home: Path) -> None:
        """`home`: where jobs and hops have theirs."""
        self._jobs, self._home, self._mutex = jobs, home, threading.Lock()
        self._known: dict[str, _Known] = {}
        self._heard: dict[str, Heard] = {}

    def of(self, name: str, mark: tuple[int, ...] | None = None) -> Glance:
        """Return what is known of a job now. `mark`: as `Jobs.mark` has it, where the caller knows it. Raises UnknownName."""
        with self._mutex:
            known = self._of(name, mark or self._jobs.mark(name))
            if time.monotonic() - known.at > KEPT_S:
                known.glance, known.at = _look(known), time.monotonic()
            return known.glance

    def hear(self, name: str, status: Mapping[str, Any]) -> Heard:
        """Keep what `status` has said of a job."""
        self._heard[name] = Heard(time.time(), status)
        return self._heard[name]

    def heard(self, name: str) -> Heard | None:
        """Return what `status` said of a job last; None where nobody has asked since the manager began."""
        return self._heard.get(name)

    def forget(self, name: str) -> None:
        """Close what is open of a job."""
        with self._mutex:
            self._heard.pop(name, None)
            _close(self._known.pop(name, None))

    def _of(self, name: str, version: tuple[int, ...]) -> _Known:
        known = self._known.get(name)
        if known is None or known.version != version:
            _close(known)
            known = self._known[name] = self._opened(name, version)
        elif known.problem:  # a variable that was missing may be there by now
            known = self._known[name] = self._opened(name, version)
        return known

    def _opened(self, name: str, version: tuple[int, ...]) -> _Known:
        try:
            config = self._jobs.checked(self._jobs.version(name).text)
            if not isinstance(config, JobConfig):
                return _Known(version, hop=HopView(self._jobs, name, self._home))
        except UnknownName:
            raise
        except ConfigError as error:
            return _Known(version, problem="; ".join([error.message, *map(str, error.problems)]))
        views = JobView(config, self._jobs.file(name)).targets()
        return _Known(version, [(view, Picture(view)) for view in views], source=str(config.source.endpoint))


def _close(known: _Known | None) -> None:
    for _, picture in known.views if known else ():
        picture.close()
    if known is not None and known.hop is not None:
        known.hop.close()


def _look(known: _Known) -> Glance:
    if known.hop is not None:
        return _look_at_hop(known.hop)
    if not known.views:
        return Glance(problem=known.problem)
    seen = [(view, picture.now()) for view, picture in known.views]
    lags = [_lag(view, snapshot) for view, snapshot in seen]
    conditions = [
        (view.target, condition_of(snapshot, _is_idle(snapshot, lag)))
        for (view, snapshot), lag in zip(seen, lags, strict=True)
    ]
    targets = tuple(
        _target(view, snapshot, lag, condition)
        for (view, snapshot), lag, (_, condition) in zip(seen, lags, conditions, strict=True)
    )
    snapshots = [snapshot for _, snapshot in seen]
    errors = [found["last_error"] for found in snapshots if found["last_error"]]
    first = snapshots[0]
    return Glance(
        known.source,
        worst(conditions).shown(),
        max((lag for lag in lags if lag is not None), default=None),
        tuple({(p["pid"], p["host"], p["name"]): p for found in snapshots for p in found["parts"]}.values()),
        first["positions"],
        counters(first, "capture"),
        targets,
        max(errors, key=lambda error: str(error["at"]), default=None),
        flow=known.flows.after(time.monotonic(), snapshots),
    )


def _look_at_hop(view: HopView) -> Glance:
    try:
        seen = view.now()
    except (AnabranchError, OSError) as error:  # its trail cannot be read
        return Glance(problem=str(error))
    status = seen.status
    ends = str(status.get("source") or status["listen"])
    return Glance(ends, seen.condition.shown(), seen.lag, last_error=seen.last_error, hop=status)


def _target(view: JobView, snapshot: Mapping[str, Any], lag: float | None, condition: Condition) -> TargetGlance:
    return TargetGlance(
        view.target if view.is_one_of_several else "",
        str(view.endpoint),
        condition.shown(),
        lag,
        snapshot["positions"].get("applied"),
        snapshot["progress"] if snapshot["phase"] == "loading" else {},
        counters(snapshot, "apply"),
    )


def _lag(view: JobView, snapshot: dict[str, Any]) -> float | None:
    """Return the lag by the trail, up to where apply has said that it is; the target itself is not asked."""
    applied = snapshot["positions"].get("applied")
    if applied is None:
        return None
    with closing(Lag(view.trail)) as lag, suppress(ValueError, TrailError):
        return lag.seconds(snapshot, Checkpoint("", 0, Position.parse(applied["text"]), _micros(applied)))
    return None


def _is_idle(snapshot: Mapping[str, Any], lag: float | None) -> bool:
    inside = snapshot["gauges"].get("capture", {}).get("open_changes", {"value": 0})
    return lag == 0.0 and not inside["value"]


def _micros(place: Mapping[str, Any]) -> int:
    told = place["commit_time"]
    return int(datetime.fromisoformat(told).timestamp() * MICROSECONDS) if told else 0
