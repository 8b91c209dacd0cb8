"""The routes of job files: their versions, differences, an earlier one again, a check, the file itself.

What does not live here: what is done (`manager/manager.py`), what is hidden (`manager/masking.py`).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.jobs import JobAnswer, JobText, Name, Whole, answer
from anabranch.api.problems import problems_of
from anabranch.config.effects import Effect
from anabranch.errors import AnabranchError, ConfigError
from anabranch.manager.callers import Role
from anabranch.manager.jobs import JobVersion
from anabranch.manager.masking import masked

routes = APIRouter(prefix="/jobs", tags=["versions"], route_class=AskedRoute)
LARGEST = 2**31
Version = Annotated[int, Path(description="A version of a job's file.", ge=1, lt=LARGEST)]
Chosen = Annotated[int | None, Query(ge=1, lt=LARGEST)]


@dataclass(frozen=True)
class Checked:
    """Result of the check of a job file. `name`: the job's; None where the file is wrong."""

    is_valid: bool
    name: str | None
    message: str
    problems: list[dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """The difference of two versions, as `diff -u` has it, without passwords. `has_other_secrets`: nothing
    but passwords that stand in the files literally differs. `effects`: what each changed key takes before it holds: the next
    command, the next start of parts, a decision (`plan --execute`), another target or job; none are told of hops of a trail."""

    version: int
    against: int
    difference: str
    has_other_secrets: bool
    effects: list[Effect]


@dataclass(frozen=True)
class Restored:
    """Why an earlier version is wanted again. `version`: the present one that was seen; else it is refused."""

    note: str = ""
    version: Whole | None = None


@routes.post("/validate")
def validate(manager: TheManager, caller: Asks, body: JobText) -> Checked:
    """Check a job file, and say every problem of it. Nothing is kept."""
    try:
        text = body.written()
        return Checked(True, manager.checked(caller, text).name, "", [])
    except AnabranchError as error:
        if type(error) is not ConfigError:  # whoever may not ask
            raise
        return Checked(False, None, error.message, problems_of(error))


@routes.get("/{name}/versions")
def versions(manager: TheManager, caller: Asks, name: Name) -> list[JobVersion]:
    """List the versions of a job's file, the newest first. Passwords in them are shown to administrators alone."""
    manager.job(caller, name)
    found = manager.jobs.versions(name)
    is_shown = caller.role_at(name) is Role.ADMINISTRATOR
    return found if is_shown else [replace(one, text=masked(one.text)) for one in found]


@routes.get("/{name}/versions/{number}")
def version(manager: TheManager, caller: Asks, name: Name, number: Version) -> JobVersion:
    """Return one version of a job's file."""
    return manager.file(caller, name, number)


@routes.get("/{name}/versions/{number}/diff")
def diff(manager: TheManager, caller: Asks, name: Name, number: Version, against: Chosen = None) -> Difference:
    """Return how a version differs from another one, by default from the one before. The first one differs from none."""
    manager.job(caller, name)
    before = max(number - 1, 1) if against is None else against
    former, this = manager.jobs.version(name, before).text, manager.jobs.version(name, number).text
    hidden = [masked(text) for text in (former, this)]
    old, new = (text.splitlines() for text in hidden)
    lines = difflib.unified_diff(old, new, f"version {before}", f"version {number}", lineterm="")
    has_other = hidden[0] == hidden[1] and former != this
    told = "".join(f"{line}\n" for line in lines)
    return Difference(number, before, told, has_other, manager.jobs.effects(former, this))


@routes.post("/{name}/versions/{number}/restore", status_code=201)
def restore(manager: TheManager, caller: Asks, name: Name, number: Version, body: Restored | None = None) -> JobAnswer:
    """Give a job an earlier version of its file again, as the next one. It counts from the job's next start on."""
    wanted = body or Restored()
    return answer(manager, manager.restore(caller, name, number, wanted.note, wanted.version))


@routes.get(
    "/{name}/file",
    response_class=Response,
    responses={200: {"content": {"application/toml": {"schema": {"type": "string"}}}}},
)
def file(manager: TheManager, caller: Asks, name: Name, version: Chosen = None) -> Response:
    """Return the file of a job, by default as it is now."""
    found = manager.file(caller, name, version)
    saved = {"Content-Disposition": f'attachment; filename="{name}.toml"'}
    return Response(found.text, media_type="application/toml", headers=saved)
