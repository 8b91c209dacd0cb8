"""Dropping segments of the trail by hand (K12): what nobody needs any more, or, by force, what somebody does.

What does not live here: the rules of it (`trail/retention.py`), and the dropping that capture does by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError, StateError
from anabranch.trail import load_keeping, load_readers, retention
from anabranch.trail.reader import exists
from anabranch.trail.retention import Registered, RetentionLimits
from anabranch.view.options import limits_of
from anabranch.view.refusals import refuse_in_hop

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning. `segments`: names and bytes, in order. `readers`: the readers of the trail, the furthest
    behind first."""

    segments: dict[str, int]
    readers: tuple[Registered, ...]


def prune(job: JobView, hours: float | None, megabytes: int | None, segments: int | None, execute: bool) -> Pruned:
    """Return the segments that every reader has passed and that the limits do not keep; the job's own limits apply
    where None is given. With `execute`, remove them."""
    refuse_in_hop(job, "trail to prune", job.captures)
    _require_trail(job)
    own = limits_of(job)
    limits = RetentionLimits(
        own.seconds if hours is None else hours * 3600,
        own.bytes if megabytes is None else megabytes * 1024 * 1024,
        own.count if segments is None else segments,
    )
    found = Pruned(retention.droppable(job.trail, limits), _readers(job))
    if not execute:
        return found
    dropped = retention.drop_old(job.trail, limits)
    load_readers.sweep(job.trail)
    return replace(found, segments={name: found.segments.get(name, 0) for name in dropped})


def prune_by_force(job: JobView, upto: int) -> tuple[list[str], list[str]]:
    """Remove segments that end at `upto` or before, even if a reader still needs them. Returns the names of the
    segments and of the readers left behind."""
    refuse_in_hop(job, "trail to prune", job.captures)
    _require_trail(job)
    behind = [reader.name for reader in _readers(job) if reader.sequence < upto]
    if not behind:
        raise ConfigError(
            f"nobody is behind {upto}: nothing has to be forced",
            job=job.config.name,
            hint="leave --force and --upto out",
        )
    dropped = retention.drop_needed(job.trail, upto)
    load_keeping.give_up(job.trail)
    return dropped, behind


def _readers(job: JobView) -> tuple[Registered, ...]:
    return tuple(sorted(retention.readers(job.trail).values(), key=lambda reader: reader.sequence))


def _require_trail(job: JobView) -> None:
    if not exists(job.trail):
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
