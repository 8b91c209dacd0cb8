"""The pages of the console.

What does not live here: what they look like (`templates/`), who looks (`logged_in.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.templating import Jinja2Templates

from anabranch.api.asking import COOKIE, TheManager, place_of
from anabranch.api.jobs import answer
from anabranch.console.logged_in import Acts, Visitor, Visits
from anabranch.errors import ConfigError
from anabranch.manager.callers import Caller, Role

routes = APIRouter()
templates = Jinja2Templates(directory=Path(__file__).with_name("templates"))


def page(request: Request, name: str, visitor: Visitor | None = None, code: int = 200, **facts: Any) -> HTMLResponse:
    """Return a page made of a template and these facts."""
    facts |= {"visitor": visitor, "csrf": visitor.session.csrf if visitor else ""}
    return templates.TemplateResponse(request, name, facts, status_code=code)


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


@routes.get("/")
def overview(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """Show all jobs."""
    jobs = [answer(manager, job) for job in manager.seen_by(visitor.caller)]
    return page(request, "overview.html", visitor, jobs=jobs)


@routes.get("/jobs/{name}")
def job(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Show one job: its process, its file, what may be done."""
    found = manager.job(visitor.caller, name)
    return page(request, "job.html", visitor, job=answer(manager, found), file=manager.jobs.version(name))


@routes.post("/jobs/{name}/start")
def start(manager: TheManager, visitor: Acts, name: str) -> Response:
    """Start a job."""
    manager.start(visitor.caller, name)
    return RedirectResponse(f"/jobs/{name}", 303)


@routes.post("/jobs/{name}/stop")
def stop(manager: TheManager, visitor: Acts, name: str) -> Response:
    """Stop a job."""
    manager.stop(visitor.caller, name)
    return RedirectResponse(f"/jobs/{name}", 303)
