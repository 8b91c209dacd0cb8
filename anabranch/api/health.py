"""`/healthz`, for whoever keeps the manager running.

What does not live here: `/metrics` (`metrics.py`).
"""

from __future__ import annotations

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
async def healthz(request: Request) -> PlainTextResponse:
    """Say `ok` while the manager's threads live and its state can be read, else `failed` with 503. Needs no token, and tells
    nothing else."""
    state = request.app.state  # asked by a thread of its own: all others may wait for an end that does not answer
    if not hasattr(state, "healths"):
        state.healths = CapacityLimiter(1)
    is_well = await to_thread.run_sync(state.manager.is_well, limiter=state.healths)
    return PlainTextResponse("ok\n") if is_well else PlainTextResponse("failed\n", 503)
