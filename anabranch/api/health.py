"""`/healthz`, for whoever keeps the manager running.

What does not live here: `/metrics` (`metrics.py`).
"""

from __future__ import annotations

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from anabranch.manager import Manager

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
async def healthz(request: Request) -> str:
    """Say `ok` while the manager answers, and its state can be read. Needs no token, and tells nothing else."""
    state = request.app.state  # asked by a thread of its own: all others may wait for an end that does not answer
    if not hasattr(state, "healths"):
        state.healths = CapacityLimiter(1)
    return await to_thread.run_sync(_health, state.manager, limiter=state.healths)


def _health(manager: Manager) -> str:
    manager.store.row("SELECT 1")
    return "ok\n"
