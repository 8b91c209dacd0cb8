"""Telling `state.db` how far each part is. What stands there is for `status` and the progress line only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from anabranch import log, waits
from anabranch.errors import AnabranchError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.state.store import StateStore

if TYPE_CHECKING:
    from anabranch.apply.epoch import Totals
    from anabranch.job.job import Job
    from anabranch.trail.writer import TrailWriter

INTERVAL = 0.25
FOR_LOAD = ("for the load", "for capture to pass the positions of the load")  # what apply waits for before it begins


OF_TARGET = ("load", "apply")


@contextmanager
def part(job: Job, name: str) -> Iterator[StateStore]:
    """The life of a part, with the error it ends with. Load and apply are a target's."""
    state, host = StateStore(job.target_home if name in OF_TARGET else job.config.home), os.uname().nodename
    state.part(name, os.getpid(), host)
    is_named = name in OF_TARGET and job.is_one_of_several
    try:
        about = log.about(**({"target": job.target} if is_named else {}))
        with about, waits.listening(partial(state.waits, name)):
            yield state
    except AnabranchError as error:
        error.job = error.job or job.label
        state.last_error(str(error), error.exit_code, name, error.retry)
        raise
    finally:
        state.part_ended(name, os.getpid(), host)
        state.close()


class CaptureWatcher:
    def __init__(self, state: StateStore) -> None:
        self.state, self._next, self._next_read, self._is_waiting = state, 0.0, 0.0, False

    def follows(self, decoder: str) -> None:
        self.state.how("capture", f"decoder {decoder}")

    def read(self, position: Position, commit_time: int) -> None:
        now = time.monotonic()
        if now >= self._next_read:
            self._next_read = now + INTERVAL
            self.state.position("read", position, commit_time)

    def at_end(self, trail: TrailWriter) -> None:
        self.state.position("source_end", trail.end.position, trail.end.commit_time)

    def written(self, trail: TrailWriter) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self.state.phase("streaming")
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            end = trail.end
            self.state.position("written", end.position, end.commit_time)

    def waiting(self, why: str) -> None:
        self._is_waiting = True
        self.state.phase("waiting", why)


class LoadWatcher:
    def __init__(self, state: StateStore) -> None:
        self.state, self._is_waiting = state, False

    def waiting(self, why: str) -> None:
        self._is_waiting = True
        self.state.phase("waiting", why)

    def progress(self, table: TableId, rows: int, estimate: int) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self.state.phase("loading")
        self.state.progress(table, rows, max(rows, estimate))


class ApplyWatcher:
    def __init__(self, state: StateStore) -> None:
        self.state, self._next, self._phase, self._way = state, 0.0, "", ""

    def enforcing(self, keys: bool) -> None:
        self._way = "foreign keys and triggers of the target act on what is applied" if keys else ""

    def waiting(self, why: str) -> None:
        if self._phase != why:
            self._phase = why
            if not why.startswith(FOR_LOAD):  # which has a phase of its own
                self.state.phase("waiting", why)

    def streaming(self, consistent: bool) -> None:
        phase = "streaming" if consistent else "loading"
        if self._phase != phase:
            self._phase = phase
            self.state.phase(phase, self._way if consistent else "the load's window")

    def applied(self, checkpoint: Checkpoint) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            self.state.position("applied", checkpoint.position, checkpoint.commit_time)

    def slow(self, totals: Totals) -> None:
        self.state.slow_epochs(totals.slow_epochs, totals.epochs, totals.last_slow)
