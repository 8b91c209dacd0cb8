"""The right to manage the jobs of a home, which one process has at a time.

It is a lock of the operating system on a file of the manager's directory. It ends with its process, whatever ends that one, so
no two managers ever act, whatever a clock says. A process that is stopped (SIGSTOP) keeps it. It counts on one machine, as
SQLite does; managers of several have `lease_shared.py`. What does not live here: what a manager does (`manager.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from anabranch import log
from anabranch.errors import StateError
from anabranch.trail.lock import LockHeld, OsLock

FILE = "lease.lock"
LOOK_S = 0.5


class Lease:
    """The lease of one home, from `take` to the end of this process, or `close`. `when_lost` is called, from any thread, when
    another manager has taken it; of this kind of lease none can."""

    def __init__(self, directory: Path) -> None:
        """`directory`: the manager's, which is there."""
        self._path = directory / FILE
        self._lock: OsLock | None = None
        self.holder = ""  # who had it when it was last wanted, for people
        self.when_lost: Callable[[], None] = lambda: None

    @property
    def is_held(self) -> bool:
        """Return whether this process has it."""
        return self._lock is not None

    @property
    def is_lost(self) -> bool:
        """Return whether this process had it, and another one has taken it."""
        return False

    @property
    def is_elsewhere(self) -> bool:
        """Return whether a process of another machine has it."""
        return False

    def may_act(self) -> bool:
        """Return whether nobody else can have it at this moment, so that jobs may be started and stopped. Asks nobody."""
        return self.is_held

    def take(self) -> bool:
        """Take it, if nobody has it. Returns whether this process has it now. Raises OSError, StateError."""
        if self._lock is None:
            try:
                self._lock = OsLock(self._path)
            except LockHeld as held:
                self.holder = str(held)
        return self.is_held

    def wait(self, gives_up: threading.Event, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Wait until this process has it, or `gives_up` is set. Returns whether it has it. `meanwhile`: what is done between
        two tries."""
        while not gives_up.is_set() and not self._taken(meanwhile):
            gives_up.wait(LOOK_S)
        return self.is_held

    def _taken(self, meanwhile: Callable[[], None]) -> bool:
        try:
            if not self.take():
                meanwhile()
            return self.is_held
        except (OSError, StateError) as error:  # no file may be opened, a server is away: tried again
            log.get().error("lease_failed", error=str(error))
            return False

    def close(self) -> None:
        """Give it back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
