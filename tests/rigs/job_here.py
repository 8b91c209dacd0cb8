"""A whole job in this process, one part after the other and without Spark: preflight, load, capture up to the log's end, apply
up to the trail's, verify. For what values and names go through at the ends.

What does not live here: the job file and the comparison of both ends (scenario*.py), processes, and what befalls them.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from anabranch import pace
from anabranch.apply.run import ApplyRun
from anabranch.capture.run import Capture
from anabranch.contracts import drift_of
from anabranch.job import Job, parts
from anabranch.lifecycle.beginning import begin_trail_if_none, carry_out, open_trail, prepare_source
from anabranch.model.ids import TableId
from anabranch.spark import pieces
from anabranch.testing.in_time import in_time, until
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.testing.torture.local_verify import LocalSpark, _run, verify_here
from anabranch.trail import lock
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from anabranch.verify.report import Verification
from anabranch.view.definitions import logs_cascades
from anabranch.view.identity import followed_identity, trail_uuid
from anabranch.view.opened import end_of, source_of, spark_home
from anabranch.view.options import log_options, value_rules
from anabranch.view.refusals import TAKE_OVER
from rigs.scenario import Scenario

PATIENCE = 240.0  # seconds


class _Deaf:
    """A watcher that takes no note of anything."""

    def __getattr__(self, _: str) -> Any:
        return lambda *told: None


class End(threading.Event):
    """Ends a part of the job that runs in this process, once it is set."""

    part: Future[None]

    def reached(self) -> None:
        """Set it, and wait until the part has ended; from then on it does nothing more."""
        self.set()
        until(self.part.done, "the part has ended")


@dataclass
class JobHere:
    """`made` has the job file, and both ends. `settings`: of ApplySettings, other than the job's."""

    made: Scenario
    looks: bool = False  # at what became of the definitions at the source, as a job's capture does every ten seconds

    @property
    def job(self) -> Job:
        """The job as its file stands now."""
        before = dict(os.environ)
        os.environ.update(self.made.environment)
        try:
            return Job.from_file(self.made.job_file)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def load(self, table: TableId | None = None, recreate: bool = False, keep: bool = False) -> None:
        """Preflight, and every table that is not loaded yet, or this one again. Capture runs meanwhile: tables without a key
        may need it. A capture that fails ends the load, which would wait for it, and its error is raised."""
        job, is_over, alone = self.job, threading.Event(), threading.Lock()

        def interrupt(_: object) -> None:
            with alone:  # once the load is over nobody would expect it
                if not is_over.is_set():
                    _thread.interrupt_main()

        with _in_haste(), ThreadPoolExecutor(1) as beside:
            begin_trail_if_none(job)
            captured = beside.submit(self._capture, job, lambda trail: is_over.is_set())
            try:
                captured.add_done_callback(interrupt)
                try:
                    parts.run_load(job, [table] if table else [], recreate, engine=LocalEngine(Small()), keep=keep)
                finally:
                    with alone:
                        is_over.set()
                captured.result()
            except (KeyboardInterrupt, SystemExit):
                is_over.set()
                if not captured.done():
                    raise
                captured.result()

    def stream(self, **settings: Any) -> None:
        """Bring what stands in the log now to the target."""
        with _in_haste():
            self.capture()
            self.apply(**settings)

    def capture(self) -> None:
        """Read the log up to its end."""
        until, job = time.monotonic() + PATIENCE, self.job
        source = source_of(job)
        with closing(source.log(log_options(job, trail_uuid(job) or ""))) as reader:
            end = reader.end()

        def stop(trail: TrailWriter) -> bool:
            in_time(until, f"capture is at {trail.end.position}, not at {end.native}")
            mark = source.order.mark(trail.end.resume) if trail.end.resume else None
            return mark is not None and source.order.includes(mark, end.native, None)

        self._capture(job, stop)

    def _capture(self, job: Job, stop: Callable[[TrailWriter], bool]) -> None:
        """Capture until `stop` says so; also in a thread, which must not read a job: that changes the process's environment."""
        uuid, followed, source = trail_uuid(job), followed_identity(job), source_of(job)
        assert uuid is not None and followed is not None, "a load begins the trail"
        options = log_options(job, uuid)
        with (
            closing(source.log(options)) as reader,
            open_trail(job, followed, uuid, parts.LOCK_SECONDS) as trail,
        ):
            wanted = job.rules.includes
            prepare_source(job, source, options)
            later = replace(options, leave_out=frozenset())
            prepare = partial(carry_out, source, later)  # what the source needs for a table that comes later
            Capture(
                source,
                reader,
                trail,
                wanted,
                lambda: stop(trail),
                _Deaf(),
                followed,
                lambda *_: None,
                prepare=prepare,
                follows=job.config.followed_changes,
                ghosts=job.config.ddl.ghosts,
                tools=job.config.ddl.names_of_tools,
                shares=job.rules.shares_target,
                keeps_changes=job.config.keeps_changes,
                takes_over=job.config.load.existing == TAKE_OVER,
                **({"drift": partial(drift_of, source, options, job.config.followed_changes)} if self.looks else {}),
            ).run()

    def apply(self, is_built: bool = False, **settings: Any) -> None:
        """Carry out what the trail has, until no table is in its window any more; `is_built`: and indexes and keys stand."""
        job, until = self.job, time.monotonic() + PATIENCE
        target = end_of(job)
        with TrailReader(job.trail) as trail:
            end = trail.end().position.sequence
        with closing(target.store()) as store:
            alone = threading.Lock()  # what is tried again asks in a thread of its own

            def stop() -> bool:
                with alone:
                    now, states = store.jobs.checkpoint(job.config.name), store.states.tables(job.config.name)
                in_time(until, f"apply is at {now and now.position}, not at {end}: {states}")
                here = now is not None and now.position.sequence >= end
                return here and all(
                    state.is_parked or (state.is_built if is_built else state.is_streaming) for state in states.values()
                )

            self._apply(job, stop, **settings)

    def _apply(self, job: Job, stop: Callable[[], bool], watcher: Any = None, **settings: Any) -> None:
        """Apply until `stop` says so; also in a thread."""
        source, target = source_of(job), end_of(job)
        usual = parts._apply_settings(job, logs_cascades(job, source))
        ApplyRun(
            job=job.config.name,
            trail_directory=job.trail,
            spark_directory=spark_home(job) / "checkpoint",
            source=source,
            target=target,
            rules=value_rules(job),
            tables=job.rules,
            settings=replace(usual, **settings),
            engine=LocalEngine(Small()),
            stop=stop,
            watcher=watcher or _Deaf(),
        ).run()

    @contextmanager
    def running(self, watcher: Any = None) -> Iterator[tuple[End, End]]:
        """Capture and apply in threads of their own, until the block ends. What ends one of them before is given. `watcher`:
        who hears of apply. When it begins capture has its lock on the trail, by which others see that the job runs."""
        job, ends = self.job, (End(), End())
        with _in_haste(), ThreadPoolExecutor(2) as beside:
            running = [
                beside.submit(self._capture, job, lambda trail: ends[0].is_set()),
                beside.submit(self._apply, job, ends[1].is_set, watcher),
            ]
            try:
                for end, part in zip(ends, running, strict=True):
                    end.part = part
                    part.add_done_callback(_told)
                until(lambda: lock.holder(job.trail / lock.FILE) or running[0].done(), "capture has its trail")
                yield ends
            finally:
                for end in ends:
                    end.set()
            for one in running:
                one.result()

    def verify(self, **wanted: Any) -> Verification:
        """What `anabranch verify` finds. `wanted`: fields of `Wanted`."""
        with without_spark():
            return verify_here(self.job, **wanted)

    def arrives(self, *changes: str) -> None:
        """Load, and what these statements do at the source behind it; both ends agree each time, by SQL and by verify."""
        self.load()
        self.stream()
        self.made.assert_identical()
        self.made.source.execute(*changes)
        self.stream()
        self.made.assert_identical()
        assert self.verify().identical


def _told(part: Future[None]) -> None:
    """Print what a part has ended with, for whoever reads why a test has waited for it in vain."""
    if (error := part.exception()) is not None:
        traceback.print_exception(error)


@contextmanager
def without_spark() -> Iterator[Any]:
    """Let what Spark would do be done in this process, until the block ends. Yields what stands for it."""
    with_spark = pieces.run
    pieces.run = cast(Any, _run)
    try:
        yield LocalSpark
    finally:
        pieces.run = with_spark


@contextmanager
def _in_haste() -> Iterator[None]:
    """The pace of a short history: what would wait for seconds waits for hundredths."""
    before = pace.current
    pace.use(replace(Small().pace, capture_tables=1.0, capture_end=0.2))
    try:
        yield
    finally:
        pace.use(before)
