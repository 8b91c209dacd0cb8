"""Directories for the files of tests' servers: in memory where there is room, because there files are made and removed cheaply.

A test's PostgreSQL database is 300 files, made and dropped again. An ext4 without a journal gives the place of a removed file
to no other one for minutes, and passes all of them for each new file: a database then costs 30 to 150 ms of processor, in
memory 13. What a killed process left in memory is removed by the next one that asks, and by `make clean`. What does not live
here: servers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
# Bytes for one process. Its servers write 1.2 GB by the largest tests; beside them 3 GB are for what runs (Makefile).
ROOM, WITH_WHAT_RUNS = 3 << 30, 6 << 30
CGROUPS = Path("/sys/fs/cgroup")
VARIABLE = "ANABRANCH_TEST_DIRECTORY"
PREFIX = "anabranch-servers-"
# Shared memory of a PostgreSQL. https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-DYNAMIC-SHARED-MEMORY-TYPE
SEGMENTS = "PostgreSQL.*"
PROCESSES = Path("/proc")


@contextmanager
def server_files(processes: int = 1, memory: Path = MEMORY) -> Iterator[Path]:
    """Make a directory that the account of servers can enter, and remove it at the end. `processes` ask for one each.

    It is in the directory that ANABRANCH_TEST_DIRECTORY or TMPDIR names; where neither is set in memory, or in the usual
    temporary directory where memory has no room for all `processes`."""
    with _alone(memory):  # a directory without its lock would be taken for one that was left
        remove_left(memory)
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
    return memory if _has_room(memory, processes) else None


@contextmanager
def _alone(memory: Path) -> Iterator[None]:
    """Let only one process at a time be inside, of any user."""
    try:
        handle = os.open(memory, os.O_RDONLY)
    except OSError:  # there is no such place: nothing is looked for, and nothing left there
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _has_room(memory: Path, processes: int) -> bool:
    """Return whether so many processes may write there, without taking what runs beside them its memory."""
    try:
        there = os.statvfs(memory)
        told = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
    except (OSError, IndexError):
        return False
    free = min([int(told) << 10, *_left_by_groups()])
    is_free = there.f_bavail * there.f_frsize >= processes * ROOM and free >= processes * WITH_WHAT_RUNS
    return is_free and os.access(memory, os.W_OK)


def _left_by_groups() -> Iterator[int]:
    """Yield the bytes that a container may still use, by the first or the second form of control groups; nothing where no limit
    is told. https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files"""
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # no such form, or "max"
            yield int((CGROUPS / limit).read_text()) - int((CGROUPS / usage).read_text())


def remove_left(memory: Path = MEMORY, processes: Path = PROCESSES) -> None:
    """Remove our directories whose process is gone, which held their lock, and what killed servers left beside them."""
    _remove_segments(memory, processes)
    for place in memory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or still used
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(handle)


def _remove_segments(memory: Path, processes: Path) -> None:
    """Remove shared memory of servers that were killed, where no PostgreSQL runs any more by the account that it is of. Files
    are looked for first: what is younger than the answer is not among them."""
    found: list[tuple[Path, int]] = []
    for place in memory.glob(SEGMENTS):
        with contextlib.suppress(OSError):
            found.append((place, place.stat().st_uid))
    if not found:
        return
    running: set[int] = set()
    for status in processes.glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            told = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if told["Name"].strip().startswith("postgres"):
                running.add(int(told["Uid"].split()[1]))
    for place, account in found:
        if account in _accounts() - running:
            with contextlib.suppress(OSError):
                place.unlink()


def _accounts() -> set[int]:
    """Return the accounts that servers of ours run by."""
    accounts = {os.geteuid()}
    if os.geteuid() == 0:
        with contextlib.suppress(KeyError):
            accounts.add(pwd.getpwnam("nobody").pw_uid)
    return accounts


if __name__ == "__main__":
    remove_left()
