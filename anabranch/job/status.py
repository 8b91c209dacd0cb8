"""`status`: the job's picture from state.db, trail and target; works while it runs and while it does not."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.config.hops import Hop
from anabranch.errors import SourceError, TargetError, TrailError
from anabranch.job.counters import counters
from anabranch.job.explaining import Known, explained
from anabranch.job.lag import Lag, lives
from anabranch.job.states import Condition, condition_of, worst
from anabranch.job.undecided import undecided
from anabranch.model.condition import Waiting
from anabranch.model.position import HeldLog, LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.model.status import (
    EncryptionStatus,
    LagStatus,
    LoadFilesStatus,
    PartStatus,
    PhaseStatus,
    PlaceStatus,
    PositionsStatus,
    PreparedStatus,
    SeveralStatus,
    Status,
    TableStatus,
    TargetStatus,
    UndecidedStatus,
    VerifiedStatus,
    VouchedStatus,
)
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.state.store import StateStore, time_text
from anabranch.trail import load_keeping, load_readers
from anabranch.trail.keys import FILE as KEYS
from anabranch.trail.reader import TrailEnd, TrailReader, exists
from anabranch.trail.staging import waiting
from anabranch.trail.storage import LocalStorage
from anabranch.version import __version__
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, source_of, store_of
from anabranch.view.options import limits_of, name_at_source
from anabranch.view.refusals import told

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

VERSION = 1
HOLD_UP = ("preflight", "waiting")  # phases of the job as a whole in which no target goes on
NOBODY: dict[str, Any] = {
    "phase": "waiting",
    "detail": "for its load and apply, which are not running",
    "about": Waiting.PART,
    "phase_since": None,
    "phase_error": None,
}
PHASES = ("preflight", "waiting", "loading", "draining", "streaming", "stopped")  # the job's is the first


def status(job: JobView) -> Status:
    """Gather what is known of a job now; raises nothing for ends that are away."""
    pictures = [(view, _now(view)) for view in job.targets()]
    snapshot = _now(job) if len(pictures) > 1 else pictures[0][1]
    errors: list[str] = []
    # The source is asked before the trail's end is read: the trail can have everything that is seen here.
    source_end, sizes, held = _source(job, errors)
    end = _trail_end(job)
    targets = [_target(view, found, end, source_end, sizes, errors) for view, found in pictures]
    conditions = [
        (view.target, _elsewhere(condition_of(found, _is_idle(found, end, one), view.streams_by), view, one))
        for (view, found), one in zip(pictures, targets, strict=True)
    ]
    if len(targets) > 1:
        states = (condition.shown() for _, condition in conditions)
        targets = [replace(one, state=state) for one, state in zip(targets, states, strict=True)]
    every = [snapshot, *(found for _, found in pictures)]
    return Status(
        version=VERSION,
        software_version=__version__,
        at=time_text(time.time_ns() // 1000),
        job=job.config.name,
        state=worst(conditions).shown(),
        phase=_phase(targets, snapshot),
        parts=_parts(every),
        positions=PositionsStatus(
            _read(snapshot, end), _place(end.position, end.commit_time) if end else None, _mark(source_end)
        ),
        counters=counters(snapshot, "capture"),
        targets=targets,
        waits=_waits(every),
        last_error=_last_error(every),
        prepared=[PreparedStatus(one.xid, time_text(one.time), one.rows) for one in waiting(job.trail)],
        log_held=held,
        encryption=_encryption(job, errors),
        load_files=_load_files(job),
        unreachable=errors,
    )


class Picture:
    """Reader of what state.db says of a job as one target sees it: the state of the whole job combined with the
    target's own."""

    def __init__(self, job: JobView) -> None:
        self._whole = StateStore(job.config.home)
        self._own = StateStore(job.target_home) if job.is_one_of_several else None
        self._target, self._needs = job.target, job.streams_by

    def now(self) -> dict[str, Any]:
        whole = self._whole.snapshot()
        if self._own is None:
            return as_seen(whole, self._needs)
        own = self._own.snapshot()
        for key in ("parts", "gone"):
            own[key] = [{**part, "target": self._target} for part in own[key]]
        told = whole if whole["phase"] in HOLD_UP else own
        if told is own and whole["parts"] and not own["parts"]:
            told = NOBODY
        merged = {key: {**whole[key], **own[key]} for key in ("positions", "counters", "gauges", "ends", "errors")}
        told = {key: told[key] for key in NOBODY}
        found = {**own, **merged, **told, **{key: [*whole[key], *own[key]] for key in ("parts", "gone")}}
        return as_seen(found, self._needs)

    def close(self) -> None:
        self._whole.close()
        if self._own is not None:
            self._own.close()


def _now(job: JobView) -> dict[str, Any]:
    with closing(Picture(job)) as found:
        return found.now()


def _parts(snapshots: Sequence[dict[str, Any]]) -> list[PartStatus]:
    """Return every part once: several snapshots may contain the same process."""
    found = {
        (p["pid"], p["host"]): PartStatus(p["name"], p.get("target"), p["pid"], p["host"], p["since"], p.get("how"))
        for snapshot in snapshots
        for p in snapshot["parts"]
    }
    return list(found.values())


def _phase(targets: Sequence[TargetStatus], snapshot: dict[str, Any]) -> PhaseStatus:
    """Return the phase of the job; of several targets, that of the one furthest from streaming. A stopped target counts
    only if all are stopped."""
    several = [(one.name, one.several) for one in targets if one.several]
    if not several:
        return PhaseStatus(snapshot["phase"], snapshot["detail"])
    name, last = min(several, key=lambda one: PHASES.index(one[1].phase))
    return PhaseStatus(last.phase, f"{name}: {last.detail}" if last.detail else "")


def _last_error(snapshots: Sequence[dict[str, Any]]) -> Any:
    found = max((s["last_error"] for s in snapshots if s["last_error"]), key=lambda one: str(one["at"]), default=None)
    return found and {**found["facts"], **{key: value for key, value in found.items() if key != "facts"}}


def _is_idle(snapshot: dict[str, Any], end: TrailEnd | None, target: TargetStatus) -> bool:
    """Return whether everything that was read is applied. If the source says that it has more, that is still on its
    way."""
    if end is None or target.applied is None:
        return False
    inside = snapshot["gauges"].get("capture", {}).get("open_changes", {"value": 0})
    is_applied = Position.parse(target.applied.text).sequence >= end.position.sequence
    return is_applied and not inside["value"] and target.lag.seconds in (0.0, None)


def _elsewhere(condition: Condition, job: JobView, target: TargetStatus) -> Condition:
    """Add a hint where this home has never seen the job run, but the target has been applied to: the job ran with
    another home."""
    if condition.sub_state != "never_started":
        return condition
    if not (target.applied or target.tables):
        root = job.config.home.parent
        told = f"nothing has run here: {root} does not exist, where jobs have their homes ($ANABRANCH_HOME)"
        return condition if root.is_dir() else condition._replace(detail=told)
    told = (
        f"not in {job.config.home} on {os.uname().nodename}, but the target has been applied to: it ran with another home; "
        "anabranch trace JOB --at-target says where"
    )
    return condition._replace(detail=told)


def _encryption(job: JobView, errors: list[str]) -> EncryptionStatus | None:
    if not (job.config.home / KEYS).exists() or not exists(job.trail):
        return None
    from anabranch.trail.rekeying import encryption  # of the few jobs that have one

    try:
        found = encryption(LocalStorage(job.trail))
    except TrailError as error:
        errors.append(told(job, error))
        return None
    return EncryptionStatus(found.key or None, found.keys, found.plain) if found else None


def _load_files(job: JobView) -> LoadFilesStatus | None:
    """Return what there is of loads in the trail of a job that captures into one, and why; None where nothing is."""
    if job.config.hop is not Hop.CAPTURE or not (size := load_readers.size(job.trail)):
        return None
    awaited: Counter[str] = Counter()
    for load in load_readers.unread(job.trail):
        awaited.update(name for name in (*load.awaited, *load.left) if name != load_keeping.READER)
    kept = [one for one in load_keeping.kept(job.trail) if not one.is_theirs]
    until = load_keeping.kept_until(job.trail, kept, limits_of(job).load_seconds)
    shown = None if until is None else time_text(round(until * 1_000_000))
    return LoadFilesStatus(size, dict(sorted(awaited.items())), len(kept), sum(one.bytes for one in kept), shown)


def _trail_end(job: JobView) -> TrailEnd | None:
    if not exists(job.trail):
        return None
    with TrailReader(job.trail) as trail:
        return trail.end()


def _source(job: JobView, errors: list[str]) -> tuple[LogMark | None, Mapping[str, int], HeldLog | None]:
    """Return the end of the source's log, the sizes of the log's files, and what the source keeps of the log for the
    job."""
    job_uuid = trail_uuid(job)
    try:
        with catalog_of(source_of(job)) as catalog:
            held = catalog.log.held(name_at_source(job.config.name, job_uuid)) if job_uuid else None
            return catalog.mark(), catalog.log.log_sizes(), held
    except (SourceError, TargetError) as error:
        errors.append(told(job, error))
        return None, {}, None


def _target(
    job: JobView,
    snapshot: dict[str, Any],
    end: TrailEnd | None,
    source_end: LogMark | None,
    sizes: Mapping[str, int],
    errors: list[str],
) -> TargetStatus:
    checkpoint: Checkpoint | None = None
    tables: list[TableStatus] = []
    try:
        with store_of(job) as store:
            if store.exists():
                checkpoint = store.jobs.checkpoint(job.config.name)
                verified = {one.source: one for one in store.verifications.verified(job.config.name)}
                states = sorted(store.states.tables(job.config.name, whole=False).items())
                asked = undecided(store, job.config.name, (state for _, state in states))
                tables = [_table(s, snapshot, verified.get(table), asked.get(table)) for table, s in states]
    except (SourceError, TargetError) as error:
        errors.append(told(job, error))
    reached = _reached(checkpoint, end)
    size = _lag_bytes(job, reached, source_end, sizes)
    lag = Lag(job.trail)
    seconds = 0.0 if size == 0 else lag.seconds(snapshot, checkpoint, _is_all_read(job, end, source_end))
    known = Known(
        job, snapshot, checkpoint, end, reached[0] if reached else None, source_end, sizes, tables, time.time()
    )
    shown = explained(known, lag, LagStatus(seconds, size))
    lag.close()
    return TargetStatus(
        name=job.target if job.is_one_of_several else str(job.endpoint),
        several=_several(job, snapshot) if job.is_one_of_several else None,
        applied=_place(*reached) if reached else None,
        lag=shown,
        tables=tables,
        counters=counters(snapshot, "apply"),
        slow_epochs=snapshot.get("slow_epochs"),
        consistency="between_barriers" if job.config.apply.commit_order == "relaxed" else None,
    )


def _several(job: JobView, snapshot: dict[str, Any]) -> SeveralStatus:
    return SeveralStatus(str(job.endpoint), snapshot["phase"], snapshot["detail"], _last_error([snapshot]))


def rows_loaded(state: TableState, snapshot: dict[str, Any]) -> int:
    """Return how many rows a table's load has copied. A target that takes all of a table at once has no state of it before."""
    is_coming = state.is_open and snapshot["phase"] == "loading"
    told = snapshot["progress"].get(str(state.source), {}).get("done", 0) if state.is_loading or is_coming else 0
    return max(state.rows_loaded, told)


def _table(
    state: TableState,
    snapshot: dict[str, Any],
    verified: Verified | None = None,
    asked: UndecidedStatus | None = None,
) -> TableStatus:
    return TableStatus(
        str(state.source),
        str(state.target),
        "dropped" if state.is_dropped else state.state,
        state.reason,
        rows_loaded(state, snapshot),
        state.changes_applied,
        state.facts.set_aside,
        state.facts.conflicts,
        list(state.facts.not_built),
        _verified(verified) if verified and verified.generation == state.generation else None,
        VouchedStatus(*state.facts.vouched) if state.facts.vouched else None,
        asked,
        list(state.facts.left_out),
    )


def _verified(found: Verified) -> VerifiedStatus:
    return VerifiedStatus(
        found.result,
        time_text(found.at),
        list(found.positions),
        found.rows,
        found.differing,
        found.pending,
        found.is_complete,
        round((found.at - found.began) / 1_000_000, 3),
        found.why,
        found.sample,
        found.place.position if found.place else None,
    )


def _waits(snapshots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the waits of parts that are alive, at a lock or for an older transaction; each once."""
    found: list[dict[str, Any]] = []
    for snapshot in snapshots:
        names = {part["name"] for part in snapshot["parts"]}
        told = [wait for wait in snapshot.get("waits", ()) if wait["part"] in names]
        found += [wait for wait in told if wait not in found]
    return found


def as_seen(snapshot: dict[str, Any], needs: Sequence[str] = ("capture", "apply")) -> dict[str, Any]:
    """Correct state.db's picture where the part that spoke last may be gone: nothing streams without the parts it `needs`."""
    if waits := _waits([snapshot]):
        snapshot = {
            **snapshot,
            "phase": "waiting",
            "detail": "; ".join(f"{wait['part']} waits {wait['text']}" for wait in waits),
            "about": Waiting.OTHERS,
            "phase_since": min(wait["since"] for wait in waits),
            "phase_error": None,
        }
    missing = next((name for name in needs if not lives(snapshot, name)), None)
    if missing is None or snapshot["phase"] not in ("streaming", "draining"):
        return snapshot
    told = {"phase": "waiting", "detail": f"for {missing}, which is not running", "about": Waiting.PART}
    return {**snapshot, **told, "phase_error": None}


def _is_all_read(job: JobView, end: TrailEnd | None, source_end: LogMark | None) -> bool | None:
    """Return whether the trail has everything that the source had; None if that cannot be said."""
    if end is None or source_end is None or not end.resume:
        return None
    try:
        return source_of(job).order.includes(LogMark(end.position.native, end.resume), source_end.native, None)
    except SourceError:  # the log has another name by now: capture reports it
        return None


def _reached(checkpoint: Checkpoint | None, end: TrailEnd | None) -> tuple[Position, int] | None:
    """Return place and time up to which the target has everything. Where nothing is left to apply, that is the trail's end: the
    checkpoint need not move over log without anything for the job."""
    if checkpoint is None:
        return None
    if end is not None and end.position.sequence == checkpoint.position.sequence and end.position.native:
        return end.position, max(end.commit_time, checkpoint.commit_time)
    return checkpoint.position, checkpoint.commit_time


def _lag_bytes(
    job: JobView, reached: tuple[Position, int] | None, source_end: LogMark | None, sizes: Mapping[str, int]
) -> int | None:
    if reached is None or source_end is None or not reached[0].native:
        return None
    order = source_of(job).order
    return order.bytes_between(reached[0].native, source_end, sizes)


def _read(snapshot: dict[str, Any], end: TrailEnd | None) -> PlaceStatus | None:
    """Return what capture has read, where that is ahead of the trail's end (also while the disk is full); else the
    trail's end."""
    read = snapshot["positions"].get("read")
    if end and read and lives(snapshot, "capture") and Position.parse(read["text"]).sequence > end.position.sequence:
        return PlaceStatus(read["text"], read["commit_time"])
    return _place(end.position, end.commit_time) if end else None


def _place(position: Position, commit_time: int) -> PlaceStatus:
    return PlaceStatus(str(position), time_text(commit_time))


def _mark(mark: LogMark | None) -> PlaceStatus | None:
    return PlaceStatus(mark.native, time_text(mark.commit_time)) if mark else None
