"""The pages of jobs: the overview, one job, its start and stop.

What does not live here: what is said first of a job (`outlook.py`), its tables (`status_pages.py`).
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from anabranch.api.asking import TheManager
from anabranch.config.hop_kinds import Kind
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.outlook import outlook, outlooks
from anabranch.console.showing import PageRoute, page
from anabranch.console.sparkline import sparkline
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.manager.statistics import HOUR, Measured

routes = APIRouter(route_class=PageRoute)
CHARTS = {Measured.LAG: "Lag in the last hour", Measured.CHANGES: "Changes applied in the last hour"}


@routes.get("/")
def overview(request: Request, manager: TheManager, visitor: Visits, live: str = "yes") -> HTMLResponse:
    """Show all jobs, those first that need a person."""
    return page(request, "overview.html", visitor, jobs=outlooks(manager, visitor.caller), live=live != "no")


@routes.get("/parts/jobs")
def overview_now(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """Return the list alone, as it is now."""
    return page(request, "_jobs.html", visitor, jobs=outlooks(manager, visitor.caller))


@routes.get("/jobs/{name}")
def job(request: Request, manager: TheManager, visitor: Visits, name: str, live: str = "yes") -> HTMLResponse:
    """Show one job: what is known at once; what both ends say comes behind it."""
    found = outlook(manager, manager.job(visitor.caller, name))
    may_act = visitor.caller.role_at(name).includes(Role.OPERATOR)
    facts: dict[str, Any] = {
        "one": found,
        "is_job": found.kind_of_file is Kind.JOB,
        "file": manager.file(visitor.caller, name),
        "may_act": may_act,
        "live": live != "no",
    }
    return page(request, "job.html", visitor, **facts, charts=_charts(manager, name))


def _charts(manager: Manager, name: str) -> list[Markup]:
    """Return how the job has gone in the last hour, as pictures."""
    now = int(time.time())
    found = [(title, manager.statistics.series(name, one, now - HOUR, now)) for one, title in CHARTS.items()]
    return [Markup(sparkline(series, title)) for title, series in found]


@routes.get("/jobs/{name}/now")
def job_now(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Return what is known of the job at once, as it is now."""
    found = outlook(manager, manager.job(visitor.caller, name))
    return page(request, "_job_now.html", visitor, one=found)


@routes.get("/jobs/{name}/start")
@routes.get("/jobs/{name}/stop")
@routes.get("/jobs/{name}/restart")
def before(request: Request, manager: TheManager, visitor: Visits, name: str) -> HTMLResponse:
    """Say what comes of an action, before it is done."""
    visitor.caller.require(Role.OPERATOR, name)
    found = outlook(manager, manager.job(visitor.caller, name))
    return page(request, "before.html", visitor, one=found, action=request.url.path.rpartition("/")[2])


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


@routes.post("/jobs/{name}/restart")
def restart(manager: TheManager, visitor: Acts, name: str) -> Response:
    """Stop a job in order, and start it again."""
    manager.restart(visitor.caller, name)
    return RedirectResponse(f"/jobs/{name}", 303)
