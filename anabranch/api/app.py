"""The web application: REST below `/api/v1`, `/healthz`, `/metrics`, and the pages that `serve` adds.

What does not live here: each route (`jobs.py` and its neighbours).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from anabranch.api import (
    alerts,
    audit,
    events,
    health,
    jobs,
    metrics,
    operations,
    people,
    promotion,
    secrets,
    statistics,
    versions,
)
from anabranch.api.counting import Counting, Requests
from anabranch.api.described import describe_errors
from anabranch.api.gate import Gate, Pace, RefusedPage
from anabranch.api.headers import Guard
from anabranch.api.problems import Unexpected, tell_problems
from anabranch.api.requests_log import API, RequestsLog
from anabranch.manager import Manager
from anabranch.version import __version__


def create_app(
    manager: Manager,
    pages: Sequence[APIRouter] = (),
    static: StaticFiles | None = None,
    hosts: Collection[str] = (),
    pace: Pace | None = None,
    refused: RefusedPage = lambda *_: None,
) -> FastAPI:
    """Return the application of a manager. `pages`: routes beside those of the API; `static`: the files below `/static`;
    `hosts`: names of this machine; `pace`: the limit of requests by address; `refused`: the page of what is not let in."""
    app = FastAPI(
        title="anabranch",
        version=__version__,
        description="Replicates databases while they are in use. Each job is a job file that the manager keeps running.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # these pages would fetch scripts from other hosts
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # what generated clients call it
    )
    app.state.manager = manager
    app.add_middleware(Unexpected)
    app.add_middleware(Gate, hosts=hosts, pace=pace, refused=refused)
    app.add_middleware(Guard)
    app.state.requests = Requests()
    app.add_middleware(Counting, requests=app.state.requests)
    app.add_middleware(RequestsLog)
    tell_problems(app)
    describe_errors(app)
    app.include_router(health.routes)
    app.include_router(metrics.routes)
    for part in (jobs, versions, promotion, operations, statistics, alerts, audit, secrets, people, events):
        app.include_router(part.routes, prefix=API)
    if static is not None:
        app.mount("/static", static, name="static")
    for router in pages:  # behind all else: they have a page for what nobody else takes
        app.include_router(router, include_in_schema=False)
    return app
