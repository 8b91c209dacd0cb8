"""Writes a line for each request: who, which route, the code, how long. Never a query, a body, or a path that is no route.

What does not live here: what people did (`manager/audit.py`).
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch import log

API = "/api/v1"
QUIET = ("/healthz", "/metrics", "/static")  # programs ask for these all the time
CALLER = "anabranch_caller"  # where `asking.py` notes in a request who asks


class RequestsLog:
    """Middleware that writes the lines, when the answer has begun: a stream may never end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                _note(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, noted)


def _note(scope: Scope, code: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", "/static" if scope["path"].startswith("/static/") else "-")
    if scope["path"].startswith(f"{API}/") and route != "-":
        route = f"{API}{route.removeprefix(API)}"  # a router knows its routes from where it begins
    write = log.get().debug if route in QUIET and code < 400 else log.get().info
    caller = scope.get("state", {}).get(CALLER)
    write(
        "request",
        who=caller.name if caller else None,
        how=caller.how if caller else None,
        place=scope["client"][0] if scope.get("client") else "",
        method=scope["method"],
        route=route,
        code=code,
        ms=round(seconds * 1000, 1),
    )
