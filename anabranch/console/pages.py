"""The pages of who is there: log in, log out, choose a password.

What does not live here: sessions (`manager/sessions.py`), who looks (`logged_in.py`).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import COOKIE, TheManager, place_of
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError
from anabranch.manager.callers import Caller, Role

routes = APIRouter(route_class=PageRoute)


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
    user = manager.accounts.checked(name, password)
    who = Caller(name[:64], "session", Role.VIEWER, (), place_of(request))
    if user is None:
        manager.audit.note(who, "login_refused")
        return page(request, "login.html", code=401, next=next, problem="No user has this name and password.")
    manager.audit.note(who, "logged_in")
    answered = RedirectResponse(next if next.startswith("/") and not next.startswith(("//", "/\\")) else "/", 303)
    is_secure = request.url.scheme == "https"
    secret = manager.sessions.begin(user.name)
    answered.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=is_secure)
    return answered


@routes.post("/logout")
def log_out(request: Request, manager: TheManager, visitor: Acts) -> Response:
    """Log out."""
    manager.sessions.end(request.cookies.get(COOKIE, ""))
    manager.audit.note(visitor.caller, "logged_out")
    answered = RedirectResponse("/login", 303)
    answered.delete_cookie(COOKIE)
    return answered


@routes.get("/password")
def password(request: Request, visitor: Visits) -> HTMLResponse:
    """Show the form to choose a password."""
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
    name = visitor.session.user.name
    if manager.accounts.checked(name, present) is None:
        return page(request, "password.html", visitor, 422, problem="The present password is another one.")
    try:
        manager.accounts.set_password(name, wanted)
    except ConfigError as error:
        return page(request, "password.html", visitor, 422, problem=str(error))
    manager.audit.note(visitor.caller, "password_changed")
    return RedirectResponse("/login", 303)
