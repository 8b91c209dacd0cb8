"""The meaning of storage errors for the trail: one table, one place."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.errors import StorageFull, TrailError

SYNC_FAILED = "fsync of"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def writing(what: str, hint: str = "check the disk of the trail") -> Iterator[None]:
    """Translate errors of a write that may be tried again: no room is StorageFull, anything else TrailError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull(f"no room left for {what}") from error
        raise TrailError(f"cannot write {what}: {error.strerror or error}", hint=hint) from error


@contextmanager
def syncing(what: str) -> Iterator[None]:
    """Translate errors of an fsync. After a failed one nobody knows what is on the disk, so it is never tried again."""
    try:
        yield
    except OSError as error:
        raise TrailError(
            f"{SYNC_FAILED} {what} failed: {error.strerror or error}",
            hint="check the disk and start again: what was published is complete, the rest is read again",
        ) from error


def is_sync_failure(error: TrailError) -> bool:
    """Return whether an fsync has failed: then the process has to end, since what is in its memory may not be on the disk."""
    return error.message.startswith(SYNC_FAILED)
