"""The pages of secrets: which there are, who has set them, which jobs use them. No page shows a value.

What does not live here: how they are kept (`manager/secrets.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Acts, Visitor, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError, NotAllowed
from anabranch.manager import Manager
from anabranch.manager.callers import patterns_of

routes = APIRouter(prefix="/secrets", route_class=PageRoute)
_Text = Annotated[str, Form(max_length=200)]


@routes.get("")
def secrets(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """List the secrets."""
    return _secrets(request, manager, visitor)


@routes.post("")
def set_secret(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    name: _Text,
    value: Annotated[str, Form(max_length=40_000)],
    jobs: _Text = "",
) -> HTMLResponse:
    """Give a secret a value, and say which jobs have to start again for it."""
    patterns = patterns_of(jobs) if jobs.strip() else None
    try:
        made = manager.secrets.set(visitor.caller, name.strip(), value, patterns)
    except NotAllowed:
        raise
    except ConfigError as error:
        return _secrets(request, manager, visitor, 422, error=error)
    return _secrets(request, manager, visitor, made=made)


@routes.get("/{name}/remove")
def before_removal(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Say what comes of removing a secret, before it is done."""
    return page(request, "before_secret.html", visitor, secret=manager.secrets.secret(visitor.caller, name))


@routes.post("/{name}/remove")
def remove_secret(manager: TheManager, visitor: Acts, name: str) -> Response:
    """Remove a secret."""
    manager.secrets.remove(visitor.caller, name)
    return RedirectResponse("/secrets", 303)


def _secrets(request: Request, manager: Manager, visitor: Visitor, code: int = 200, **facts: Any) -> HTMLResponse:
    return page(request, "secrets.html", visitor, code, secrets=manager.secrets.all(visitor.caller), **facts)
