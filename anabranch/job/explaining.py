"""Explanation of a target's lag, for `status`: gathers from state.db, trail and log what stages and culprit are told by.

The work is bounded: places, gauges, samples, and of the trail its end and one transaction. What does not live here: how the
lag is split (`lag_stages.py`), who is named (`lag_culprit.py`), the lag itself (`lag.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anabranch.errors import TrailError
from anabranch.job.lag import Lag, Oldest, lives
from anabranch.job.lag_culprit import Seen, culprit
from anabranch.job.lag_eta import NEAR_S, Eta, Point, estimated, points_of
from anabranch.job.lag_stages import (
    READ_NOT_WRITTEN,
    SOURCE_NOT_READ,
    STAGES,
    WAITING_FOR_LOCKS,
    WRITTEN_NOT_PLANNED,
    Distances,
    Life,
    bytes_by_stage,
    seconds_by_stage,
    written_at,
)
from anabranch.job.states import Condition, condition_of
from anabranch.model.metrics import EPOCH_BEGAN, EPOCH_END
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.model.status import EtaStatus, LagStatus, StageStatus, TableStatus
from anabranch.state.store import BUILDING, PlaceSample, StateStore, time_text
from anabranch.trail.reader import TrailEnd
from anabranch.view.opened import source_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

NO_ETA = Eta(None, None, None)
LONGEST_S = 366 * 86400.0  # of an estimate: a backlog that hardly falls has none
UNKNOWN_SINCE = (
    "since when the trail has the oldest transaction is not known: its whole age counts to written_not_planned"
)


@dataclass(frozen=True)
class Known:
    """All that `status` has gathered of a target. `end`: the trail's; `reached`: up to where the target has everything."""

    job: JobView
    snapshot: Mapping[str, Any]
    checkpoint: Checkpoint | None
    end: TrailEnd | None
    reached: Position | None
    source_end: LogMark | None
    sizes: Mapping[str, int]
    tables: Sequence[TableStatus]
    now: float


def explained(known: Known, lag: Lag, bare: LagStatus) -> LagStatus:
    """Return the lag with its stages and its culprit."""
    samples = _samples(known.job)
    oldest = _oldest(known, lag)
    epoch = _epoch(known)
    held = [wait for wait in _waits(known.snapshot) if wait["part"] == "apply"]
    wait = min(held, key=lambda one: str(one["since"]), default=None)
    condition = condition_of(known.snapshot, is_idle=False)
    life = Life(
        known.now,
        bare.seconds,
        oldest is not None,
        _read(known) is not None,
        written_at(samples.get("written", []), oldest.position.sequence) if oldest else None,
        epoch[1] if epoch else None,
        _seconds(wait["since"]) if wait else None,
    )
    seconds = seconds_by_stage(life)
    sizes = bytes_by_stage(_distances(known, lag, epoch[0] if epoch else None), wait is not None)
    estimate = _estimate(known, samples, bare) if condition.state == "streaming" else NO_ETA
    whys = _whys(known, condition, seconds)
    if estimate.seconds is None and (estimate.rate or 0) < 0:
        most = max(STAGES, key=lambda one: sizes[one] or 0)
        whys.setdefault(most, f"the target falls behind by {-round(estimate.rate or 0):,} bytes/s")
    stages = [StageStatus(one, seconds[one], sizes[one], whys.get(one)) for one in STAGES]
    named = culprit(_seen(known, lag, condition, bare, oldest, epoch))
    return replace(bare, stages=stages, culprit=named, eta=_eta(estimate, known.now))


def _seen(
    known: Known,
    lag: Lag,
    condition: Condition,
    bare: LagStatus,
    oldest: Oldest | None,
    epoch: tuple[int, float] | None,
) -> Seen:
    """Return the facts among which the culprit is."""
    snapshot = known.snapshot
    altered: list[str] = []
    with suppress(TrailError):
        altered = lag.altered(oldest.position.sequence) if epoch and oldest else []
    return Seen(
        condition,
        bare.seconds,
        _waits(snapshot),
        known.tables,
        snapshot["progress"],
        _inside(snapshot),
        oldest,
        time_text(round(epoch[1] * 1_000_000)) if epoch and oldest else None,
        altered,
        next((one for one in snapshot.get("doing", ()) if one["kind"] == BUILDING), None),
        snapshot["slow_epochs"],
        time_text(known.checkpoint.commit_time) if known.checkpoint else None,
    )


def _estimate(known: Known, samples: Mapping[str, list[PlaceSample]], bare: LagStatus) -> Eta:
    """Estimate when the target will have caught up, from where positions were in the last hours."""
    later = known.source_end
    if bare.bytes is None or bare.seconds is None or later is None:
        return NO_ETA
    order = source_of(known.job).order

    def far(native: str) -> int | None:
        return order.bytes_between(native, later, known.sizes) if native else None

    applied, written, ends = (samples.get(kind, []) for kind in ("applied", "written", "log_end"))
    points = points_of(applied, written, ends, far, known.now)
    return estimated([*points, Point(known.now, bare.bytes, bare.seconds <= NEAR_S)], known.now)


def _eta(found: Eta, now: float) -> EtaStatus | None:
    if found.seconds is None or found.seconds > LONGEST_S:
        return None
    seconds = round(found.seconds, 1)
    at = time_text(round((now + seconds) * 1_000_000))
    return EtaStatus(at, seconds, None if found.error is None else round(found.error, 3))


def _samples(job: JobView) -> dict[str, list[PlaceSample]]:
    """Return samples of positions: of capture, which is the job's, and of the target's own apply."""
    found: dict[str, list[PlaceSample]] = {}
    for home in dict.fromkeys((job.config.home, job.target_home)):
        with closing(StateStore(home)) as store:
            found |= store.samples()
    return found


def _oldest(known: Known, lag: Lag) -> Oldest | None:
    """Return the first transaction of the trail that is not applied; None where there is none, or the trail lacks it."""
    if known.checkpoint is None or known.end is None:
        return None
    applied = known.checkpoint.position.sequence
    with suppress(TrailError):
        return lag.oldest(applied) if known.end.position.sequence > applied else None
    return None


def _epoch(known: Known) -> tuple[int, float] | None:
    """Return the sequence up to which the epoch goes that apply is at work on, and when it began; None without one."""
    gauges = known.snapshot["gauges"].get("apply", {})
    if known.checkpoint is None or EPOCH_END not in gauges or not lives(known.snapshot, "apply"):
        return None
    upto = int(gauges[EPOCH_END]["value"])
    return (upto, gauges[EPOCH_BEGAN]["value"] / 1000) if upto > known.checkpoint.position.sequence else None


def _read(known: Known) -> str | None:
    """Return the place that capture has read where that is ahead of the trail's end."""
    read = known.snapshot["positions"].get("read")
    if read is None or known.end is None or not lives(known.snapshot, "capture"):
        return None
    position = Position.parse(read["text"])
    return position.native if position.sequence > known.end.position.sequence else None


def _distances(known: Known, lag: Lag, planned: int | None) -> Distances:
    """Return how far each place is from the source's end; where that is away, from the trail's end."""
    end, reached = known.end, known.reached
    if end is None or reached is None or not end.resume:
        return Distances(None, None, None, None)
    later = known.source_end or LogMark(end.position.native, end.resume)
    order = source_of(known.job).order

    def far(native: str | None) -> int | None:
        return order.bytes_between(native, later, known.sizes) if native else None

    applied, written = far(reached.native), far(end.position.native)
    at_work = _native_at(lag, min(planned, end.position.sequence)) if planned else reached.native
    read = far(_read(known) or end.position.native) if known.source_end else None
    return Distances(applied, far(at_work), written, read)


def _native_at(lag: Lag, sequence: int) -> str | None:
    with suppress(TrailError):
        return lag.native_at(sequence)
    return None


def _whys(known: Known, condition: Condition, seconds: Mapping[str, float | None]) -> dict[str, str]:
    """Return why something stays in a stage, for people, of stages where that is known."""
    snapshot = known.snapshot
    found: dict[str, str] = {}
    if inside := _inside(snapshot):
        found[SOURCE_NOT_READ] = f"capture is inside of a transaction, with {inside:,} row changes so far"
    elif not lives(snapshot, "capture"):
        found[SOURCE_NOT_READ] = "capture is not running"
    elif seconds[SOURCE_NOT_READ] is None and seconds[WRITTEN_NOT_PLANNED] is not None:
        found[SOURCE_NOT_READ] = UNKNOWN_SINCE
    waits = condition.detail if condition.state == "waiting" else ""
    if condition.sub_state == "source":
        found[SOURCE_NOT_READ] = f"capture waits {waits}"
    if condition.sub_state == "room" and _read(known):
        found[READ_NOT_WRITTEN] = waits
    told = [f"{wait['part']} waits {wait['text']}" for wait in _waits(snapshot) if wait["part"] == "apply"]
    if told:
        found[WAITING_FOR_LOCKS] = "; ".join(told)
    if not lives(snapshot, "apply"):
        found[WRITTEN_NOT_PLANNED] = "apply is not running"
    elif waits and not told:
        found[WRITTEN_NOT_PLANNED] = f"apply waits {waits}"
    return found


def _waits(snapshot: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [wait for wait in snapshot["waits"] if lives(snapshot, wait["part"])]


def _inside(snapshot: Mapping[str, Any]) -> int:
    """Return the row changes of the large transaction that capture is inside of."""
    told = snapshot["gauges"].get("capture", {}).get("open_changes")
    return int(told["value"]) if told and lives(snapshot, "capture") else 0


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
