"""Server-sent events: what changes, as it does. https://html.spec.whatwg.org/multipage/server-sent-events.html

A connection is a task, and no thread: all of them share one that looks. What does not live here: the events
(`manager/events.py`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from anabranch.api.asking import Asks, TheManager, bearer_of, caller_now
from anabranch.api.jobs import Name
from anabranch.errors import AnabranchError
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from anabranch.manager.events import GONE, Event

routes = APIRouter(tags=["events"])
MOST, MOST_OF_CALLER = 100, 20  # connections
PAUSE_S = 0.5  # between two looks
BEAT_S = 15.0  # without an event a comment is sent, so that proxies keep the connection
CHECK_S = 5.0  # between two looks whether the token or the session still counts
AGAIN_S = 5
KIND = "text/event-stream"
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=64, description="The `id` of the last event that came.")
]
_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"content": {KIND: {"schema": {"type": "string"}}}, "description": "Events, until somebody ends it."}
}


@dataclass
class Following:
    """The connections of one application, and the one thread that looks for all of them."""

    limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    of: Counter[str] = field(default_factory=Counter)

    def enter(self, caller: Caller) -> None:
        """Count a connection. Raises 429 where there are too many."""
        if self.of.total() >= MOST or self.of[caller.name] >= MOST_OF_CALLER:
            raise HTTPException(429, "too many connections follow events", {"Retry-After": str(AGAIN_S)})
        self.of[caller.name] += 1

    def leave(self, caller: Caller) -> None:
        """Count a connection no more."""
        self.of[caller.name] -= 1
        if not self.of[caller.name]:
            del self.of[caller.name]


class _Followed(StreamingResponse):
    """An answer that is counted as a connection until it ends, whatever ends it."""

    def __init__(self, stream: AsyncIterator[str], following: Following, caller: Caller) -> None:
        super().__init__(stream, media_type=KIND, headers={"X-Accel-Buffering": "no"})
        self._following, self._caller = following, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._following.leave(self._caller)


@routes.get("/events", response_class=StreamingResponse, responses=_ANSWERS)
async def events(request: Request, manager: TheManager, caller: Asks, last: LastId = None) -> StreamingResponse:
    """Tell what changes: states and lag of jobs, alerts, operations. First comes everything as it is now, or, with
    `Last-Event-ID`, what has come since; `reset` says that everything comes again."""
    caller.require(Role.VIEWER)
    return _answer(request, manager, caller, None, last)


@routes.get("/jobs/{name}/events", response_class=StreamingResponse, responses=_ANSWERS)
async def job_events(
    request: Request, manager: TheManager, caller: Asks, name: Name, last: LastId = None
) -> StreamingResponse:
    """Tell what changes of one job, as `/events` does of all."""
    await to_thread.run_sync(manager.job, caller, name)
    return _answer(request, manager, caller, name, last)


def _answer(request: Request, manager: Manager, caller: Caller, job: str | None, last: str | None) -> StreamingResponse:
    state = request.app.state
    if not hasattr(state, "following"):
        state.following = Following()
    following: Following = state.following
    following.enter(caller)
    stream = _stream(request, manager, caller, job, _number(manager, last), following)
    return _Followed(stream, following, caller)


async def _stream(
    request: Request, manager: Manager, caller: Caller, job: str | None, number: int | None, following: Following
) -> AsyncIterator[str]:
    """Yield events until the other side or the server ends, or the caller may no more."""
    is_ending = getattr(request.app.state, "is_ending", lambda: False)
    given = bearer_of(request)
    told = checked = time.monotonic()
    yield f"retry: {AGAIN_S * 1000}\n\n"
    while not is_ending() and not await request.is_disconnected():
        try:
            if time.monotonic() - checked >= CHECK_S:
                checked = time.monotonic()
                present = await to_thread.run_sync(caller_now, request, given, limiter=following.limiter)
                if present is None or present.grants != caller.grants:
                    return
            found, number, is_all = await to_thread.run_sync(manager.events.since, number, limiter=following.limiter)
        except AnabranchError:  # the store cannot be read now: it is tried again
            found, is_all = [], True
        if not is_all:  # without an id: who is cut off here gets everything again
            yield "event: reset\ndata: {}\n\n"
        for event in found:
            if event.is_for(caller, job):
                told = time.monotonic()
                yield _text(event, manager)
            if (event.kind, event.job) == (GONE, job):
                return
        if time.monotonic() - told >= BEAT_S:
            told = time.monotonic()
            yield ": nothing has changed\n\n"
        await anyio.sleep(PAUSE_S)


def _text(event: Event, manager: Manager) -> str:
    return f"event: {event.kind}\nid: {manager.events.run}-{event.number}\ndata: {json.dumps(event.data)}\n\n"


def _number(manager: Manager, last: str | None) -> int | None:
    """Return the number of the last event that somebody got; None where it was of another run, or none."""
    run, _, number = (last or "").partition("-")
    return int(number) if run == manager.events.run and number.isascii() and number.isdigit() else None
