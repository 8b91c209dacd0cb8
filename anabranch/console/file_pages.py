"""The pages of job files: a new job, the next version of one, its versions with their differences.

Nothing is saved that was not shown as a difference first. What does not live here: what a job file may say (`config/`), who may
change one (`manager/manager.py`).
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.config.hop_kinds import Kind, kind_of
from anabranch.config.toml_text import text_of
from anabranch.console.differences import difference
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError, NotAllowed, OutOfDate
from anabranch.manager.callers import Role

routes = APIRouter(route_class=PageRoute)
LONGEST = 500_000  # characters of a job file
_Text = Annotated[str, Form(max_length=LONGEST)]
_Short = Annotated[str, Form(max_length=2000)]


@routes.get("/new")
def new(
    request: Request, visitor: Visits, kind: Annotated[Kind | None, Query(description="Of what.")] = None
) -> HTMLResponse:
    """Show the form of a new job; for a hop of a trail, with a file of that kind to be filled in."""
    visitor.caller.require(Role.ADMINISTRATOR)
    return page(request, "new.html", visitor, text=drafted_hop(kind) if kind else "", note="")


@routes.post("/new/draft")
def draft(
    request: Request,
    visitor: Acts,
    name: _Short = "",
    source: _Short = "",
    target: _Short = "",
    tables: _Short = "",
) -> HTMLResponse:
    """Show the form of a new job with a file made of its name, both URLs and patterns on its tables. Nothing is kept."""
    visitor.caller.require(Role.ADMINISTRATOR)
    text = drafted(name.strip(), source.strip(), target.strip(), tables.replace(",", " ").split())
    return page(request, "new.html", visitor, text=text, note="")


@routes.post("/new")
def add(
    request: Request, manager: TheManager, visitor: Acts, text: _Text = "", note: _Short = "", act: _Short = "check"
) -> Response:
    """Look at the file of a new job, or take it in."""
    visitor.caller.require(Role.ADMINISTRATOR)
    text = _lines(text)
    try:
        name = manager.checked(visitor.caller, text).name
        if act == "save":
            return RedirectResponse(f"/jobs/{manager.add(visitor.caller, text, note).name}", 303)
    except ConfigError as error:
        return page(request, "new.html", visitor, 422, text=text, note=note, error=error, quoted=text.splitlines())
    return page(request, "new.html", visitor, text=text, note=note, fits=name, what=f"a {kind_of(text).noun}")


@routes.get("/jobs/{name}/edit")
def edit(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Show the form with a job's present file."""
    visitor.caller.require(Role.ADMINISTRATOR, name)
    found = manager.file(visitor.caller, name)
    return page(request, "edit.html", visitor, name=name, version=found.version, text=found.text, note="")


@routes.post("/jobs/{name}/edit")
def change(
    request: Request,
    manager: TheManager,
    visitor: Acts,
    name: str,
    version: Annotated[int, Form()],
    text: _Text = "",
    note: _Short = "",
    seen: _Short = "",
    act: _Short = "look",
) -> Response:
    """Show what the next version would change; save it where just this text was shown so."""
    visitor.caller.require(Role.ADMINISTRATOR, name)
    text = _lines(text)
    facts: dict[str, Any] = {"name": name, "version": version, "text": text, "note": note}
    try:
        if act == "save" and seen == _mark(version, text):
            manager.change(visitor.caller, name, text, note, version)
            return RedirectResponse(f"/jobs/{name}", 303)
        manager.checked(visitor.caller, text, name)
        before = manager.jobs.version(name, version).text
    except OutOfDate as error:
        return page(request, "edit.html", visitor, 409, **facts, error=error)
    except NotAllowed as error:  # programs or files of the machine
        return page(request, "edit.html", visitor, 403, **facts, error=error)
    except ConfigError as error:
        return page(request, "edit.html", visitor, 422, **facts, error=error, quoted=text.splitlines())
    facts |= {"difference": difference(before, text), "effects": manager.jobs.effects(before, text)}
    return page(request, "edit.html", visitor, **facts, seen=_mark(version, text))


@routes.get("/jobs/{name}/versions")
def versions(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """List the versions of a job's file."""
    found = manager.job(visitor.caller, name)
    return page(request, "versions.html", visitor, name=name, job=found, versions=manager.jobs.versions(name))


@routes.get("/jobs/{name}/versions/{number}")
def version(
    request: Request, manager: TheManager, visitor: Visits, name: str, number: int, against: int | None = None
) -> HTMLResponse:
    """Show one version of a job's file, and what differs in it from another one, by default the one before."""
    shown, present = manager.file(visitor.caller, name, number), manager.job(visitor.caller, name).version
    numbers = sorted(one.version for one in manager.jobs.versions(name))
    earlier = [one for one in numbers if one < number]
    other = against if against is not None else earlier[-1] if earlier else None
    texts = [manager.jobs.version(name, one).text for one in (other, number)] if other else []
    facts: dict[str, Any] = {
        "name": name,
        "shown": shown,
        "present": present,
        "other": other,
        "difference": difference(*texts) if texts else None,
        "effects": manager.jobs.effects(*texts) if texts else [],
        "numbers": numbers,
    }
    return page(request, "version.html", visitor, **facts)


@routes.post("/jobs/{name}/versions/{number}/restore")
def restore(manager: TheManager, visitor: Acts, name: str, number: int, present: Annotated[int, Form()]) -> Response:
    """Make an earlier version the next one. `present`: the version that whoever asks has seen."""
    manager.restore(visitor.caller, name, number, expected=present)
    return RedirectResponse(f"/jobs/{name}/versions", 303)


def drafted(name: str, source: str, target: str, tables: list[str]) -> str:
    """Return the text of a job file, to be looked at and changed by a person."""
    return (
        f"name = {text_of(name)}\n\n[source]\nurl = {text_of(source)}\n\n[target]\nurl = {text_of(target)}\n\n"
        f"[[rules]]\ninclude = {text_of(tables)}\n"
    )


def drafted_hop(kind: Kind) -> str:
    """Return the text of the file of a hop, to be filled in by a person: an address of this machine, until TLS is there."""
    if kind is Kind.PUMP:
        ends = '[source]\nurl = "trail+file:///DIRECTORY/trail"\n\n[target]\nurl = "trail+tcp://127.0.0.1:7420/NAME"\n'
        return f'name = "out"\n\n{ends}'
    tls = '# tls_ca = "/…/ca.pem"\n# tls_cert = "/…/this.pem"\n# tls_key = "/…/this.key"\n'
    listen = f'[listen]\naddress = "127.0.0.1:7420"\n{tls}'
    allow = '[[allow]]\npeer = "*"\ntrail = "NAME"\n'
    if kind is Kind.ROUTE:
        return f'name = "dmz"\n\n{listen}\n[[routes]]\ntrail = "NAME"\nto = "trail+tcp://127.0.0.1:7421"\n\n{allow}'
    return (
        f'name = "inner"\n\n{listen}\n[store]\nurl = "trail+file:///DIRECTORY"\n\n{allow}'
        if kind is Kind.RECEIVE
        else ""
    )


def _lines(text: str) -> str:
    """Return a text as it was typed: a form sends the ends of lines as CRLF."""
    return text.replace("\r\n", "\n")


def _mark(version: int, text: str) -> str:
    return hashlib.sha256(f"{version}\n{text}".encode()).hexdigest()
