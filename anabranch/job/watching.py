"""Reports to `state.db` on how far each part is. They are for `status` and the progress line only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from anabranch import log, pace, waits
from anabranch.errors import AnabranchError, NotCaughtUp, Side, TablesParked
from anabranch.job.children import PartFailed
from anabranch.job.otlp import sending
from anabranch.job.shipping import shipping
from anabranch.job.signals import SUPERVISED
from anabranch.job.tracing import PartTrace
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.model.metrics import BUSY, EPOCH_BEGAN, EPOCH_END
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.state.store import BUILDING, StateStore

if TYPE_CHECKING:
    from anabranch.apply.told import PassedEpoch, Totals
    from anabranch.capture.counts import Counts
    from anabranch.contracts import Enforced
    from anabranch.trail.writer import TrailWriter
    from anabranch.view.job_view import JobView

INTERVAL = 0.25
SPARK_STARTS = "Spark is starting, and copies rows then"

OF_TARGET = ("load", "apply")
KEEPS = ("run", "apply")  # parts that keep what others read of the job at its target
NAMED = 20  # tables of an epoch of which the numbers of rows are kept
CLEAN = 600.0  # seconds between two removals of old trace entries
TICK = 0.25  # seconds between two looks whether it has to stop
IN_ORDER = (TablesParked, NotCaughtUp)  # the part did its work, and reports something
ABOUT = {
    "source_busy": Waiting.OTHERS,
    "target_busy": Waiting.OTHERS,
    "target_full": Waiting.ROOM,
    "storage_full": Waiting.ROOM,
}
BY_SIDE = {Side.SOURCE: Waiting.SOURCE, Side.TARGET: Waiting.TARGET, Side.JOB: Waiting.ROOM}


@contextmanager
def part(
    job: JobView, name: str, stops: Callable[[], bool] = lambda: False, is_asked: bool = False
) -> Iterator[StateStore]:
    """Record the life of a part, with the error it ends with. Load and apply are a target's. `stops`: whether it was
    asked to stop. `is_asked`: it is a command beside the job. An error before it has begun anything is for who gave it then:
    the job's state keeps the error that it has.
    """
    state, host = StateStore(job.target_home if name in OF_TARGET else job.config.home), os.uname().nodename
    is_named = name in OF_TARGET and job.is_one_of_several
    task = "/".join([job.config.name, name, *([job.target] if is_named else [])])
    traced, gone = PartTrace(job, task), state.snapshot()["gone"]
    state.task, state.noted = task, traced.phase
    state.part(name, os.getpid(), host)
    traced.started(name, gone)
    traced.follow_level()
    about = log.about(task=task, **({"target": job.target} if is_named else {}))
    views = _shipped(job, name)
    with log.tapped(traced.logged), shipping(views), _keeping(views if name in KEEPS else []):
        has_failed, told = False, None
        try:
            with (
                about,
                waits.listening(partial(state.waits, name)),
                _beating(state, name, stops, traced),
                sending(job.config.observe, job.config.name, name, job.target if is_named else ""),
            ):
                yield state
        except Exception as error:  # the part's outermost: how it ended is told, and the error goes on
            is_ours = not (is_asked and not state.has_begun and _ours(error))
            has_failed = is_ours and not isinstance(error, IN_ORDER)
            told = _tell(state, job, name, task, error, is_ours)
            raise
        finally:
            state.part_ended(name, os.getpid(), host, has_failed)
            traced.ended(name, told)
            log.note_details(False)
            log.show("")
            state.close()


def _keeping(views: Sequence[JobView]) -> AbstractContextManager[None]:
    """Keep Attunity's tables meanwhile. What that needs comes with jobs that have asked for them."""
    if not any(view.config.compat.attunity for view in views):
        return nullcontext()
    from anabranch.job.attunity import keeping

    return keeping(views)


def _shipped(job: JobView, name: str) -> list[JobView]:
    """Return the targets that a part sends the trace to: capture needs none, and `run` does it for its parts."""
    return [] if name == "capture" or (os.environ.get(SUPERVISED) and name != "run") else job.targets()


def _tell(
    state: StateStore, job: JobView, name: str, task: str, error: Exception, is_kept: bool = True
) -> dict[str, Any]:
    """Record what the part ended with, unless that is not the job's; return it."""
    for one in _ours(error):
        one.job, one.task = one.job or job.label, one.task or task
        if is_kept and not (isinstance(one, PartFailed) and _is_told(job)):
            state.last_error(str(one), one.exit_code, name, one.retry, one.facts())
        return one.facts() | {"message": str(one)}
    unexpected = AnabranchError("").facts() | {"code": "unexpected", "class": type(error).__name__, "task": task}
    message = (
        f"job {job.label}: unexpected error: {type(error).__name__} (this is a bug; the traceback is in the job's logs)"
    )
    state.last_error(message, 1, name, facts=unexpected)
    return unexpected | {"message": message}


def _ours(error: BaseException) -> list[AnabranchError]:
    """Return our errors in it, that with the lowest code first."""
    if isinstance(error, ExceptionGroup):
        found = [one for inner in error.exceptions for one in _ours(inner)]
        return sorted(found, key=lambda one: one.exit_code)
    return [error] if isinstance(error, AnabranchError) else []


def _is_told(job: JobView) -> bool:
    """Return whether the part itself has told its error."""
    homes = {job.config.home, *(one.target_home for one in job.whole.targets())}
    return any(StateStore(home).snapshot()["errors"] for home in homes)


@contextmanager
def _beating(state: StateStore, name: str, stops: Callable[[], bool], traced: PartTrace) -> Iterator[None]:
    """Note now and then, in a thread, that the part is alive, and once that it was asked to stop. The thread also keeps
    the trace's level and age limit."""
    done = threading.Event()

    def beat() -> None:
        due, has_said, clean = time.monotonic() + pace.current.part_beat, False, 0.0
        while not done.wait(TICK):
            is_asked = stops() and not has_said
            if time.monotonic() >= due or is_asked:
                due, has_said = time.monotonic() + pace.current.part_beat, has_said or is_asked
                state.seen(name, has_said)
                traced.follow_level()
            if is_asked:
                traced.stops(name)
            if time.monotonic() >= clean:
                clean = time.monotonic() + CLEAN
                traced.drop_old()

    thread = threading.Thread(target=beat, name="anabranch-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(pace.current.part_beat)


def _facts(on: Waiting | AnabranchError, task: str) -> tuple[str, dict[str, Any] | None]:
    """Return one word for what is waited for, and the facts of the error behind it (None for a wait without an error)."""
    if isinstance(on, Waiting):
        return on, None
    found = on.facts() | {"message": on.message, "retried": True, "task": on.task or task}
    return ABOUT.get(on.code, BY_SIDE[on.side]), found


class CaptureWatcher:
    def __init__(self, state: StateStore) -> None:
        self.state, self._next, self._next_read, self._is_waiting = state, 0.0, 0.0, False
        self._written: tuple[int, int] | None = None  # up to where the trail was published last, and when

    def begins(self, trail: TrailWriter) -> None:
        self._written = trail.end.position.sequence, time.time_ns() // 1000

    def follows(self, decoder: str) -> None:
        self.state.how("capture", f"decoder {decoder}")

    def read(self, position: Position, commit_time: int) -> None:
        now = time.monotonic()
        if now >= self._next_read:
            self._next_read = now + INTERVAL
            self.state.position("read", position, commit_time)

    def log_end(self, mark: LogMark) -> None:
        self.state.position("log_end", mark.native)

    def at_end(self, trail: TrailWriter) -> None:
        self.state.position("source_end", trail.end.position, trail.end.commit_time)

    def written(self, trail: TrailWriter) -> None:
        self._passed(trail.end.position)
        if self._is_waiting:
            self._is_waiting = False
            self.state.phase("streaming")
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            end = trail.end
            self.state.position("written", end.position, end.commit_time)

    def _passed(self, position: Position) -> None:
        now, before = time.time_ns() // 1000, self._written
        if before is not None and position.sequence > before[0]:
            self.state.passed("capture", before[0], position, before[1], now)
        self._written = position.sequence, now

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        self._is_waiting = True
        self.state.phase("waiting", why, *_facts(on, self.state.task))

    def counted(self, counts: Counts) -> None:
        self.state.count("capture", counts.sums(), counts.gauges())


class LoadWatcher:
    """Reports of a load. Until the first rows come, all there is to see is that Spark starts: that takes seconds, on a
    busy machine many."""

    def __init__(self, state: StateStore) -> None:
        self.state, self._is_waiting, self._has_rows = state, True, False

    def begins(self) -> None:
        self.state.has_begun = True
        self.state.phase("loading")

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        self._is_waiting = True
        self.state.phase("waiting", why, *_facts(on, self.state.task))

    def progress(self, table: TableId, rows: int, estimate: int) -> None:
        begins = rows > 0 and not self._has_rows
        self._has_rows = self._has_rows or begins
        if self._is_waiting or begins:
            self._is_waiting = False
            self.state.phase("loading", "" if self._has_rows else SPARK_STARTS)
        self.state.progress(table, rows, max(rows, estimate))


def _kept(one: PassedEpoch) -> dict[str, Any]:
    """Return what is kept of an epoch: of more than NAMED tables those with most rows, and how many `others` have how many."""
    facts: dict[str, Any] = {"epoch": one.epoch, "parked": one.parked[:NAMED]}
    others = {"parked": {"tables": len(one.parked) - NAMED}} if len(one.parked) > NAMED else {}
    for name in ("changes", "conflicts", "asides"):
        counts: Mapping[str, int] = getattr(one, name)
        facts[name] = counts
        if len(counts) > NAMED:
            facts[name] = kept = dict(nlargest(NAMED, counts.items(), itemgetter(1)))
            others[name] = {"tables": len(counts) - NAMED, "rows": sum(counts.values()) - sum(kept.values())}
    return {**facts, "others": others} if others else facts


class ApplyWatcher:
    def __init__(self, state: StateStore) -> None:
        self.state, self._next, self._phase, self._way = state, 0.0, "", ""

    def enforcing(self, acts: Enforced) -> None:
        found = [what for what, does in (("foreign keys", acts.keys), ("triggers", acts.triggers)) if does]
        self._way = f"{' and '.join(found)} of the target act on what is applied" if found else ""

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        if self._phase != why:
            self._phase = why
            if on is not Waiting.LOAD:  # the load has a phase of its own
                self.state.phase("waiting", why, *_facts(on, self.state.task))

    def streaming(self, consistent: bool) -> None:
        phase = "streaming" if consistent else "loading"
        if self._phase != phase:
            self._phase = phase
            about = "" if consistent else Waiting.WINDOW
            self.state.phase(phase, self._way if consistent else "the load's window", about)

    def builds(self, tables: Sequence[str]) -> None:
        self.state.doing("apply", BUILDING, tables)

    def begins(self, upto: int) -> None:
        self.state.gauge("apply", {EPOCH_END: upto, EPOCH_BEGAN: time.time_ns() // 1_000_000})

    def applied(self, checkpoint: Checkpoint) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            self.state.position("applied", checkpoint.position, checkpoint.commit_time)

    def counted(self, totals: Totals) -> None:
        found = {
            "transactions_applied": totals.transactions,
            "changes_applied": totals.changes,
            "epochs": totals.epochs,
        }
        while totals.passed:
            one = totals.passed.popleft()
            self.state.passed("apply", one.after, one.upto, one.began, one.committed, _kept(one))
        self.state.count("apply", found, {BUSY: int(totals.busy_seconds * 1000)})

    def slow(self, totals: Totals) -> None:
        self.state.slow_epochs(totals.slow_epochs, totals.epochs, totals.last_slow)
