"""`verify --watch`: one table after the other, for ever, at a share of the time.

The table that was looked at longest ago comes first, by what the target keeps, so that a new process goes on where the last
one was. What does not live here: comparing (verifying.py), keeping a result (`VerifiedStore`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, Retry, StateError
from anabranch.job.keeping_results import keep_in, known
from anabranch.job.resuming import going_on
from anabranch.job.signals import Stop
from anabranch.job.verifying import fitting
from anabranch.job.verifying_elsewhere import verify_one_elsewhere
from anabranch.job.watched import Turn, as_kept, verify_one
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.spark.engine import Engine
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.wanted import SEEDS, Sample, Wanted
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.view.job_view import JobView

LOCK = "verify-watch.lock"  # beside what is kept for the target
PATIENCE = 10.0  # seconds for rows of one table that nobody can tell of; a busy one is not to take the others' time
LOOK = 2.0  # seconds between two looks whether there is anything to verify
LONGEST = 60.0  # seconds: the longest pause after an error of an end
TRIED_AGAIN = (Retry.TIMED, Retry.PATIENT)
NOT_RUNNING = "waits: no part of the job runs"
NO_TABLE = "waits: no table streams"


class Watch:
    """A verification that goes on for ever."""

    def __init__(
        self,
        job: JobView,
        spark: Callable[[], SparkSession],
        patterns: Sequence[str],
        by_rows: bool,
        share: float,
        stop: Stop,
        tell: Callable[[str], None],
        sample: float | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Set it up. `share`: of the time that may be read, above 0, at most 1. `patterns`: of source tables; () for all.
        `sample`: the share of each table that is compared at each of its turns, by other ranges each time; None: all of it.
        `engine`: reads the target of a job that applies a trail."""
        self._job, self._spark, self._patterns, self._by_rows = job, spark, patterns, by_rows
        self._share, self._stop, self._tell, self._sample = share, stop, tell, sample
        self._engine = engine
        self._tried: dict[TableId, int] = {}  # when, where no result came of it
        self._said: dict[TableId, str] = {}  # tables that were passed over, and why
        self._waits, self._failures = "", 0

    def run(self) -> None:
        """Go on until stopped. Raises ConfigError for patterns that no table fits, and errors that a later try does not mend,
        unless they are those of one table: its result is pending then, and says why."""
        while not self._stop.asked():
            try:
                pause = self._next()
                self._failures = 0
            except AnabranchError as error:
                if self._stop.asked():
                    return
                if error.retry not in TRIED_AGAIN:
                    raise
                pause = min(LONGEST, 2.0**self._failures)
                self._failures += 1
                self._tell(f"tried again in {pause:.0f} s: {error}")
            self._stop.wait(pause)

    def _next(self) -> float:
        """Verify the next table; return how many seconds to pause behind it."""
        states, verified = self._kept()
        self._tell_passed_over(states)
        streaming = [state for state in states.values() if state.is_streaming and state.schema]
        if not streaming:
            return self._wait(NO_TABLE)
        state = min(streaming, key=lambda one: (self._last(one, verified), one.source))
        began, started = time.time_ns() // 1000, time.monotonic()
        self._tried[state.source] = began
        found = self._verified(state, began)
        if found is None:
            return 0.0 if self._stop.asked() else self._wait(NOT_RUNNING)
        self._waits = ""
        for one in found.found.tables:
            self._keep(found, one, state, began, verified.get(state.source))
            self._tell(f"{_clock()}  {one}")
        return (time.monotonic() - started) * (1 - self._share) / self._share

    def _verified(self, state: TableState, began: int) -> Turn | None:
        """Compare a table. An error that a later try does not mend makes its result pending."""
        try:
            sample = None if self._sample is None else Sample(self._sample, random.randrange(SEEDS))
            wanted = Wanted(by_rows=self._by_rows, sample=sample)
            if self._engine is not None and not self._job.captures:
                return verify_one_elsewhere(self._job, self._engine, state, wanted, self._stop.asked)
            return verify_one(self._job, self._spark, state, wanted, PATIENCE, self._stop.asked)
        except AnabranchError as error:
            if error.retry in TRIED_AGAIN or self._stop.asked():
                raise
            why = str(error.message)
            one = TableResult(
                str(state.source), str(state.target), 0, 0, identical=False, is_complete=False, pending=1, why=why
            )
            return Turn(Verification((one,), positions=("", "")))

    def _kept(self) -> tuple[Mapping[TableId, TableState], dict[TableId, Verified]]:
        """Return the tables that are looked at, and the last results."""
        name = self._job.config.name
        with store_of(self._job) as store:
            states = store.states.tables(name) if store.exists() else {}
            if not states:
                raise StateError("the job has loaded nothing yet", job=name, hint="anabranch run JOB")
            found = known(store, name)
        return fitting(states, self._patterns) if self._patterns else states, found

    def _last(self, state: TableState, verified: Mapping[TableId, Verified]) -> int:
        """Return when a table was looked at last since its load; 0 for never."""
        found = verified.get(state.source)
        kept = found.at if found is not None and found.generation == state.generation else 0
        return max(kept, self._tried.get(state.source, 0))

    def _keep(self, turn: Turn, one: TableResult, state: TableState, began: int, before: Verified | None) -> None:
        name, kept = self._job.config.name, as_kept(one, state, turn, began)
        with store_of(self._job) as store:
            if not store.exists() or store.jobs.job(name) is None:
                return  # it was dropped meanwhile
            keep_in(
                store, name, before, lambda last: going_on(kept, last, one, turn.server, self._by_rows), state.source
            )

    def _tell_passed_over(self, states: Mapping[TableId, TableState]) -> None:
        """Tell each table that is not looked at, once as long as the reason stays."""
        passed = {table: _reason(state) for table, state in states.items() if not state.is_streaming}
        for table, why in passed.items():
            if self._said.get(table) != why:
                self._tell(f"{_clock()}  passed over {table}: {why}")
        self._said = passed

    def _wait(self, why: str) -> float:
        if self._waits != why:
            self._tell(f"{_clock()}  {why}")
        self._waits = why
        return LOOK


@contextmanager
def alone(job: JobView) -> Iterator[None]:
    """Let one process of this home verify for ever. Raises StateError, which says who does."""
    job.target_home.mkdir(parents=True, exist_ok=True)
    try:
        lock = OsLock(job.target_home / LOCK)
    except LockHeld as held:
        raise StateError(
            f"the job is being verified for ever by {held}", job=job.label, hint="end that one, or let it go on"
        ) from None
    try:
        yield
    finally:
        lock.close()


def _reason(state: TableState) -> str:
    if state.is_dropped:
        return "it is dropped"
    return f"it is parked: {state.reason}" if state.is_parked else "it is not past its load"


def _clock() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())
