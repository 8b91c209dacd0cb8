"""The pages of what is inside a job: its trail, definitions with changes that wait for a person, comparisons, the cut-over.

What does not live here: gathering it (`manager/inside.py`), one table (`table_pages.py`), the actions (`actions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Visitor, Visits
from anabranch.console.operation_pages import KINDS, NO_MORE
from anabranch.console.outlook import SIGNS
from anabranch.console.showing import PageRoute, is_part, page
from anabranch.console.status_pages import heard_now
from anabranch.errors import AnabranchError, ConfigError, NotAllowed, UnknownName
from anabranch.manager.alerts import seen
from anabranch.manager.callers import Role
from anabranch.manager.inside import parsed
from anabranch.manager.trail_rows import Wanted
from anabranch.model.cutover import STEPS

routes = APIRouter(route_class=PageRoute)
TITLES = {"definitions": "Definitions", "verification": "Verification", "cutover": "Cut-over"}
_Short = Annotated[str, Query(max_length=600)]
_Place = Annotated[int | None, Query(ge=0, lt=2**62)]


@routes.get("/jobs/{name}/trail")
def trail(
    request: Request,
    manager: TheManager,
    visitor: Visits,
    name: str,
    after: _Place = None,
    skip: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    table: _Short = "",
    key: _Short = "",
) -> HTMLResponse:
    """Show rows of a job's trail, from this machine alone: behind a sequence, of one table, with a value in a column."""
    facts: dict[str, Any] = {"name": name, "table": table, "key": key, "found": None, "error": None}
    facts["may_see"] = visitor.caller.role_at(name).includes(Role.OPERATOR)
    try:
        wanted = Wanted(after, skip, parsed(table) if table else None, _pair(key))
        facts["found"] = manager.inside.trail(visitor.caller, name, wanted)
    except NotAllowed:
        raise
    except UnknownName:
        manager.job(visitor.caller, name)  # it is the job that is not there
        return page(request, "trail.html", visitor, 422, **facts | {"error": ConfigError(f"{table!r} is no table")})
    except AnabranchError as error:
        return page(request, "trail.html", visitor, **facts | {"error": error})
    return page(request, "trail.html", visitor, **facts)


@routes.get("/jobs/{name}/definitions")
def definitions(request: Request, manager: TheManager, visitor: Visits, name: str, ask: bool = False) -> HTMLResponse:
    """Show definitions, changes that wait for a person, and what became of others."""

    def find() -> dict[str, Any]:
        status = heard_now(manager, visitor.caller, name, fresh=True).status
        return {"found": manager.inside.definitions(visitor.caller, name), "waiting": _waiting(status)}

    manager.job(visitor.caller, name)
    return _in_two_steps(request, visitor, "definitions", name, ask, find)


@routes.get("/jobs/{name}/verification")
def verification(request: Request, manager: TheManager, visitor: Visits, name: str, ask: bool = False) -> HTMLResponse:
    """Show the last result of each table beside the running job, and comparisons that people have asked for."""

    def find() -> dict[str, Any]:
        status = heard_now(manager, visitor.caller, name, fresh=True).status
        asked = [one for one in manager.operations.all(visitor.caller, name, 200) if one.verb == "verify"][:20]
        return {"status": status, "asked": asked, "kinds": KINDS, "signs": SIGNS}

    manager.job(visitor.caller, name)
    return _in_two_steps(request, visitor, "verification", name, ask, find)


@routes.get("/jobs/{name}/cutover")
def cutover(request: Request, manager: TheManager, visitor: Visits, name: str, ask: bool = False) -> HTMLResponse:
    """Show how far the latest cut-over is, step by step; anew by itself while one is under way."""
    moving = {"under way", "flip unknown", "flipped"}

    def find() -> dict[str, Any]:
        found = [(target, report.to_json()) for target, report in manager.inside.cutover(visitor.caller, name)]
        return {"found": found, "steps": [str(step) for step in STEPS], "moving": moving}

    manager.job(visitor.caller, name)
    shown = _in_two_steps(request, visitor, "cutover", name, ask, find)
    context: Mapping[str, Any] = getattr(shown, "context", {})
    if is_part(request) and not any(report["state"] in moving for _, report in context.get("found") or ()):
        shown.status_code = NO_MORE
    return shown


@routes.get("/alerts")
def alerts(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """Show alerts about jobs that the visitor may see, those first that go on, and the rules."""
    caller = visitor.caller
    found = seen(manager.alerts.all(1000), caller.sees, is_everything=caller.sees_all)
    found.sort(key=lambda one: one.ended is not None)  # within both the newest is the first
    facts: dict[str, Any] = {"alerts": found[:200], "rules": manager.alert_rules.all()}
    return page(request, "alerts.html", visitor, **facts)


def _in_two_steps(
    request: Request, visitor: Visitor, what: str, name: str, ask: bool, find: Callable[[], dict[str, Any]]
) -> HTMLResponse:
    """Return a page that asks for its facts as a part; or, with `ask` or as a part, one that has them."""
    role = visitor.caller.role_at(name)
    facts: dict[str, Any] = {"name": name, "what": what, "title": TITLES[what], "error": None}
    facts["is_asked"] = is_part(request) or ask
    facts |= {"may_act": role.includes(Role.OPERATOR), "may_all": role is Role.ADMINISTRATOR}
    if facts["is_asked"]:
        try:
            facts |= find()
        except (UnknownName, NotAllowed):
            raise
        except AnabranchError as error:
            facts["error"] = error
    return page(request, f"_{what}.html" if is_part(request) else "two_steps.html", visitor, **facts)


def _waiting(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the changes that wait for a person, each once, by target, "" of the only one."""
    found = {
        (target["name"] if len(status["targets"]) > 1 else "", table["undecided"]["number"]): table["undecided"]
        for target in status["targets"]
        for table in target["tables"]
        if table.get("undecided")
    }
    return [(target, undecided) for (target, _), undecided in found.items()]


def _pair(key: str) -> dict[str, str]:
    """Return a column and its value of `column=value`, nothing of nothing. Raises ConfigError."""
    name, equals, value = key.partition("=")
    if key and not (equals and name.strip()):
        raise ConfigError(f"{key!r} is not COLUMN=VALUE", hint="as id=17")
    return {name.strip(): value} if key else {}
