"""The lease of a trail that captures on several machines share: who may write it, by an epoch that only grows.

A claim (`claims.py`) has a counter that its holder moves on. Who waits watches that counter by a clock of its own, which no
other machine sets: one that stands still for the time that the holder has promised is that of a holder that is gone, or that
stands still. The successor claims the next epoch and removes the former claim. So a holder that wakes up finds its claim
gone, and whatever it does until it has looked reaches files that nobody believes (`fencing.py`).

The lock of the operating system (`lock.py`) is taken beside it where it can be had, for whoever asks who writes. Nothing
depends on it: it is kept by a process that is stopped, and is lost with a network file system's own lease.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from anabranch import log
from anabranch.errors import TrailError, TrailLocked, TrailOvertaken
from anabranch.trail.claims import FOLDER, GONE, Claim, claimed, file_of, newest, read, text_of
from anabranch.trail.failures import writing
from anabranch.trail.lock import FILE, LockHeld, OsLock, WriterLock
from anabranch.trail.storage import LocalStorage

LEASE_S = 10.0
BEATS = 4  # moves of the counter within a lease
LOOK_S = 0.2  # between two looks of who waits
STRIDE_S = 1.0  # more than this is not counted between two looks: who waits may have stood still, too
Clock = Callable[[], float]


def boottime() -> float:
    """Return seconds by a clock that nobody sets and that goes on while the machine sleeps; where there is none of the kind, by
    one that stands still meanwhile."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def is_shared(directory: Path) -> bool:
    """Return whether captures share the trail by a lease: then each writer has to have it."""
    return (directory / FOLDER).is_dir()


class Watch:
    """Looks at the newest claim again and again, by a clock of its own."""

    def __init__(self, directory: Path, clock: Clock = boottime) -> None:
        self._directory, self._clock = directory, clock
        self._seen: object = None
        self._at, self._unchanged = clock(), 0.0
        self._known: Claim | None = None
        self.has_moved = False  # its holder lives
        self.epoch = 0  # the newest one when it was looked last

    def in_the_way(self) -> Claim | None:
        """Return the claim that is held by somebody, as far as can be told; None: the next epoch may be claimed."""
        epoch, claim = newest(self._directory)
        self.epoch, now = epoch, self._clock()
        passed, self._at = min(max(now - self._at, 0.0), STRIDE_S), now
        if not epoch or (claim is not None and (claim.is_released or claim.has_died)):
            return None
        if claim is None:  # it is being written at this moment; a half of one stays where a machine went down
            claim = self._known if self._known and self._known.epoch == epoch else _unread(epoch)
            seen: object = epoch
        else:
            self.has_moved = (
                self._known is not None
                and self._known.token == claim.token != ""
                and (self.has_moved or self._known.beat != claim.beat)
            )
            self._known, seen = claim, (claim.token, claim.beat)
        self._unchanged = self._unchanged + passed if seen == self._seen else 0.0
        self._seen = seen
        return None if self._unchanged >= claim.lease_s else claim


class Lease:
    """The right to write a shared trail, from `take` to `close`, or until another one has taken it over.

    A thread moves the counter on. `refuse_overtaken` says whether the claim is still there, at the place where it is kept: what
    was written before a look that found it is seen by every successor."""

    def __init__(self, directory: Path, claim: Claim) -> None:
        self.directory, self.claim = directory, claim
        self._path = file_of(directory, claim.epoch)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        self._lock: OsLock | None = None
        self._done, self._mutex = threading.Event(), threading.Lock()
        self._is_overtaken = False
        self._take_lock()
        self._thread = threading.Thread(target=self._beat, name="trail-lease", daemon=True)
        self._thread.start()

    @classmethod
    def take(
        cls,
        directory: Path,
        lease_s: float = LEASE_S,
        *,
        timeout: float = math.inf,
        stop: Callable[[], bool] = lambda: False,
        tell: Callable[[Claim], None] = lambda claim: None,
        clock: Clock = boottime,
    ) -> Lease:
        """Wait until nobody holds the trail, and claim it. `tell` is told of each new holder that is waited for.

        Raises TrailLocked after `timeout` seconds, if its holder is seen to live by then; or once `stop` says so."""
        _share(directory, min(timeout, lease_s))
        watch, begun, told = Watch(directory, clock), time.monotonic(), ""
        while True:
            with writing(f"the lease of the trail {directory}"):
                found = watch.in_the_way()
                taken = cls._of(directory, claimed(directory, lease_s, watch.epoch)) if found is None else None
            if taken is not None:
                return taken
            if found is not None and found.token != told:
                told = found.token
                tell(found)
            is_over = watch.has_moved and time.monotonic() - begun >= timeout
            if found is not None and (is_over or stop()):
                raise TrailLocked(f"the trail {directory} is being written by {found.who}", hint=STAND_BY)
            time.sleep(LOOK_S if found else 0.0)

    @classmethod
    def _of(cls, directory: Path, claim: Claim | None) -> Lease | None:
        """Return the lease of a claim; None where there is none, or it has gone in this moment."""
        with suppress(FileNotFoundError):
            return cls(directory, claim) if claim else None
        return None

    @property
    def epoch(self) -> int:
        return self.claim.epoch

    def refuse_overtaken(self) -> None:
        """Raise TrailOvertaken where another one has claimed the trail. Asks where the claim is kept, each time."""
        with writing(f"the lease of the trail {self.directory}"):
            if not self._is_overtaken and not self._is_there():
                self._is_overtaken = True
        if self._is_overtaken:
            raise TrailOvertaken(f"the trail {self.directory} was taken over{self._by_whom()}: {OURS_IS_OVER}")

    def close(self) -> None:
        """Give it up, so that who waits goes on at once. May be called again."""
        if self._done.is_set():
            return
        self._done.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(self.claim.lease_s)
        with suppress(OSError):  # then it runs out
            self._write(is_released=True)
        os.close(self._fd)
        if self._lock:
            self._lock.close()

    def _beat(self) -> None:
        while not self._done.wait(self.claim.lease_s / BEATS):
            try:
                self._write()
                self.refuse_overtaken()
            except TrailOvertaken:
                return
            except (OSError, TrailError) as error:  # the next one may come through; who writes asks for itself
                log.get(part="trail").warning("lease_not_renewed", error=str(error))
            self._take_lock()

    def _write(self, is_released: bool = False) -> None:
        with self._mutex:
            self.claim = replace(self.claim, beat=self.claim.beat + 1, is_released=is_released)
            os.pwrite(self._fd, text_of(self.claim), 0)
            os.fsync(self._fd)

    def _is_there(self) -> bool:
        """Open it by its name, which a network file system asks its server for, and look whether it is this one."""
        try:
            found = read(self._path)
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
        with self._mutex:  # our own move of the counter may have been read in halves
            found = found or _read_again(self._path)
        return found is not None and found.token == self.claim.token

    def _by_whom(self) -> str:
        with suppress(OSError):
            _, claim = newest(self.directory)
            return f" by {claim.who}, epoch {claim.epoch}" if claim else ""
        return ""

    def _take_lock(self) -> None:
        """Take the lock of the system as soon as it can be had: a former holder that is stopped keeps it."""
        if self._lock is None:
            with suppress(LockHeld, OSError):
                self._lock = OsLock(self.directory / FILE)


STAND_BY = "only one capture may write a trail: let this one wait with --standby, or stop the other one"
OURS_IS_OVER = "this process did not renew its lease in time, or stood still, and another one goes on"


def writing_right(directory: Path, timeout: float = 0.0) -> WriterLock | Lease:
    """Take the right to write a trail: its lock, or its lease where captures share it. Raises TrailLocked."""
    if not is_shared(directory):
        lock = WriterLock(directory, timeout)
        if not is_shared(directory):
            return lock
        lock.close()  # somebody has begun to share it meanwhile
    return Lease.take(directory, timeout=timeout)


def _share(directory: Path, timeout: float) -> None:
    """Make the trail one that is shared, while nobody writes it under the lock alone."""
    if is_shared(directory):
        return
    with writing(f"the trail {directory}"):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        lock = WriterLock(directory, timeout)
    except TrailLocked as locked:
        locked.hint = "that one has no lease: start it again with --standby or [capture] standby = true, too"
        raise
    with closing(lock), writing(f"the trail {directory}"):
        LocalStorage(directory).make_folder(FOLDER)


def _read_again(path: Path) -> Claim | None:
    with suppress(FileNotFoundError):
        return read(path)
    return None


def _unread(epoch: int) -> Claim:
    return Claim(epoch, "", 0, "an unknown host", "", "", LEASE_S, "")
