"""The right to manage the jobs of a home, which one process has at a time.

It is a lock of the operating system on a file of the manager's directory. It ends with its process, whatever ends that one, so
no two managers ever act, whatever a clock says. A process that is stopped (SIGSTOP) keeps it. It counts on one machine: a home
is for managers of one machine, as SQLite is. What does not live here: what a manager does (`manager.py`).
"""

from __future__ import annotations

import threading
from pathlib import Path

from anabranch import log
from anabranch.trail.lock import LockHeld, OsLock

FILE = "lease.lock"
LOOK_S = 0.5


class Lease:
    """The lease of one home, from `take` to the end of this process, or `close`."""

    def __init__(self, directory: Path) -> None:
        """`directory`: the manager's, which is there."""
        self._path = directory / FILE
        self._lock: OsLock | None = None
        self.holder = ""  # who had it when it was last wanted, for people

    @property
    def is_held(self) -> bool:
        """Return whether this process has it."""
        return self._lock is not None

    def take(self) -> bool:
        """Take it, if nobody has it. Returns whether this process has it now. Raises OSError."""
        if self._lock is None:
            try:
                self._lock = OsLock(self._path)
            except LockHeld as held:
                self.holder = str(held)
        return self.is_held

    def wait(self, gives_up: threading.Event) -> bool:
        """Wait until this process has it, or `gives_up` is set. Returns whether it has it."""
        while not gives_up.is_set() and not self._taken():
            gives_up.wait(LOOK_S)
        return self.is_held

    def _taken(self) -> bool:
        try:
            return self.take()
        except OSError as error:  # no file may be opened, say: tried again
            log.get().error("lease_failed", error=str(error))
            return False

    def close(self) -> None:
        """Give it back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
