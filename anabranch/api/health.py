"""`/healthz`, for whoever keeps the manager running.

What does not live here: `/metrics` (`metrics.py`).
"""

from __future__ import annotations

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from anabranch.manager.manager import OK

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
async def healthz(request: Request) -> PlainTextResponse:
    """Say `ok` while the manager's threads live and its state can be read. Else 503: `degraded: store away` while jobs go on,
    and it will answer again by itself; `failed` where it will not. Needs no token, and tells nothing else."""
    state = request.app.state  # asked by a thread of its own: all others may wait for an end that does not answer
    if not hasattr(state, "healths"):
        state.healths = CapacityLimiter(1)
    found = await to_thread.run_sync(state.manager.health, limiter=state.healths)
    return PlainTextResponse(f"{found}\n", 200 if found == OK else 503)
