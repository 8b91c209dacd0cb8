"""The pages of promotion: what was tried in one job goes into another, or is a new one; nothing is kept that was not shown.

What does not live here: what a file becomes (`manager/promoting.py`), the same over REST (`api/promotion.py`).
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.config.promoted_text import pairs
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError, NotAllowed, OutOfDate
from anabranch.manager.callers import Role
from anabranch.manager.promoting import Promotion, Wanted

routes = APIRouter(route_class=PageRoute)
_Said = Annotated[str, Form(max_length=20_000)]


@routes.get("/jobs/{name}/promote")
def promote(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Show the form: where it goes, with which ends and secrets."""
    visitor.caller.require(Role.ADMINISTRATOR, name)
    manager.job(visitor.caller, name)
    manager.jobs.require_job(name)
    return page(request, "promote.html", visitor, name=name, into="", ends="", secrets="", note="")


@routes.post("/jobs/{name}/promote")
def promoted(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    name: str,
    into: _Said = "",
    ends: _Said = "",
    secrets: _Said = "",
    note: _Said = "",
    seen: _Said = "",
    act: _Said = "look",
) -> Response:
    """Show what the other job becomes; keep it where just this was shown so."""
    visitor.caller.require(Role.ADMINISTRATOR, name)
    found = manager.file(visitor.caller, name)
    into = into.strip()
    facts: dict[str, Any] = {"name": name, "into": into, "ends": ends, "secrets": secrets, "note": note}
    why = note or f"version {found.version} of {name}"
    try:
        wanted = Wanted(_pairs(ends), _pairs(secrets))
        shown, _ = manager.promote(visitor.caller, into, found.text, wanted, why, is_tried=True)
        if act == "save" and seen == _mark(into, shown):
            manager.promote(visitor.caller, into, found.text, wanted, why, expected=shown.of_version)
            return RedirectResponse(f"/jobs/{into}", 303)
    except (ConfigError, NotAllowed, OutOfDate) as error:
        code = 403 if isinstance(error, NotAllowed) else 409 if isinstance(error, OutOfDate) else 422
        return page(request, "promote.html", visitor, code, **facts, error=error)
    return page(request, "promote.html", visitor, **facts, shown=shown, seen=_mark(into, shown))


def _pairs(text: str) -> dict[str, str]:
    """Return what stands in lines NAME=VALUE. Raises ConfigError."""
    return pairs(filter(None, map(str.strip, text.splitlines())), "line", "one line each: NAME=VALUE")


def _mark(into: str, shown: Promotion) -> str:
    """Return what differs as soon as anything would come of it that was not shown."""
    return hashlib.sha256("\0".join((into, str(shown.is_new), shown.difference, shown.text)).encode()).hexdigest()
