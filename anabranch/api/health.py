"""`/healthz`, for whoever keeps the manager running, and `/metrics`, for Prometheus.

What does not live here: the metrics of a job's own listener (`job/scraping.py`).
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from anabranch.api.asking import Asks, TheManager
from anabranch.model.metrics import CONTENT_TYPE

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
def healthz(manager: TheManager) -> str:
    """Say `ok` while the manager answers, and its state can be read. Needs no token, and tells nothing else."""
    manager.store.row("SELECT 1")
    return "ok\n"


@routes.get("/metrics", response_class=PlainTextResponse)
def metrics(manager: TheManager, caller: Asks) -> PlainTextResponse:
    """Return what the manager counts, in Prometheus' text form, of the jobs that the caller may see."""
    lines = [
        "# HELP anabranch_job_running 1 while the manager sees the job's process.",
        "# TYPE anabranch_job_running gauge",
    ]
    for job in manager.seen_by(caller):
        lines.append(
            f'anabranch_job_running{{job="{job.name}"}} {int(manager.supervision.state(job.name).pid is not None)}'
        )
    return PlainTextResponse("\n".join([*lines, ""]), media_type=CONTENT_TYPE)
