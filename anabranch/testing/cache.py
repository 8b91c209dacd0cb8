"""The directory where fetched software is kept, and the one way to fill it.

A fetched thing is a directory: it is filled beside its place and renamed into it, under a file lock, so that a
half-done download never counts as present and two processes may ask at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import AnabranchError


class ServerUnavailable(AnabranchError):
    """A server, or the software for it, cannot be had here. The message says what is missing, the hint what to do."""


def cache_directory() -> Path:
    """`$ANABRANCH_CACHE`, else `~/.cache/anabranch`; made when absent."""
    named = os.environ.get("ANABRANCH_CACHE")
    place = Path(named) if named else Path.home() / ".cache" / "anabranch"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ServerUnavailable(f"no place for fetched software: {e}", hint="set ANABRANCH_CACHE") from e
    return place.resolve()


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process at a time is inside for `name`; the others wait."""
    with (cache_directory() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetched(name: str, fill: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache; `fill` is called with an empty directory when it is not there yet."""
    cache = cache_directory()
    place = cache / name
    if place.is_dir():
        return place
    with locked(name):
        if place.is_dir():
            return place
        for left_by_a_killed_process in cache.glob(f".{name}.*"):
            shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=cache))
        try:
            fill(scratch)
            scratch.chmod(0o755)
            scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return place
