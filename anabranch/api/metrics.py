"""`/metrics`: all jobs that somebody may see, and the manager itself, for Prometheus. No end is asked.

What does not live here: names and text form (`model/metrics.py`), the metrics of a job's own listener (`job/scraping.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from anabranch.api.asking import Asks, TheManager
from anabranch.api.counting import Requests
from anabranch.manager import Manager
from anabranch.manager.jobs import ManagedJob
from anabranch.manager.measures import ENDED, Measure
from anabranch.model.metrics import CONTENT_TYPE, Sample, text_of_all

routes = APIRouter(tags=["health"])
COUNTED = {
    "transactions_completed": "capture_transactions_total",
    "changes_read": "capture_changes_total",
    "bytes_written": "capture_bytes_total",
}
KNOWN = ("job_active", "job_state", *COUNTED.values(), "lag_seconds", "apply_changes_total")  # of a job, beside its own


@routes.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request, manager: TheManager, caller: Asks) -> PlainTextResponse:
    """Return what the manager knows of the jobs that the caller may see, and counts, in Prometheus' text form."""
    jobs = manager.seen_by(caller)
    samples = [replace(sample, job=job.name) for job in jobs for sample in _of_job(manager, job)]
    text = text_of_all([*samples, *_of_manager(manager, request.app.state.requests)])
    return PlainTextResponse(text, media_type=CONTENT_TYPE)


def _of_job(manager: Manager, job: ManagedJob) -> Iterator[Sample]:
    process = manager.supervision.state(job.name, job.is_wanted)
    yield Sample("job_wanted", job.is_wanted)
    yield Sample("job_running", process.pid is not None)
    yield Sample("job_restarts_total", process.restarts)
    measure = manager.monitor.latest.get(job.name)
    if measure is not None:
        yield from _of_measure(measure)


def _of_measure(measure: Measure) -> Iterator[Sample]:
    yield Sample("job_active", measure.state not in ENDED)
    yield Sample("job_state", 1, {"state": measure.state, "sub_state": measure.sub_state})
    yield from (Sample(metric, measure.counts[name]) for name, metric in COUNTED.items() if name in measure.counts)
    for target in measure.targets:
        at = {"target": target.name}
        if target.lag is not None:
            yield Sample("lag_seconds", target.lag, at)
        if target.changes is not None:
            yield Sample("apply_changes_total", target.changes, at)
    rates = {"job_changes_per_second": measure.changes, "job_rows_loaded_per_second": measure.rows}
    rates["job_tables_parked"] = measure.parked
    yield from (Sample(name, value) for name, value in rates.items() if value is not None)


def _of_manager(manager: Manager, requests: Requests) -> Iterator[Sample]:
    yield Sample("manager_start_time_seconds", round(requests.began, 3))
    for (method, route, code), number in sorted(requests.answered().items()):
        yield Sample("manager_http_requests_total", number, {"method": method, "route": route, "code": str(code)})
    for (method, route), seconds in sorted(requests.seconds().items()):
        yield Sample("manager_http_seconds_total", round(seconds, 6), {"method": method, "route": route})
    disk = shutil.disk_usage(manager.home)
    yield Sample("manager_disk_free_bytes", disk.free)
    yield Sample("manager_disk_bytes", disk.total)
