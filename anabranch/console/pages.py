"""The pages of who is there: log in, log out, choose a password.

What does not live here: sessions (`manager/sessions.py`), who looks (`logged_in.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import COOKIE, TheManager, place_of
from anabranch.console.logged_in import Acts, Visitor, Visits
from anabranch.console.showing import PageRoute, own_page, page
from anabranch.errors import ConfigError, NotAllowed, TooOften
from anabranch.manager.callers import Caller, Role

routes = APIRouter(route_class=PageRoute)


def refused_for_now(
    request: Request, name: str, error: TooOften, visitor: Visitor | None = None, **facts: Any
) -> HTMLResponse:
    """Return a page that says how long to wait."""
    answered = page(request, name, visitor, 429, problem=f"Too many attempts: wait {error.seconds} seconds.", **facts)
    answered.headers["Retry-After"] = str(error.seconds)
    return answered


@routes.get("/login")
def login(request: Request, next: str = "/") -> HTMLResponse:
    """Show the form to log in."""
    return page(request, "login.html", next=next)


@routes.post("/login")
def log_in(
    request: Request,
    manager: TheManager,
    name: Annotated[str, Form()],
    password: Annotated[str, Form()],
    next: Annotated[str, Form()] = "/",
) -> Response:
    """Log in, and go on to the page that was asked for, which is one of ours."""
    who = Caller(name[:64], "session", Role.VIEWER, (), place_of(request))
    try:
        user = manager.logins.attempt(name, password, who.place)
    except TooOften as error:
        return refused_for_now(request, "login.html", error, next=next)
    if user is None:
        manager.audit.note(who, "login_refused")
        return page(request, "login.html", code=401, next=next, problem="No user has this name and password.")
    manager.audit.note(who, "logged_in")
    answered = RedirectResponse(own_page(next), 303)
    is_secure = request.url.scheme == "https"
    secret = manager.sessions.begin(user.name)
    answered.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=is_secure)
    return answered


@routes.post("/logout")
def log_out(request: Request, manager: TheManager, visitor: Acts) -> Response:
    """Log out."""
    manager.end_session(request.cookies.get(COOKIE, ""))
    manager.audit.note(visitor.caller, "logged_out")
    answered: Response = RedirectResponse("/login", 303)
    if (
        manager.oidc is not None and not visitor.session.has_password
    ):  # a redirect to there is none of `form-action 'self'`
        name, leave = manager.oidc.settings.file.name, manager.oidc.leave()
        answered = page(request, "logged_out.html", provider=name, leave=leave)
    answered.delete_cookie(COOKIE)
    return answered


@routes.get("/password")
def password(request: Request, visitor: Visits) -> HTMLResponse:
    """Show the form to choose a password."""
    _require_own(visitor)
    return page(request, "password.html", visitor)


@routes.post("/password")
def set_password(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    present: Annotated[str, Form()],
    wanted: Annotated[str, Form()],
) -> Response:
    """Give the user the password that was chosen, and log in anew."""
    _require_own(visitor)
    name = visitor.session.user.name
    try:
        user = manager.logins.attempt(name, present, visitor.caller.place)
    except TooOften as error:
        return refused_for_now(request, "password.html", error, visitor)
    if user is None:
        return page(request, "password.html", visitor, 422, problem="The present password is another one.")
    try:
        with manager.audit.together():
            manager.accounts.set_password(name, wanted)
            manager.audit.note(visitor.caller, "password_changed")
    except ConfigError as error:
        return page(request, "password.html", visitor, 422, problem=str(error))
    return RedirectResponse("/login", 303)


def _require_own(visitor: Visitor) -> None:
    """Raise NotAllowed for somebody whose password the manager does not keep."""
    if not visitor.session.has_password:
        raise NotAllowed("this manager has no password of yours", hint="the provider by which you log in keeps it")
