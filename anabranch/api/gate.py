"""Lets in what is for us: the right host's name, forms of our own pages, bodies of a size, so many requests of an address.

What does not live here: who asks (`asking.py`), what the answer's headers say (`headers.py`).
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.api.problems import problem
from anabranch.manager.logins import network

LARGEST = 1_000_000  # bytes of a body
SAFE = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/\\\s]+)(?::\d{1,5})?")
# What a browser is shown, by scope, code and sentence; None where a program asks.
RefusedPage = Callable[[Scope, int, str], Response | None]


@dataclass
class Pace:
    """Limit of requests by address: `per_second` for long, `at_once` for short."""

    per_second: float = 50.0
    at_once: float = 200.0
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)  # place: (what is left, as of when)

    def wait(self, place: str) -> float:
        """Count a request. Returns 0, or the seconds after which there is room for one."""
        moment, spot = self.clock(), network(place)
        left, since = self._left.pop(spot, (self.at_once, moment))
        left = min(self.at_once, left + (moment - since) * self.per_second)
        self._left[spot] = (left - 1 if left >= 1 else left, moment)
        while len(self._left) > 10_000:  # those who have not asked for the longest time come first
            del self._left[next(iter(self._left))]
        return 0.0 if left >= 1 else (1 - left) / self.per_second


class Gate:
    """Middleware. `hosts`: names under which the manager is reached, beside `localhost` and addresses as numbers, which no name
    of somebody else can lead to (DNS rebinding); `pace`: None for no limit; `refused`: a page in place of a problem."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] = (),
        pace: Pace | None = None,
        refused: RefusedPage = lambda *_: None,
    ) -> None:
        self._app, self._pace, self._refused_page = app, pace, refused
        self._hosts = {"localhost", *(name.lower().rstrip(".") for name in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            status, code, detail, more = refused
            answer = self._refused_page(scope, status, detail) or problem(status, code, detail)
            answer.headers.update(more)
            await answer(scope, receive, send)
            return
        await self._app(scope, _limited(receive), send)

    def _refused(self, scope: Scope, headers: Headers) -> tuple[int, str, str, dict[str, str]] | None:
        if not self._is_ours(headers.getlist("host")):
            return 421, "wrong_host", "this is not the name of this manager: --allow-host NAME lets it be one", {}
        seconds = self._pace.wait(scope["client"][0] if scope.get("client") else "") if self._pace else 0.0
        if seconds:
            return 429, "too_often", "too many requests from this address", {"Retry-After": str(int(seconds) + 1)}
        if scope["method"] not in SAFE and not _is_own_origin(headers):
            return 403, "wrong_origin", "this was sent by a page of another site", {}
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST:
            return 413, "too_large", f"a body has at most {LARGEST} bytes", {"Connection": "close"}
        return None

    def _is_ours(self, said: list[str]) -> bool:
        found = _HOST.fullmatch(said[0]) if len(said) == 1 else None
        if found is None:
            return False
        name = found[1].lower().rstrip(".")
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name in self._hosts
        return True


def _is_own_origin(headers: Headers) -> bool:
    """Return whether a page of ours has sent it, or no page at all. https://www.w3.org/TR/fetch-metadata/"""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers["host"].lower()


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body that does not say how long it is."""
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {LARGEST} bytes")
        return message

    return counted
