"""The part of a job's page that asks both ends: lag by stage, tables, parked tables with their way back.

What does not live here: what is known without asking (`job_pages.py`), gathering it (`job/status.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Visits
from anabranch.console.showing import PageRoute, is_part, page
from anabranch.errors import AnabranchError, NotAllowed, UnknownName
from anabranch.manager import Manager
from anabranch.manager.callers import Caller
from anabranch.manager.glances import Heard

if TYPE_CHECKING:
    from anabranch.lifecycle.parking import ParkedTable

routes = APIRouter(route_class=PageRoute)
EACH = 50  # tables on a page
KEPT_S = 30.0  # an answer of the ends that is so young is shown again: pages of it are of one moment


@dataclass(frozen=True)
class Back:
    """A parked table with its way back. `command`: "" where there is none."""

    table: str
    target: str
    reason: str
    waiting: int
    held_bytes: int
    command: str


@dataclass(frozen=True)
class Choice:
    """The tables that are shown: those whose names have `text` and whose state is `state`, one page of them."""

    text: str
    state: str
    page: int
    pages: int
    found: int
    tables: Sequence[tuple[str, Mapping[str, Any]]]


@routes.get("/jobs/{name}/status")
def status(
    request: Request,
    manager: TheManager,
    visitor: Visits,
    name: str,
    text: Annotated[str, Query(max_length=200)] = "",
    state: Annotated[str, Query(max_length=20)] = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
    fresh: bool = False,
) -> HTMLResponse:
    """Ask both ends of a job, and show what they say; as a part of the job's page, or as a page."""
    template = "_status.html" if is_part(request) else "status.html"
    facts: dict[str, Any] = {"name": name}
    try:
        heard = heard_now(manager, visitor.caller, name, fresh)
        facts |= {"heard": heard, "status": heard.status, "choice": chosen(heard.status, text, state, number)}
        facts["parked"] = _ways_back(manager, visitor.caller, name) if heard.parked else []
    except (UnknownName, NotAllowed):
        raise
    except AnabranchError as error:
        return page(request, template, visitor, **facts, error=error)
    return page(request, template, visitor, **facts, error=None)


def heard_now(manager: Manager, caller: Caller, name: str, fresh: bool) -> Heard:
    """Return what both ends say of a job; what they said a moment ago, unless it is to be `fresh`."""
    found = manager.heard(caller, name)
    manager.jobs.require_job(name)
    if fresh or found is None or found.age > KEPT_S:
        manager.status(caller, name)
        found = manager.heard(caller, name)
        assert found is not None
    return found


def _ways_back(manager: Manager, caller: Caller, name: str) -> list[Back]:
    return [
        Back(str(one.source), target, one.reason, one.waiting, one.held_bytes, _command(manager, name, target, one))
        for target, one in manager.parked(caller, name)
    ]


def _command(manager: Manager, name: str, target: str, one: ParkedTable) -> str:
    if not one.back_by:
        return ""
    file = str(manager.jobs.file(name))
    words = [file if word == "JOB" else word for word in shlex.split(one.back_by)]
    return shlex.join([*words, *(["--target", target] if target else [])])


def chosen(status: Mapping[str, Any], text: str, state: str, number: int) -> Choice:
    """Choose tables of a status; those that need a person come first."""
    found = [
        (target["name"] if len(status["targets"]) > 1 else "", table)
        for target in status["targets"]
        for table in target["tables"]
        if text.lower() in f"{table['source']} {table['target']}".lower() and state in ("", table["state"])
    ]
    found.sort(key=lambda one: (one[1]["state"] not in ("parked", "dropped"), one[1]["source"], one[0]))
    pages = max(1, -(-len(found) // EACH))
    place = min(number, pages)
    return Choice(text, state, place, pages, len(found), found[(place - 1) * EACH : place * EACH])
