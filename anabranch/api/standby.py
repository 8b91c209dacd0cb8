"""The answers of a manager that stands by: 503 to everything, so that whoever spreads requests asks the one that has the lease.

What does not live here: who has it (`manager/lease.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from anabranch.api.gate import Gate
from anabranch.api.headers import Guard
from anabranch.api.problems import problem


def create_standby_app(hosts: Collection[str] = ()) -> FastAPI:
    """Return the application of a manager that waits for the lease. `hosts`: names of this machine."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(Gate, hosts=hosts)
    app.add_middleware(Guard)

    @app.get("/healthz")
    def _healthz() -> Response:
        return PlainTextResponse("standby\n", 503)

    @app.api_route("/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
    def _anything(_: Request, path: str) -> Response:
        return problem(503, "standby", "this manager stands by: another one manages the jobs")

    return app
