"""One writer per trail: an OS lock that ends with its process, with pid and host of the holder as text."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import TrailLocked

FILE = "lock"
MAINTENANCE = "maintenance"


class WriterLock:
    """Held from construction to `close`, at the latest to the end of the process."""

    def __init__(self, directory: Path, timeout: float = 0.0) -> None:
        self._fd = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            self._take(directory, time.monotonic() + timeout)
        except BaseException:
            os.close(self._fd)
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)

    def _take(self, directory: Path, deadline: float) -> None:
        while True:
            try:
                return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    pid, _, host = os.pread(self._fd, 300, 0).decode(errors="replace").strip().partition(" ")
                    raise TrailLocked(
                        f"the trail {directory} is being written by process {pid or '?'} on {host or '?'}",
                        hint="stop that one first: only one capture may write a trail",
                    ) from None
            time.sleep(0.05)

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def maintenance(directory: Path) -> Iterator[None]:
    """Held shortly by whoever registers readers, drops segments or puts a packed one in place."""
    fd = os.open(directory / MAINTENANCE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
