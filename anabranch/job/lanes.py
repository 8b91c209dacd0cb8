"""A target of a running job: its load and its apply as children, and how far it is. Of several targets, one whose part
ended for good is tried again now and then, as long as another one goes on.

What does not live here: the children themselves (`children.py`), when the job as a whole ends (`supervisor.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError, Retry, TablesParked, TargetUnavailable
from anabranch.job.caughtup import CaughtUp, Progress, undone
from anabranch.job.children import Child, PartFailed
from anabranch.job.signals import PREFLIGHT
from anabranch.model.condition import Waiting
from anabranch.state.store import StateStore
from anabranch.view.options import PATIENT

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

AWAY_PAUSE = 60.0  # seconds, at most, before a target that is away is tried again, unless the job says otherwise
PAUSES = (10.0, 300.0)  # seconds before what ended for good is tried again: the first time, and at most


class Lane:
    """One target of a running job. `job`: that target's view. `was_away`: the target could not be reached before the
    start, so its load runs the preflight. `is_patient`: a target that is away is waited for, however long that takes."""

    def __init__(self, job: JobView, state: StateStore, was_away: bool = False, is_patient: bool = False) -> None:
        self.job, self.state, self.is_patient = job, state, is_patient
        more = {PREFLIGHT: "1"} if was_away else {}
        more |= {PATIENT: "1"} if is_patient else {}
        self.children = [_child(job, name, more) for name in (("load", "apply") if job.applies else ("load",))]
        self.progress = Progress(job)
        self.caught_up = CaughtUp(self.progress)
        self.failures: dict[str, PartFailed] = {}  # by part, for parts that wait for another try
        self.away: set[str] = set()  # parts among these whose target could not be reached
        self._pause, self._sequence = PAUSES[0], -1

    def poll(self, now: float) -> None:
        """Start, or start again, what should be running."""
        for child in self.children:
            try:
                child.poll(now)
            except PartFailed as failed:
                self.failures[child.name] = failed
                pause = self._tell(child, failed)
                child.again_at(now + pause)
                self._pause = min(pause * 2, self._longest(child))
            else:
                if child.process is not None:
                    self.failures.pop(child.name, None)
        self.progress.refresh()
        self._note_progress()

    def pause(self) -> None:
        """Stop what runs, to be started again by `poll`: another machine has the trail."""
        for child in self.children:
            child.pause()

    @property
    def failure(self) -> PartFailed | None:
        """Return why the target does not go on at present; of several errors the one with the lowest exit code."""
        return min(self.failures.values(), key=lambda failed: failed.exit_code, default=None)

    @property
    def goes_on(self) -> bool:
        """Return whether the target goes on. A target that is away counts as going on where it is waited for: its parts
        continue by themselves as soon as it is back."""
        return all(self.is_patient and name in self.away for name in self.failures)

    def _longest(self, child: Child) -> float:
        """Return the longest pause before the next try, in seconds. A target that is away is asked more often: finding
        out that it is still away costs little."""
        if child.name not in self.away or not self.is_patient:
            return PAUSES[1]
        return float(self.job.config.retry.target.interval_s or AWAY_PAUSE)

    def _tell(self, child: Child, failed: PartFailed) -> float:
        """Tell of a part that ended for good; return the pause before its next try."""
        last = self.state.snapshot()["last_error"] or {}
        is_target = failed.exit_code == TargetUnavailable.exit_code == last.get("exit_code")
        is_away = is_target and last.get("retry") in (Retry.TIMED, Retry.PATIENT)
        (self.away.add if is_away else self.away.discard)(child.name)
        pause = min(self._pause, self._longest(child))
        named = {"target": self.job.target} if self.job.is_one_of_several else {}
        bound = log.get(job=self.job.config.name, **named)
        if is_away and self.is_patient:
            error = {**last["facts"], "message": last["message"], "retried": True}
            self.state.phase("waiting", f"for the target: {last['message']}", Waiting.TARGET, error)
            bound.warning("target_away", error=last["message"], again_in=pause)
        elif self.job.is_one_of_several:
            bound.warning("target_failed", error=failed.message, again_in=pause)
        return pause

    @property
    def is_streaming(self) -> bool:
        return (self.progress.is_followed or not self.job.applies) and self.progress.is_streaming

    def drain(self) -> None:
        """Note in state.db that the goal is known, so that `status` shows the phase "draining"."""
        if self.caught_up.has_goal:
            self.state.drains()
        if self.job.config.pair is not None:
            self.state.waits("run", self.job.target, self.caught_up.waits)

    def parked(self) -> TablesParked | None:
        left = undone(self.progress.parked(), self.progress.set_aside())
        if not left:
            return None
        where = f" at {self.job.target}" if self.job.is_one_of_several else ""
        return TablesParked(
            f"caught up{where}, but {left}",
            job=self.job.config.name,
            hint="anabranch status JOB says why and what to do",
        )

    def _note_progress(self) -> None:
        found = self.progress.checkpoint
        if found is not None and found.position.sequence > self._sequence:
            self._sequence, self._pause = found.position.sequence, PAUSES[0]


def _child(job: JobView, name: str, environment: dict[str, str]) -> Child:
    command = [sys.executable, "-m", "anabranch", name, str(job.path)]
    shown = f"{name} of {job.target}" if job.is_one_of_several else name
    command += ["--target", job.target] * job.is_one_of_several
    child = Child(shown, command, may_end=name == "load", environment=environment)
    child.restarts_per_hour = job.config.retry.restarts_per_hour
    return child


def worst(errors: Iterator[AnabranchError | None]) -> AnabranchError | None:
    """Return the error with the lowest exit code, with the others as notes; None for none."""
    found = sorted(filter(None, errors), key=lambda error: error.exit_code)
    for other in found[1:]:
        found[0].add_note(str(other))
    return found[0] if found else None


def refuse_if_all_failed(lanes: Sequence[Lane]) -> None:
    """Raise PartFailed where no target goes on."""
    failed = None if any(lane.goes_on for lane in lanes) else worst(lane.failure for lane in lanes)
    if failed is not None:
        raise failed
