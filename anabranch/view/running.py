"""Lists the parts of a job that are at work, on whichever host, and refuses what may not run beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import StateError
from anabranch.state.store import StateStore
from anabranch.trail import claims, lock

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

RUN_LOCK = "run.lock"  # in the job's home
RUN, CAPTURE, LOAD, APPLY = "run", "capture", "load", "apply"


@dataclass(frozen=True, slots=True)
class Part:
    """`name`: one of the above, or a command's; `target`: the one of several that it is for; `who`: for people, how the
    process can be found."""

    name: str
    target: str
    who: str

    def __str__(self) -> str:
        return f"{self.name} of {self.target} ({self.who})" if self.target else f"{self.name} ({self.who})"


def running(job: JobView) -> Iterator[Part]:
    """Yield parts that are at work, also by what they hold: state.db may have been deleted."""
    parts: dict[tuple[str, str], Part] = {}
    for home in dict.fromkeys((job.config.home, *(one.target_home for one in job.targets()))):
        state = StateStore(home)
        of = home.name if home != job.config.home else ""
        parts |= {(p["name"], of): Part(p["name"], of, f"pid {p['pid']}") for p in state.snapshot()["parts"]}
        state.close()
    yield from parts.values()
    for name, path in ((RUN, job.config.home / RUN_LOCK), (CAPTURE, job.trail / lock.FILE)):
        if (name, "") not in parts and (found := lock.holder(path)):
            yield Part(name, "", found)
        elif name == CAPTURE and (name, "") not in parts and (claim := claims.holder(job.trail)):
            yield Part(name, "", claim.who)


def require_stopped(job: JobView, but: Collection[str] = ()) -> None:
    """Raise StateError while parts run, other than those named in `but`."""
    if parts := [str(part) for part in running(job) if part.name not in but]:
        raise StateError(f"the job is running: {', '.join(parts)}", job=job.config.name, hint="stop it first")


def is_applied(job: JobView) -> bool:
    """Return whether apply runs, or what starts it again."""
    return job.applies and any(part.name in (RUN, APPLY) for part in running(job))


def is_captured(job: JobView) -> bool:
    """Return whether capture runs, or what starts it again; of a trail that another job captures, nobody here knows it."""
    return not job.captures or any(part.name in (RUN, CAPTURE) for part in running(job))
