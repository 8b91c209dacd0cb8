"""Lock for what only one process of a job may do at a time at a target, beside its parts: load a table again, go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.errors import StateError
from anabranch.trail.lock import LockHeld, OsLock, holder

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LOCK = "load-table.lock"  # beside what is kept for the target


@contextmanager
def alone(job: JobView, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Hold the lock. Raises StateError, which says who has it."""
    try:
        job.target_home.mkdir(parents=True, exist_ok=True)
        lock = OsLock(job.target_home / LOCK, stop=stop)
    except LockHeld as held:
        raise StateError(
            f"a table is being loaded again, or the job goes back, by {held}",
            job=job.config.name,
            hint="let that end first",
        ) from None
    try:
        yield
    finally:
        lock.close()


def is_loading_again(job: JobView) -> bool:
    """Return whether somebody holds the lock."""
    return bool(holder(job.target_home / LOCK))
