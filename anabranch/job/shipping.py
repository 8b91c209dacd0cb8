"""The trace on its way from the home to a target, `anabranch.trace`: by a thread, in batches, later where that is away.

Of several processes that would do it one does. Delivery: every entry of the home once, as long as the home keeps it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import log, pace
from anabranch.errors import AnabranchError
from anabranch.job.tracing import SHIPPING
from anabranch.state import trace
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

AWAY_S = 60.0  # seconds between two tries at most
LAST_S = 3.0  # how long a part waits at its end until its last entries are sent
BATCH = 500


class Shipper:
    """The shipping of the trace to one target. `job` is that target's view."""

    def __init__(self, job: JobView) -> None:
        self._job, self._done = job, threading.Event()
        self._home, name = job.config.home, job.target
        self._lock, self._places = (self._home / trace.FOLDER / f"{name}.{end}" for end in ("lock", "sent"))
        self._thread = threading.Thread(target=self._run, name=f"{SHIPPING}{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what was noted last, if that does not take long; else the next start sends it."""
        self._done.set()
        self._thread.join(LAST_S)

    def _run(self) -> None:
        pause, is_over = pace.current.run_ship, False
        while not is_over:
            is_over = self._done.wait(pause)
            try:
                while self._ship():
                    pass
                pause = pace.current.run_ship
            except AnabranchError as error:
                log.get(job=self._job.config.name).debug("trace_waits", error=error.message)
                pause = min(2 * pause, AWAY_S)
            except Exception as error:  # noqa: BLE001 - the thread's outermost loop: a trace that does not come stops nobody
                log.get(job=self._job.config.name).debug("trace_waits", error=repr(error))

    def _ship(self) -> bool:
        """Send one batch. Returns whether there was one."""
        if not (self._home / trace.FOLDER).is_dir():
            return False
        with suppress(LockHeld), closing(OsLock(self._lock)):
            places = self._known()
            batch, places = _next(self._home, places, self._job.target if self._job.is_one_of_several else "")
            if not batch or self._send(batch):
                self._note(places)
                return bool(batch)
        return False

    def _send(self, batch: Sequence[dict[str, Any]]) -> bool:
        """Send entries. Returns False where the target has no table for them yet: a load or apply makes it."""
        oldest = trace.id_before(self._job.config.trace.retain_hours)
        with store_of(self._job) as store:
            return store.journal.add_trace(self._job.config.name, batch, oldest)

    def _known(self) -> dict[str, int]:
        """Return how far each file was sent."""
        with suppress(FileNotFoundError, ValueError):
            found = json.loads(self._places.read_text())
            return found if isinstance(found, dict) else {}
        return {}

    def _note(self, places: dict[str, int]) -> None:
        new = self._places.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(places))
        new.replace(self._places)


def _next(home: Path, places: dict[str, int], target: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return entries that were not sent, at least a batch of them if there are so many, and how far they reach.

    Of several targets, those that are about another one are left out.
    """
    batch: list[dict[str, Any]] = []
    reached: dict[str, int] = {}
    for file in trace.files(home):
        reached[file.name] = places.get(file.name, 0)
        if len(batch) < BATCH and file.stat().st_size > reached[file.name]:
            found, reached[file.name] = trace.read(file, reached[file.name])
            batch += [entry for entry in found if not target or _is_for(entry, target)]
    return batch, reached


def _is_for(entry: dict[str, Any], target: str) -> bool:
    """Return whether an entry is for the target: `task` is job/part, or job/part/target."""
    _, _, named = str(entry.get("task", "")).partition("/")[2].partition("/")
    return named in ("", target)


def entries(job: JobView, since: datetime | None, at_target: bool) -> list[dict[str, Any]]:
    """Return the entries of the home, or of a target, in their order."""
    if not at_target:
        return list(trace.entries(job.config.home, since))
    with store_of(job) as store:
        first = f"{int(since.timestamp() * 1_000_000_000):020d}" if since else ""
        return store.journal.trace(job.config.name, first)


@contextmanager
def shipping(views: Sequence[JobView]) -> Iterator[None]:
    """Ship the trace to these targets meanwhile."""
    shippers = [Shipper(view) for view in views]
    try:
        yield
    finally:
        for shipper in shippers:
            shipper.close()
