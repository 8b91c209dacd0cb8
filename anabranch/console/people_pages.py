"""The pages of administrators: users, tokens, the audit.

What does not live here: one's own password (`pages.py`), what may be done (`manager/people.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Acts, Visitor, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError, UnknownName
from anabranch.manager import Manager
from anabranch.manager.callers import Role, patterns_of

routes = APIRouter(route_class=PageRoute)
EACH = 100  # entries of the audit on a page
_Name = Annotated[str, Form(max_length=200)]
_Days = Annotated[float, Form(gt=0, le=3660)]


@routes.get("/users")
def users(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """List the users."""
    return _users(request, manager, visitor)


@routes.post("/users")
def add_user(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    name: _Name,
    role: Annotated[Role, Form()],
    jobs: _Name = "*",
) -> HTMLResponse:
    """Add a user, and show its one-time password."""
    try:
        password = manager.people.add_user(visitor.caller, name.strip(), role, patterns_of(jobs))
    except UnknownName:
        raise
    except ConfigError as error:
        visitor.caller.require(Role.ADMINISTRATOR)
        return _users(request, manager, visitor, 422, error=error)
    return _users(request, manager, visitor, made=name.strip(), password=password)


@routes.get("/users/{name}/password")
@routes.get("/users/{name}/remove")
def before_user(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Say what comes of an action on a user, before it is done."""
    visitor.caller.require(Role.ADMINISTRATOR)
    facts = {"user": manager.accounts.user(name), "action": request.url.path.rpartition("/")[2]}
    return page(request, "before_user.html", visitor, 200, **facts)


@routes.post("/users/{name}/password")
def new_password(request: Request, manager: TheManager, visitor: Acts, name: str) -> HTMLResponse:
    """Give a user a one-time password, and show it."""
    password = manager.people.new_password(visitor.caller, name)
    return _users(request, manager, visitor, made=name, password=password)


@routes.post("/users/{name}/remove")
def remove_user(manager: TheManager, visitor: Acts, name: str) -> Response:
    """Remove a user."""
    manager.people.remove_user(visitor.caller, name)
    return RedirectResponse("/users", 303)


@routes.get("/tokens")
def tokens(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """List the tokens."""
    return _tokens(request, manager, visitor)


@routes.post("/tokens")
def make_token(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    name: _Name,
    role: Annotated[Role, Form()],
    days: _Days,
    jobs: _Name = "*",
) -> HTMLResponse:
    """Make a token, and show it."""
    text = manager.people.make_token(visitor.caller, role, name.strip(), patterns_of(jobs), days)
    return _tokens(request, manager, visitor, made=name.strip(), token=text)


@routes.get("/tokens/{number}/revoke")
def before_token(request: Request, manager: TheManager, visitor: Visits, number: str) -> HTMLResponse:
    """Say what comes of revoking a token, before it is done."""
    found = [one for one in manager.people.all_tokens(visitor.caller) if one.id == number]
    if not found:
        raise UnknownName(f"there is no token {number}")
    return page(request, "before_token.html", visitor, token=found[0])


@routes.post("/tokens/{number}/revoke")
def revoke_token(manager: TheManager, visitor: Acts, number: str) -> Response:
    """Revoke a token."""
    manager.people.revoke_token(visitor.caller, number)
    return RedirectResponse("/tokens", 303)


@routes.get("/audit")
def audit(
    request: Request,
    manager: TheManager,
    visitor: Visits,
    before: Annotated[int | None, Query(ge=1)] = None,
    job: Annotated[str, Query(max_length=63)] = "",
) -> HTMLResponse:
    """Show what people and programs did with the manager, the newest first."""
    found = manager.audited(visitor.caller, EACH + 1, before, job or None)
    older = found[EACH - 1].id if len(found) > EACH else None
    return page(request, "audit.html", visitor, entries=found[:EACH], older=older, job=job)


def _users(request: Request, manager: Manager, visitor: Visitor, code: int = 200, **facts: Any) -> HTMLResponse:
    return page(request, "users.html", visitor, code, users=manager.people.users(visitor.caller), roles=Role, **facts)


def _tokens(request: Request, manager: Manager, visitor: Visitor, **facts: Any) -> HTMLResponse:
    found = manager.people.all_tokens(visitor.caller)
    return page(request, "tokens.html", visitor, tokens=found, roles=Role, **facts)
