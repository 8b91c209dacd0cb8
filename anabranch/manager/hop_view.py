"""Looks at one hop of a trail by what this machine has of it: its state, how far it is, and the delay of each hop behind it.

What does not live here: what the files beside a trail say (`job/hop_status.py`), how jobs are looked at (`glances.py`,
`measures.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.job.hop_status import hop_status
from anabranch.job.states import Condition, condition_of
from anabranch.manager.jobs import Jobs
from anabranch.manager.measures import Measure, TargetMeasure
from anabranch.state.store import StateStore

FRESH_S = 10.0  # a running pump notes how far it is every second, but while it connects
WAITS = "waiting: "  # what a pump's state begins with that cannot go on


@dataclass(frozen=True)
class HopSeen:
    """A hop at one moment. `lag`: of a pump that runs, the age in seconds of the oldest transaction that is not durable at the
    next store; of others, which do not know that, None."""

    status: Mapping[str, Any]
    condition: Condition
    lag: float | None
    last_error: Mapping[str, Any] | None


class HopView:
    """The look at one version of a hop's file, asked for again and again by one thread."""

    def __init__(self, jobs: Jobs, name: str, home: Path) -> None:
        """`home`: where jobs and hops have theirs. Raises ConfigError for a file that is wrong, or whose variables are not
        there."""
        self._kind, self._file, self._env = jobs.kind(name), jobs.hop(name), jobs.environment(name)
        self._home = home / name
        self._state = StateStore(self._home)

    def close(self) -> None:
        """Close what is open of its files."""
        self._state.close()

    def now(self) -> HopSeen:
        """Return what is known of it. Raises AnabranchError, OSError where its trail cannot be read."""
        status, snapshot = hop_status(self._kind, self._file, self._home, self._env), self._state.snapshot()
        said = status.get("hop") or {}
        lag = _lag_now(status.get("lag"), said.get("at")) if status["running"] else None
        condition = condition_of(snapshot, lag == 0, needs=())
        if condition.state == "streaming" and str(said.get("state", "")).startswith(WAITS):
            condition = condition._replace(
                state="waiting", sub_state="target", detail=str(said["state"]).removeprefix(WAITS)
            )
        return HopSeen(status, condition, lag, snapshot["last_error"])


def _lag_now(lag: float | None, at: float | None) -> float | None:
    """Return the delay by what was noted a while ago: what waited then waits still; nobody knows where nothing did."""
    age = max(0.0, time.time() - (at or 0.0))
    if lag is None or age <= FRESH_S:
        return lag
    return lag + age if lag else None


class HopMeasures:
    """The measures of one hop, with the methods of `JobMeasures`."""

    def __init__(self, view: HopView) -> None:
        self._view = view

    def close(self) -> None:
        """Close what is open of its files."""
        self._view.close()

    def now(self, _now: float) -> Measure:
        """Return the measures."""
        seen = self._view.now()
        found = seen.condition
        targets: tuple[TargetMeasure, ...] = ()
        if seen.lag is not None:
            targets = (TargetMeasure(str(seen.status["target"]), seen.lag, None),)
        return Measure(found.state, found.sub_state, found.detail, seen.lag, targets=targets)
