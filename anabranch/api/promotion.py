"""The route of promotion: what was tried in one job goes into another, or is a new one with other ends.

What does not live here: what a file becomes (`manager/promoting.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import APIRouter

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.jobs import Name, Whole
from anabranch.config.effects import Effect
from anabranch.config.rule_text import SECTIONS
from anabranch.errors import ConfigError
from anabranch.manager.callers import Role
from anabranch.manager.promoting import Wanted

routes = APIRouter(prefix="/jobs", tags=["versions"], route_class=AskedRoute)


@dataclass(frozen=True)
class Asked:
    """A promotion. `job`: where it comes from, of this manager, in its version `version`, by default the present one; or
    `text`: the file of a job of another manager. `ends`: of a new job, the URL of each end: `source`, `target`, or the name
    of a target. `secrets`: the names that variables have there, by those that they have where it comes from. `sections`:
    what goes into a job that is there. `of_version`: the job that gets it is at this one, or it is refused.
    `is_tried`: nothing is kept."""

    job: str | None = None
    version: Whole | None = None
    text: str | None = None
    ends: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    sections: list[str] = field(default_factory=lambda: list(SECTIONS))
    note: str = ""
    of_version: Whole | None = None
    is_tried: bool = False


@dataclass(frozen=True)
class Promoted:
    """A promotion that was done or tried. `version`: the one that has it, None where it was tried; `difference`: as `diff -u`
    has it, without passwords, against the present file of the job, and of a new one against that which it comes from;
    `of_version`: the version of that present file, None of a new job; `effects`: what each changed key of a job that is there
    takes before it holds, as a difference of two versions has it."""

    name: str
    is_new: bool
    version: int | None
    of_version: int | None
    difference: str
    effects: list[Effect]


@routes.post("/{name}/promotion")
def promote(manager: TheManager, caller: Asks, name: Name, body: Asked) -> Promoted:
    """Put rules that were tried in another job into this one, which keeps its ends; or make this job of that one, with other
    ends. It counts from the job's next start on."""
    if (body.job is None) == (body.text is None):
        raise ConfigError("either job or text says what is promoted", hint="give one of them")
    text, note = body.text or "", body.note
    if body.job is not None:
        caller.require(Role.ADMINISTRATOR, body.job)  # its file may have passwords
        found = manager.file(caller, body.job, body.version)
        text, note = found.text, note or f"version {found.version} of {body.job}"
    wanted = Wanted(body.ends, body.secrets, tuple(body.sections))
    made, version = manager.promote(caller, name, text, wanted, note, is_tried=body.is_tried, expected=body.of_version)
    return Promoted(name, made.is_new, version, made.of_version, made.difference, list(made.effects))
