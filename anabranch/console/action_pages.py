"""The pages in front of actions: what comes of it, then the command as an operation.

What does not live here: the actions (`actions.py`), what became of one (`operation_pages.py`).
"""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.console.actions import ACTIONS, About, Action
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError, UnknownName

routes = APIRouter(route_class=PageRoute)
_Short = Annotated[str, Query(max_length=600)]
_Number = Annotated[int | None, Query(ge=1, lt=2**62)]
_Field = Annotated[str, Form(max_length=600)]


@routes.get("/jobs/{name}/do/{action}")
def before(
    request: Request,
    manager: TheManager,
    visitor: Visits,
    name: str,
    action: str,
    table: _Short = "",
    target: _Short = "",
    number: _Number = None,
) -> HTMLResponse:
    """Say what comes of an action, before it is done."""
    manager.job(visitor.caller, name)
    about = About(table, target, number)
    found = _found(action, about)
    arguments = found.arguments(about)
    visitor.caller.require(manager.operations.needs(found.verb, arguments), name)
    command = shlex.join(["anabranch", *found.verb.split(), name, *arguments])
    return page(
        request, "before_action.html", visitor, name=name, one=found, action=action, about=about, command=command
    )


@routes.post("/jobs/{name}/do/{action}")
def do(
    manager: TheManager,
    visitor: Acts,
    name: str,
    action: str,
    table: _Field = "",
    target: _Field = "",
    number: Annotated[int | None, Form(ge=1, lt=2**62)] = None,
    sql: Annotated[str, Form(max_length=60_000)] = "",
) -> Response:
    """Have an action carried out as an operation, and go there."""
    manager.job(visitor.caller, name)
    about = About(table, target, number, sql.replace("\r\n", "\n").strip())
    found = _found(action, about)
    made = manager.operations.ask(visitor.caller, name, found.verb, found.arguments(about))
    return RedirectResponse(f"/jobs/{name}/operations/{made.id}", 303)


def _found(action: str, about: About) -> Action:
    """Return an action. Raises UnknownName; ConfigError where it is not said what it is about."""
    found = ACTIONS.get(action)
    if found is None:
        raise UnknownName(f"there is no action {action}")
    if (found.needs == "table" and not about.table) or (found.needs == "number" and about.number is None):
        raise ConfigError(f"it is not said what to {action}", hint="come here from the page of the job")
    if about.sql and not found.takes_sql:
        raise ConfigError(f"{action} takes no statement")
    return found
