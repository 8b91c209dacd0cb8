"""Directories for the files of tests' servers: in memory where there is room, because there files are made and removed cheaply.

A test's PostgreSQL database is 300 files, made and dropped again. An ext4 without a journal gives the place of a removed file
to no other one for minutes, and passes all of them for each new file: a database then costs 30 to 150 ms of processor, in
memory 13. What a killed process left in memory is removed by the next one that asks. What does not live here: servers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.testing.cache import locked

MEMORY = Path("/dev/shm")
ROOM = (
    6 << 30
)  # bytes for one process: 3 GB for what runs (Makefile), and what its servers write, 1.2 GB by the largest tests
VARIABLE = "ANABRANCH_TEST_DIRECTORY"
PREFIX = "anabranch-servers-"


@contextmanager
def server_files(processes: int = 1, memory: Path = MEMORY) -> Iterator[Path]:
    """Make a directory that the account of servers can enter, and remove it at the end. `processes` ask for one each.

    It is in the directory that ANABRANCH_TEST_DIRECTORY or TMPDIR names; where neither is set in memory, or in the usual
    temporary directory where memory has no room for all `processes`."""
    with locked("server-files"):  # a directory without its lock would be taken for one that was left
        _remove_left(memory)
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_parent(processes, memory)))
        place.chmod(0o755)
        handle = os.open(place, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(handle)


def _parent(processes: int, memory: Path) -> Path | None:
    named = os.environ.get(VARIABLE)
    if named or os.environ.get("TMPDIR"):
        return Path(named) if named else None
    return memory if _room(memory) >= processes * ROOM else None


def _room(memory: Path) -> int:
    """Return the bytes that may be written there, which is no more than what the machine has left; 0 where nobody may."""
    try:
        free = os.statvfs(memory)
        told = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
    except (OSError, IndexError):
        return 0
    return min(free.f_bavail * free.f_frsize, int(told) << 10) if os.access(memory, os.W_OK) else 0


def _remove_left(memory: Path) -> None:
    """Remove our directories whose process is gone: it held their lock."""
    for place in memory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or still used
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(handle)
