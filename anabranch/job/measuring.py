"""The metrics of a job, from what `status` knows and from the trail's files. Works while the job runs and while it does not.

What does not live here: their names and text form (`model/metrics.py`), the listener of `run` (`scraping.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anabranch.job.status import status
from anabranch.model.metrics import BUSY, RESTARTS, Sample, text_of
from anabranch.model.position import Position
from anabranch.model.status import PlaceStatus, Status, TableStatus, TargetStatus
from anabranch.model.table_life import Life
from anabranch.state.store import StateStore
from anabranch.trail.format import SegmentName
from anabranch.trail.reader import exists
from anabranch.trail.storage import LocalStorage

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

CAPTURED = {
    "transactions_completed": "capture_transactions_total",
    "changes_read": "capture_changes_total",
    "bytes_written": "capture_bytes_total",
}
APPLIED = {
    "transactions_applied": "apply_transactions_total",
    "changes_applied": "apply_changes_total",
    "epochs": "apply_epochs_total",
}
STATES = (*(str(life) for life in Life), "dropped")


def metrics_text(job: JobView, found: Status | None = None) -> str:
    """Return the job's metrics in Prometheus' text form. Ends that are away leave theirs out. `found`: a status of this moment,
    where there is one."""
    return text_of(job.config.name, _samples(job, found))


def _samples(job: JobView, found: Status | None) -> Iterator[Sample]:
    yield from of_status(status(job) if found is None else found)
    yield from _of_trail(job)
    yield from _of_run(job)


def of_status(found: Status) -> Iterator[Sample]:
    """Yield what a status tells."""
    yield Sample("job_active", found.state.active)
    yield Sample("job_state", 1, {"state": found.state.state, "sub_state": found.state.sub_state})
    yield Sample("ends_unreachable", len(found.unreachable or ()))
    for part in found.parts:
        labels = {"part": part.name, "target": part.target or ""}
        yield Sample("part_running", 1, labels)
        yield Sample("part_start_time_seconds", datetime.fromisoformat(part.since).timestamp(), labels)
    yield Sample("waits", len(found.waits))
    yield from _counted(found.counters, CAPTURED, {})
    if found.counters and "open_transactions" in found.counters:
        yield Sample("capture_open_transactions", found.counters["open_transactions"])
    if found.log_held is not None:
        yield Sample("source_log_held_bytes", found.log_held.bytes)
    for target in found.targets:
        yield from _of_target(target, found.positions.written)


def _counted(
    counters: Mapping[str, Any] | None, names: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[Sample]:
    since_start = counters["since_start"] if counters else {}
    yield from (Sample(metric, since_start[name], labels) for name, metric in names.items() if name in since_start)


def _of_target(target: TargetStatus, written: PlaceStatus | None) -> Iterator[Sample]:
    at = {"target": target.name}
    if target.lag.seconds is not None:
        yield Sample("lag_seconds", target.lag.seconds, at)
    if target.lag.bytes is not None:
        yield Sample("lag_bytes", target.lag.bytes, at)
    for stage in target.lag.stages:
        if stage.seconds is not None:
            yield Sample("lag_stage_seconds", stage.seconds, {**at, "stage": stage.stage})
        if stage.bytes is not None:
            yield Sample("lag_stage_bytes", stage.bytes, {**at, "stage": stage.stage})
    if target.applied is not None and written is not None:
        behind = _sequence(written) - _sequence(target.applied)
        yield Sample("lag_transactions", max(0, behind), at)
    yield from _counted(target.counters, APPLIED, at)
    if target.slow_epochs:
        yield Sample("apply_slow_epochs_total", target.slow_epochs["count"], at)
    if target.applied is None and not target.tables:  # it has not begun, or is away: no table is in no state
        return
    counts = Counter(table.state for table in target.tables)
    yield from (Sample("tables", counts[state], {**at, "state": state}) for state in STATES)
    for table in target.tables:
        yield from _of_table(table, {**at, "table": table.source})


def _of_table(table: TableStatus, at: Mapping[str, str]) -> Iterator[Sample]:
    if table.state == Life.PARKED:
        yield Sample("table_parked", 1, at)
    if table.undecided is not None:
        yield Sample("table_undecided", 1, at)
    yield Sample("table_changes_applied_total", table.changes_applied, at)
    yield Sample("table_rows_loaded", table.rows_loaded, at)
    if table.set_aside:
        yield Sample("table_rows_set_aside", table.set_aside, at)
    if table.conflicts:
        yield Sample("table_conflicts_total", table.conflicts, at)
    if table.left_out:
        yield Sample("table_columns_left_out", len(table.left_out), at)


def _sequence(place: PlaceStatus) -> int:
    return Position.parse(place.text).sequence


def _of_trail(job: JobView) -> Iterator[Sample]:
    if not exists(job.trail):
        return
    sizes = []
    for name in filter(SegmentName.parse, LocalStorage(job.trail).names()):
        with suppress(FileNotFoundError):  # it was pruned, or packed, at this moment
            sizes.append((job.trail / name).stat().st_size)
    yield Sample("trail_bytes", sum(sizes))
    yield Sample("trail_segments", len(sizes))


def _of_run(job: JobView) -> Iterator[Sample]:
    """Yield what state.db counts and `status` does not show."""
    with closing(StateStore(job.config.home)) as store:
        restarts = store.snapshot()["counters"].get("run", {}).get(RESTARTS)
    if restarts is not None:
        yield Sample("part_restarts_total", restarts["value"])
    for view in job.targets():
        with closing(StateStore(view.target_home)) as store:
            busy = store.snapshot()["gauges"].get("apply", {}).get(BUSY)
        if busy is not None:
            name = view.target if view.is_one_of_several else str(view.endpoint)
            yield Sample("apply_busy_seconds_total", busy["value"] / 1000, {"target": name})
