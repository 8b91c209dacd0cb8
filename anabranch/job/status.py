"""`status`: the job's picture from state.db, trail and target; works while it runs and while it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.errors import SourceError, TargetError
from anabranch.job import ends
from anabranch.job.lag import Lag, lives
from anabranch.model.position import LogMark, Position
from anabranch.model.state import CONFLICTS, Checkpoint, TableState
from anabranch.state.store import StateStore, time_text
from anabranch.trail.reader import TrailEnd, TrailReader, exists
from anabranch.trail.staging import waiting

if TYPE_CHECKING:
    from anabranch.job.job import Job

VERSION = 1


def status(job: Job) -> dict[str, Any]:
    """The shape of `status --json` (docs: reference/status)."""
    state = StateStore(job.config.home)
    snapshot = as_seen(state.snapshot())
    state.close()
    errors: list[str] = []
    source_end, sizes = _source_end(job, errors)  # before the trail's: what is there now was there to be read
    end = _trail_end(job)
    return {
        "version": VERSION,
        "job": job.config.name,
        "phase": snapshot["phase"],
        "detail": snapshot["detail"],
        "parts": [{k: part[k] for k in ("name", "pid", "host")} for part in snapshot["parts"]],
        "positions": {
            "read": _read(snapshot, end),
            "written": _position(end.position, end.commit_time) if end else None,
            "source_end": _mark(source_end),
        },
        "targets": [_target(job, snapshot, end, source_end, sizes, errors)],
        "last_error": snapshot["last_error"],
        **_prepared(job),
        **({"unreachable": errors} if errors else {}),
    }


def _trail_end(job: Job) -> TrailEnd | None:
    if not exists(job.trail):
        return None
    with TrailReader(job.trail) as trail:
        return trail.end()


def _prepared(job: Job) -> dict[str, Any]:
    """Transactions that wait for their commit (K6), where there are any."""
    found = [{"xid": one.xid, "since": time_text(one.time), "rows": one.rows} for one in waiting(job.trail)]
    return {"prepared": found} if found else {}


def _source_end(job: Job, errors: list[str]) -> tuple[LogMark | None, Mapping[str, int]]:
    """And the sizes of the log's files."""
    try:
        catalog = ends.source_of(job).catalog()
        try:
            return catalog.mark(), catalog.log_sizes()
        finally:
            catalog.close()
    except (SourceError, TargetError) as error:
        errors.append(ends.told(job, error))
        return None, {}


def _target(
    job: Job,
    snapshot: dict[str, Any],
    end: TrailEnd | None,
    source_end: LogMark | None,
    sizes: Mapping[str, int],
    errors: list[str],
) -> dict[str, Any]:
    checkpoint: Checkpoint | None = None
    tables: list[dict[str, Any]] = []
    try:
        store = ends.target_of(job).store()
        try:
            if store.exists():
                checkpoint = store.checkpoint(job.config.name)
                tables = [_table(s, snapshot) for _, s in sorted(store.tables(job.config.name).items())]
        finally:
            store.close()
    except (SourceError, TargetError) as error:
        errors.append(ends.told(job, error))
    size = _lag_bytes(job, checkpoint, source_end, sizes)
    lag = Lag(job.trail)
    seconds = 0.0 if size == 0 else lag.seconds(snapshot, checkpoint, _is_all_read(job, end, source_end))
    lag.close()
    return {
        "name": str(job.config.target.endpoint),
        "applied": _position(checkpoint.position, checkpoint.commit_time) if checkpoint else None,
        "lag": {"seconds": seconds, "bytes": size},
        "tables": tables,
        **({"slow_epochs": slow} if (slow := snapshot.get("slow_epochs")) else {}),
    }


def _table(state: TableState, snapshot: dict[str, Any]) -> dict[str, Any]:
    loading = snapshot["progress"].get(str(state.source), {}).get("done", 0) if state.state == "loading" else 0
    return {
        "source": str(state.source),
        "target": str(state.target),
        "state": state.state,
        "reason": state.reason,
        "rows_loaded": max(state.rows_loaded, loading),
        "changes_applied": state.changes_applied,
        **({"conflicts": int(state.facts[CONFLICTS])} if CONFLICTS in state.facts else {}),
        **({"not_built": json.loads(state.facts["not_built"])} if "not_built" in state.facts else {}),
    }


def as_seen(snapshot: dict[str, Any]) -> dict[str, Any]:
    """state.db's picture, where the part that had the last word may be gone: nothing streams without capture and apply."""
    missing = next((name for name in ("capture", "apply") if not lives(snapshot, name)), None)
    if missing is None or snapshot["phase"] not in ("streaming", "draining"):
        return snapshot
    return {**snapshot, "phase": "waiting", "detail": f"for {missing}, which is not running"}


def _is_all_read(job: Job, end: TrailEnd | None, source_end: LogMark | None) -> bool | None:
    """Has the trail all that the source had? None: that cannot be said."""
    if end is None or source_end is None or not end.resume:
        return None
    try:
        return ends.source_of(job).order.includes(LogMark(end.position.native, end.resume), source_end.native, None)
    except SourceError:  # a log that got another name: capture says so
        return None


def _lag_bytes(
    job: Job, checkpoint: Checkpoint | None, source_end: LogMark | None, sizes: Mapping[str, int]
) -> int | None:
    if checkpoint is None or source_end is None or not checkpoint.position.native:
        return None
    order = ends.source_of(job).order
    return order.bytes_between(checkpoint.position.native, source_end, sizes)


def _read(snapshot: dict[str, Any], end: TrailEnd | None) -> dict[str, Any] | None:
    """What capture has read, where it is ahead of the trail's end; also while the disk is full."""
    read = snapshot["positions"].get("read")
    if end and read and lives(snapshot, "capture") and Position.parse(read["text"]).sequence > end.position.sequence:
        return {"text": read["text"], "commit_time": read["commit_time"]}
    return _position(end.position, end.commit_time) if end else None


def _position(position: Any, commit_time: int) -> dict[str, Any]:
    return {"text": str(position), "commit_time": time_text(commit_time)}


def _mark(mark: LogMark | None) -> dict[str, Any] | None:
    return {"text": mark.native, "commit_time": time_text(mark.commit_time)} if mark else None
