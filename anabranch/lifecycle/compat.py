"""Carry out what `[compat]` of the job file asks for at the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import ShowsProgress
from anabranch.errors import StateError, TargetError, TargetUnavailable

if TYPE_CHECKING:
    from anabranch.contracts import TargetStore
    from anabranch.view.job_view import JobView


def show_progress(job: JobView, store: TargetStore) -> None:
    """Show programs of exBase how far jobs are, where the job file asks for it and the state is there. What the target refuses
    is a warning in the log: rows go on without it, and preflight fails."""
    if not job.config.compat.exbase:
        return
    if not isinstance(store, ShowsProgress):
        problem = "this target has no place for kafkaoffset"
        log.get(job=job.config.name).warning("progress_not_shown", problem=problem, hint="leave [compat] exbase out")
        return
    if not store.exists():
        return
    try:
        store.show_progress()
    except TargetUnavailable:
        raise
    except (StateError, TargetError) as error:
        log.get(job=job.config.name).warning("progress_not_shown", problem=error.message, hint=error.hint)
