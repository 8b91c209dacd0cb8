"""Makes what a job's file says into the options of its ends and its trail."""

from __future__ import annotations

import math
import os
import re
import uuid
from typing import TYPE_CHECKING

from anabranch.model.column_changes import TOLD_BY_ROWS
from anabranch.model.endpoint import EndLimits
from anabranch.trail.retention import RetentionLimits

if TYPE_CHECKING:  # contracts take time to come, and `status` goes without them
    from anabranch.contracts import LogOptions, ValueRules
    from anabranch.view.job_view import JobView

PATIENT = "ANABRANCH_PATIENT"  # set for load and apply: a target that is away is waited for as long as it takes
READER_ID_FLOOR = 1 << 20  # derived ids stay clear of the small numbers that people give their servers


def source_limits(job: JobView, interval: float = 10.0) -> EndLimits:
    return job.config.retry.source.limits(interval, is_patient=False)


def target_limits(job: JobView) -> EndLimits:
    return job.config.retry.target.limits(EndLimits().interval, bool(os.environ.get(PATIENT)))


def set_up_seconds(job: JobView) -> float:
    """Return how long others may be in the way of what prepares the source, before a log begins."""
    wanted = job.config.retry.source.lock_s
    return math.inf if wanted is None or wanted < 0 else float(wanted)


def value_rules(job: JobView) -> ValueRules:
    return job.rules.values


def log_options(job: JobView, job_uuid: str) -> LogOptions:
    from anabranch.contracts import LogOptions

    capture = job.config.capture
    derived = READER_ID_FLOOR + uuid.UUID(job_uuid).int % ((1 << 31) - READER_ID_FLOOR)
    name = name_at_source(job.config.name, job_uuid)
    return LogOptions(
        derived,
        capture.flush_interval_ms / 1000,
        value_rules(job),
        name,
        decoding=capture.decoding,
        leave_out=frozenset(job.config.source.leave_out),
        follows=(job.config.followed_anywhere & TOLD_BY_ROWS) | job.config.followed_everywhere,
    )


def name_at_source(job: str, job_uuid: str) -> str:
    """Name what the job has at the source: small letters, digits and underscores, used by no other job of this name."""
    readable = re.sub(r"[^a-z0-9]+", "_", job.lower())[:40].strip("_")
    return f"anabranch_{readable}_{job_uuid[:8]}"


def limits_of(job: JobView) -> RetentionLimits:
    capture = job.config.capture
    most = None if capture.retain_mb is None else capture.retain_mb * 1024 * 1024
    hours, size = job.config.trail.load_retain_hours, job.config.trail.load_limit_gb
    kept = None if hours is None else float(hours * 3600), None if size is None else round(size * 1e9)
    return RetentionLimits(capture.retain_hours * 3600, most, capture.retain_segments, *kept)
