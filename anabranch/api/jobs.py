"""The routes of jobs: list, add, look, change, start, stop, remove.

What does not live here: what is done (`manager/manager.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.repeating import RepeatKey, tell_repeat
from anabranch.config.hop_kinds import kind_of
from anabranch.config.toml_text import document_of
from anabranch.errors import ConfigError
from anabranch.manager import Manager
from anabranch.manager.jobs import ManagedJob

Whole = Annotated[int, Field(strict=True)]  # true is no number
routes = APIRouter(prefix="/jobs", tags=["jobs"], route_class=AskedRoute)
Name = Annotated[str, Path(description="A job's name.", min_length=1, max_length=63)]


@dataclass(frozen=True)
class JobAnswer:
    """A job and its process. `state`: stopped, starting, running, stopping, waiting (to be started again) or failed;
    `problem`: why it cannot be started now, "" where it can. `kind`: job, or pump, route, receive: hops of a trail."""

    name: str
    version: int
    is_wanted: bool
    since: str
    state: str
    pid: int | None
    restarts: int
    exit_code: int | None
    again_in: float | None
    problem: str
    kind: str


@dataclass(frozen=True)
class JobPage:
    """Some of the jobs, by name. `next`: what to give as `after` for the rest; None where there is none."""

    jobs: list[JobAnswer]
    next: str | None


@dataclass(frozen=True)
class JobText:
    """A job file as `text` (TOML), or as `job`, the same sections as JSON; and why it is so. `version`: the one that was seen;
    else the change is refused."""

    text: str | None = None
    note: str = ""
    version: Whole | None = None
    job: dict[str, Any] | None = None

    def written(self) -> str:
        """Return the text of the job file. Raises ConfigError where there is none, or two."""
        if (self.text is None) == (self.job is None):
            raise ConfigError("either text or job says what the job is", hint="give one of them")
        return document_of(self.job) if self.job is not None else self.text or ""


def answer(manager: Manager, job: ManagedJob) -> JobAnswer:
    """Return a job with the state of its process."""
    found = manager.supervision.state(job.name, job.is_wanted)
    return JobAnswer(
        job.name,
        job.version,
        job.is_wanted,
        job.since,
        found.state,
        found.pid,
        found.restarts,
        found.code,
        found.again_in,
        found.problem,
        manager.jobs.kind(job.name, job.version).value,
    )


@routes.get("")
def jobs(
    manager: TheManager, caller: Asks, limit: Annotated[int, Query(ge=1, le=500)] = 100, after: str = ""
) -> JobPage:
    """List the jobs that the caller may see, by name."""
    found = [job for job in manager.seen_by(caller) if job.name > after]
    page = found[:limit]
    return JobPage([answer(manager, job) for job in page], page[-1].name if len(found) > limit else None)


@routes.post("", status_code=201)
def add(manager: TheManager, caller: Asks, body: JobText, response: Response, key: RepeatKey = None) -> JobAnswer:
    """Take in a job, or a hop of a trail, by the text of its file. It does not run yet."""
    text = body.written()
    job, is_repeat = manager.add_once(caller, text, body.note, key)
    tell_repeat(response, is_repeat)
    return JobAnswer(
        job.name, job.version, job.is_wanted, job.since, "stopped", None, 0, None, None, "", kind_of(text).value
    )


@routes.get("/{name}")
def job(manager: TheManager, caller: Asks, name: Name) -> JobAnswer:
    """Return one job and the state of its process."""
    return answer(manager, manager.job(caller, name))


@routes.put("/{name}")
def change(manager: TheManager, caller: Asks, name: Name, body: JobText) -> JobAnswer:
    """Give a job the next version of its file. It counts from the job's next start on."""
    return answer(manager, manager.change(caller, name, body.written(), body.note, body.version))


@routes.delete("/{name}", status_code=204)
def remove(manager: TheManager, caller: Asks, name: Name) -> None:
    """Forget a job that does not run. What it has made at both ends and at home stays: `anabranch drop` removes that."""
    manager.remove(caller, name)


@routes.post("/{name}/start", status_code=202)
def start(manager: TheManager, caller: Asks, name: Name) -> JobAnswer:
    """Keep a job running from now on."""
    return answer(manager, manager.start(caller, name))


@routes.post("/{name}/stop", status_code=202)
def stop(manager: TheManager, caller: Asks, name: Name) -> JobAnswer:
    """Stop a job, and keep it stopped. It has stopped when its `state` says so."""
    return answer(manager, manager.stop(caller, name))


@routes.get("/{name}/status")
def status(manager: TheManager, caller: Asks, name: Name) -> dict[str, Any]:
    """Return what `anabranch status --json` prints; of a hop what this machine knows, with each hop's delay."""
    return manager.status(caller, name)
