"""A capture that stands by: it waits until it may write a trail that captures on several machines share (`trail/lease.py`).

What does not live here: who may write it, and shutting out who wrote it before (`trail/`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.config.hops import NEEDS_SHARED_TRAIL, Hop
from anabranch.errors import ConfigError, TrailLocked
from anabranch.model.condition import Waiting
from anabranch.trail.claims import Claim, holder
from anabranch.trail.lease import Lease, is_shared

if TYPE_CHECKING:
    from anabranch.job.children import Child
    from anabranch.state.store import StateStore
    from anabranch.view.job_view import JobView

PATIENCE_S = 10.0  # of a capture that does not stand by: one that was just stopped may still hold the trail


def stand_by(job: JobView) -> None:
    """Let the job stand by, as if its file said so. Raises ConfigError for one whose trail is its own."""
    if job.config.hop is not Hop.CAPTURE:
        raise ConfigError("the job has no trail that another capture could write", job=job.config.name, hint=BY_URL)
    capture = job.config.capture.model_copy(update={"standby": True})
    job.config = job.config.model_copy(update={"capture": capture})


BY_URL = f"--standby needs {NEEDS_SHARED_TRAIL}"


def await_turn(job: JobView, state: StateStore, stop: Callable[[], bool]) -> Lease | None:
    """Return the lease of a trail that captures share, once this one may write it; None for a trail of one's own, or when
    stopped before. Raises TrailLocked where another one writes and this one does not stand by."""
    capture = job.config.capture
    if not capture.standby and not is_shared(job.trail):
        return None
    told = log.get(job=job.config.name)
    waited: list[Claim] = []

    def tell(claim: Claim) -> None:
        waited.append(claim)
        told.info("capture_stands_by", holder=claim.who, epoch=claim.epoch)
        since = f" since {claim.since}" if claim.since else ""
        text = f"for the trail, which {claim.who} writes (epoch {claim.epoch}{since})"
        state.phase("waiting", text, Waiting.STANDBY)

    patience = math.inf if capture.standby else PATIENCE_S
    try:
        lease = Lease.take(job.trail, float(capture.lease_s), timeout=patience, stop=stop, tell=tell)
    except TrailLocked:
        if stop():
            return None
        raise
    if waited:
        told.warning("trail_taken_over", before=waited[-1].who, epoch=lease.epoch)
        state.phase("waiting", "for capture to begin", Waiting.BEGIN)
    return lease


def is_ours(job: JobView, captures: Sequence[Child]) -> bool | None:
    """Return whether a capture of this `run` has the lease; None where nobody is seen to have it, as while a capture that ended
    starts again."""
    claim = None
    with suppress(OSError):  # the next look tells
        claim = holder(job.trail)
    if claim is None:
        return None
    return any(child.process is not None and claim.is_of(child.process.pid) for child in captures)
