"""`/healthz`, for whoever keeps the manager running.

What does not live here: `/metrics` (`metrics.py`).
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from anabranch.api.asking import TheManager

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
def healthz(manager: TheManager) -> str:
    """Say `ok` while the manager answers, and its state can be read. Needs no token, and tells nothing else."""
    manager.store.row("SELECT 1")
    return "ok\n"
