"""The pages of what has happened and what is in the way: a job's log, its trace, its preflight.

What does not live here: writing them (`log.py`, `state/trace.py`), the checks (`preflight/`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Visits
from anabranch.console.showing import PageRoute, is_part, page
from anabranch.errors import AnabranchError, NotAllowed, UnknownName
from anabranch.manager.run_log import LEVELS, MOST

routes = APIRouter(route_class=PageRoute)
SHOWN = 200  # entries of a trace on a page
HOURS = {"1 hour": 1, "1 day": 24, "7 days": 168}
_Text = Annotated[str, Query(max_length=200)]
_Level = Annotated[str, Query(max_length=20)]


@routes.get("/jobs/{name}/log")
def log(
    request: Request, manager: TheManager, visitor: Visits, name: str, text: _Text = "", level: _Level = ""
) -> HTMLResponse:
    """Show the end of what a job's processes have written."""
    found = manager.log(visitor.caller, name, text, level)
    facts: dict[str, Any] = {"name": name, "text": text, "level": level, "levels": LEVELS, "lines": found, "most": MOST}
    return page(request, "log.html", visitor, **facts)


@routes.get("/jobs/{name}/trace")
def trace(
    request: Request,
    manager: TheManager,
    visitor: Visits,
    name: str,
    text: _Text = "",
    level: _Level = "info",
    hours: Annotated[int, Query(ge=1, le=24 * 366)] = 24,
) -> HTMLResponse:
    """Show what happened to a job, the newest first, as `anabranch trace` has it."""
    entries = manager.trace(visitor.caller, name, datetime.now(UTC) - timedelta(hours=hours))
    least = LEVELS.index(level) if level in LEVELS else 0
    found = [
        one
        for one in reversed(entries)
        if (one["level"] not in LEVELS or LEVELS.index(one["level"]) >= least) and text.lower() in str(one).lower()
    ]
    facts: dict[str, Any] = {
        "name": name,
        "text": text,
        "level": level,
        "levels": LEVELS,
        "hours": hours,
        "choices": HOURS,
    }
    return page(request, "trace.html", visitor, **facts, entries=found[:SHOWN], found=len(found))


@routes.get("/jobs/{name}/preflight")
def preflight(request: Request, manager: TheManager, visitor: Visits, name: str, ask: bool = False) -> HTMLResponse:
    """Show the page of a preflight, which asks for its checks as a part; with `ask`, or as a part, carry them out."""
    manager.job(visitor.caller, name)
    facts: dict[str, Any] = {"name": name, "reports": None, "error": None}
    if is_part(request) or ask:
        try:
            facts["reports"] = manager.preflight(visitor.caller, name)
        except (UnknownName, NotAllowed):
            raise
        except AnabranchError as error:
            facts["error"] = error
    return page(request, "_preflight.html" if is_part(request) else "preflight.html", visitor, **facts)
