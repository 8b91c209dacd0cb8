"""Says of a job what people have to know first: one word, how bad it is, why, and since when.

The word comes from the job's process and from what its parts have noted, whichever needs a person more. What does not live
here: both of these (`manager/supervising.py`, `manager/glances.py`), how it looks (`templates/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.config.hop_kinds import Kind
from anabranch.manager import Manager
from anabranch.manager.callers import Caller
from anabranch.manager.glances import Glance, Heard
from anabranch.manager.jobs import ManagedJob
from anabranch.manager.supervising import ProcessState

SIGNS = {"bad": "✖", "warn": "▲", "busy": "…", "good": "✔", "off": "■"}  # beside the word: no colour alone says it
KINDS = {
    "died": "bad", "failed": "bad", "waiting": "warn", "starting": "busy", "loading": "busy", "stopping": "busy",
    "streaming": "good", "stopped": "off",
}  # fmt: skip
FINAL = {2: "its job file is refused", 3: "preflight has found what has to be mended"}


@dataclass(frozen=True)
class Outlook:
    """A job as it is listed. `kind`: bad, warn, busy, good or off; `parked`: tables, None where no end was asked yet."""

    job: ManagedJob
    process: ProcessState
    glance: Glance
    heard: Heard | None
    word: str
    kind: str
    detail: str
    since: str | None
    kind_of_file: Kind = Kind.JOB

    @property
    def sign(self) -> str:
        """The sign of the kind."""
        return SIGNS[self.kind]

    @property
    def parked(self) -> int | None:
        """The number of parked tables, by what was heard of the target last."""
        return self.heard.parked if self.heard else None

    @property
    def rank(self) -> tuple[int, str]:
        """The place in the list: what needs a person comes first."""
        order = 0 if self.kind == "bad" else 1 if self.parked else 2 if self.kind == "warn" else 3
        return order, self.job.name


def outlook(manager: Manager, job: ManagedJob, mark: tuple[int, ...] | None = None) -> Outlook:
    """Return the outlook of a job that somebody may see; asks no end. `mark`: as `Jobs.mark` has it, where it is known."""
    process, glance = manager.supervision.state(job.name, job.is_wanted), manager.glances.of(job.name, mark)
    word, kind, detail, since = _said(job, process, glance)
    heard, kind_of_file = manager.glances.heard(job.name), manager.jobs.kind(job.name, job.version)
    return Outlook(job, process, glance, heard, word, kind, detail, since, kind_of_file)


def outlooks(manager: Manager, caller: Caller) -> list[Outlook]:
    """Return all jobs that the caller may see, those first that need a person."""
    jobs = manager.seen_by(caller)
    marks = manager.jobs.marks(jobs)
    return sorted((outlook(manager, job, marks[job.name]) for job in jobs), key=lambda one: one.rank)


def _said(job: ManagedJob, process: ProcessState, glance: Glance) -> tuple[str, str, str, str | None]:
    if glance.problem:
        return "failed", "bad", f"The job file cannot be used: {glance.problem}", job.since
    error = str(glance.last_error["message"]) if glance.last_error else ""
    if process.state == "failed":
        why = FINAL.get(process.code or 0, "")
        said = f"ended with exit code {process.code}" + (f": {why}" if why else "")
        return "failed", "bad", "; ".join(filter(None, (said, error))), _at(glance.last_error)
    if process.state == "waiting":
        said = f"ended with exit code {process.code}, starts again in {process.again_in} s (restart {process.restarts})"
        if process.problem:
            said = f"cannot be started: {process.problem}; tried again in {process.again_in} s"
        return "restarting", "bad", "; ".join(filter(None, (said, error))), _at(glance.last_error)
    state = glance.state
    if state is None or (process.pid is not None and not state.active):
        return process.state, KINDS.get(process.state, "busy"), "", job.since
    if process.state == "starting" and not state.active:
        return "starting", "busy", "", job.since
    if process.pid is None and not job.is_wanted and not state.active:
        return "stopped", "off", f"its last run ended with an error: {error}" if error else "", state.since or job.since
    named = f"{state.state}, {state.sub_state.replace('_', ' ')}" if state.sub_state else state.state
    return named, KINDS[state.state], state.state_detail, state.since


def _at(error: Mapping[str, Any] | None) -> str | None:
    return str(error["at"]) if error else None
