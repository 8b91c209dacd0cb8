"""OS locks that end with their process, with pid and host of the holder as text: one writer per trail, one run per job."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anabranch import log
from anabranch.errors import TrailLocked

FILE = "lock"
MAINTENANCE = "maintenance"
MAINTENANCE_S = 60.0  # for others that maintain a trail; then whoever waits says so
TOLD_S = 2.0
LOOKED_AT = 10.0  # seconds that one may be stopped who only looks whether somebody has a lock


class LockHeld(Exception):
    """Another process has the lock; the text says which, as far as it is known."""


class OsLock:
    """Held from construction to `close`, at the latest to the end of the process."""

    def __init__(self, path: Path, timeout: float = 0.0, stop: Callable[[], bool] = lambda: False) -> None:
        """Take the lock. Raises LockHeld after `timeout` seconds, or as soon as `stop` says so."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            self._take(time.monotonic() + timeout, stop)
        except BaseException:  # whatever it was: let go, and passed on
            os.close(self._fd)
            raise
        with suppress(OSError):  # no room: who has it is not said, and it is had
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)

    def _take(self, deadline: float, stop: Callable[[], bool]) -> None:
        looked_at = time.monotonic() + LOOKED_AT
        while not _taken(self._fd, fcntl.LOCK_EX):
            is_looked_at = self._is_looked_at()
            if time.monotonic() >= max(deadline, looked_at if is_looked_at else deadline) or stop():
                raise LockHeld(_holder(self._fd))
            time.sleep(0.002 if is_looked_at else 0.05)

    def _is_looked_at(self) -> bool:
        """Return whether nobody has it but for a moment: who asks `holder`, or this question."""
        if found := _taken(self._fd, fcntl.LOCK_SH):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        return found

    def fileno(self) -> int:
        """Return the file, for a process that inherits it: the lock is held until that one ends, too."""
        return self._fd

    def close(self) -> None:
        """Let go, once: the number of the file may be somebody else's afterwards."""
        handle, self._fd = self._fd, -1
        if handle >= 0:
            os.close(handle)


class WriterLock(OsLock):
    """Whoever has it writes the trail; of a trail that captures on several machines share, whoever has its lease."""

    epoch: int | None = None  # the next one

    def __init__(self, directory: Path, timeout: float = 0.0) -> None:
        try:
            super().__init__(directory / FILE, timeout)
        except LockHeld as held:
            raise TrailLocked(
                f"the trail {directory} is being written by {held}",
                hint="stop that one first: only one capture may write a trail",
            ) from None

    def refuse_overtaken(self) -> None:
        """Do nothing: it cannot be taken from a process that lives."""


def holder(path: Path) -> str:
    """Return who has this file's lock at present, "" for nobody. Takes no lock and creates no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    try:
        return "" if _taken(fd, fcntl.LOCK_SH) else _holder(fd)
    finally:
        os.close(fd)


def _taken(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> str:
    pid, _, host = os.pread(fd, 300, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid or '?'} on {host or '?'}"


def _maintain(fd: int, directory: Path) -> None:
    begun, told = time.monotonic(), False
    while not _taken(fd, fcntl.LOCK_EX):
        waited = time.monotonic() - begun
        if waited >= MAINTENANCE_S:
            raise TrailLocked(
                f"the maintenance of the trail {directory} is held by {_holder(fd)} for more than {MAINTENANCE_S:g} seconds",
                hint="look whether that one is stopped: let it go on, or end it",
            )
        if waited >= TOLD_S and not told:
            told = True
            log.get(part="trail").warning("maintenance_is_awaited", holder=_holder(fd), trail=str(directory))
        time.sleep(0.002 if waited < 0.1 else 0.05)


@contextmanager
def maintenance(directory: Path) -> Iterator[None]:
    """Hold the lock for registering readers, dropping segments, or putting a packed one in place. Held shortly. Raises
    TrailLocked where a process keeps it that stands still."""
    fd = os.open(directory / MAINTENANCE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        _maintain(fd, directory)
        with suppress(OSError):  # no room: who has it is not said, and it is had
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
