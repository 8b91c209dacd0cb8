"""Counting of the requests that the application answers, by route and code, for `/metrics`.

A route is told by its pattern, never by what somebody typed. What does not live here: the text (`metrics.py`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

NO_ROUTE = "none"  # of paths that lead nowhere: they may be anything
EVERYTHING = "/{path:path}"  # the page for what is not there
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Requests:
    """Counts of one application, from any thread. `answered`: by method, route and code; `seconds`: by method and route."""

    def __init__(self) -> None:
        self.began = time.time()
        self._mutex = threading.Lock()
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[tuple[str, str], float] = {}

    def note(self, method: str, route: str, code: int, seconds: float) -> None:
        """Count one answer."""
        with self._mutex:
            self._answered[method, route, code] += 1
            self._seconds[method, route] = self._seconds.get((method, route), 0.0) + seconds

    def answered(self) -> dict[tuple[str, str, int], int]:
        """Return how many there were."""
        with self._mutex:
            return dict(self._answered)

    def seconds(self) -> dict[tuple[str, str], float]:
        """Return how long they took."""
        with self._mutex:
            return dict(self._seconds)


class Counting:
    """Middleware that counts. Of an answer that streams, the time is until its end."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        code, began = 500, time.monotonic()

        async def told(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, told)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            self._requests.note(method, _route(scope), code, time.monotonic() - began)


def _route(scope: Scope) -> str:
    """Return the pattern of the route that was found: with the prefix under which it is included, where there is one."""
    included = scope.get("fastapi", {}).get("effective_route_context")
    path = str(getattr(included, "path", None) or getattr(scope.get("route"), "path", NO_ROUTE))
    return NO_ROUTE if path == EVERYTHING else path
