"""The manager's watch over its jobs: a thread that measures them each second and hands that to whoever keeps or judges it.

What does not live here: measuring (`measures.py`), keeping (`statistics.py`), judging (`alerts.py`).
"""

from __future__ import annotations

import threading
import time

from anabranch import log
from anabranch.config.hop_kinds import Kind
from anabranch.errors import AnabranchError
from anabranch.job import Job
from anabranch.manager.alerts import Alerts
from anabranch.manager.hop_view import HopMeasures, HopView
from anabranch.manager.jobs import Jobs, ManagedJob
from anabranch.manager.measures import ENDED, JobMeasures, Measure, of_nothing, with_state
from anabranch.manager.processes import LOG
from anabranch.manager.run_log import keep_short
from anabranch.manager.statistics import Statistics
from anabranch.manager.supervising import ProcessState, Supervision

TICK_S = 1.0
WRITE_S = 10.0


class Monitor:
    """The watch of one manager. `latest`: the measures of the last look, by job."""

    def __init__(self, jobs: Jobs, supervision: Supervision, statistics: Statistics, alerts: Alerts) -> None:
        self._jobs, self._supervision, self._statistics, self._alerts = jobs, supervision, statistics, alerts
        self._opened: dict[str, tuple[tuple[int, ...], JobMeasures | HopMeasures | None]] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._shorten_at = 0.0  # monotonic
        self.latest: dict[str, Measure] = {}

    def begin(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """End the watch; what was measured is written."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        for _, measures in self._opened.values():
            if measures is not None:
                measures.close()
        self._opened.clear()

    @property
    def has_died(self) -> bool:
        """Return whether its thread has begun, and is no more."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def look(self, now: float, at: int) -> dict[str, Measure]:
        """Measure every job once, and keep its log short now and then. `now`: monotonic seconds; `at`: seconds since 1970."""
        jobs = self._jobs.all()
        if now >= self._shorten_at:
            self._shorten_at = now + WRITE_S
            for job in jobs:
                self._keep_short(job.name)
        marks = self._jobs.marks(jobs)
        for name in self._opened.keys() - marks.keys():
            self._close(name)
        processes = self._supervision.states(jobs)
        found = {
            job.name: measure
            for job in jobs
            if (measure := self._measured(job, marks[job.name], processes[job.name], now)) is not None
        }
        self._statistics.note(at, found)
        self.latest = found
        self._alerts.look(now, found, {job.name for job in jobs if job.is_wanted})
        return found

    def _run(self) -> None:
        begun = time.monotonic()
        looks, write = 0, begun + WRITE_S
        while not self._ends.wait(max(0.0, begun + looks * TICK_S - time.monotonic())):
            now = time.monotonic()
            looks = max(looks + 1, int((now - begun) / TICK_S) + 1)  # a look that came late leaves a gap
            self._guarded(now, is_due := now >= write)
            write = now + WRITE_S if is_due else write
        self._guarded(time.monotonic(), True)

    def _guarded(self, now: float, is_due: bool) -> None:
        at = int(time.time())
        try:
            self.look(now, at)
            if is_due:
                self._statistics.write(at)
        except (AnabranchError, OSError) as error:  # a full disk, say: tried again
            log.get().error("monitoring_failed", error=str(error))

    def _keep_short(self, name: str) -> None:
        """Keep the log of a job short."""
        try:
            keep_short(f"{self._supervision.home}/{name}/{LOG}")
        except OSError as error:  # no room: tried again
            log.get(job=name).debug("log_not_shortened", error=str(error))

    def _measured(self, job: ManagedJob, mark: tuple[int, ...], process: ProcessState, now: float) -> Measure | None:
        """Return a job's measures; None, which leaves a gap, where its home cannot be read now. `mark`: as Jobs.mark has it."""
        measures = self._measures(job, mark)
        if measures is None:
            return of_nothing("failed" if job.is_wanted else "stopped", "its file cannot be read")
        try:
            return as_supervised(measures.now(now), job, process)
        except (AnabranchError, OSError) as error:
            log.get(job=job.name).debug("job_not_measured", error=str(error))
            return None

    def _measures(self, job: ManagedJob, mark: tuple[int, ...]) -> JobMeasures | HopMeasures | None:
        """Return what measures this version of a job; None where its file cannot be read, for want of a variable, say."""
        present = self._opened.get(job.name)
        found = present[1] if present else None
        if present is None or present[0] != mark:
            self._close(job.name)
            try:
                found = self._made(job.name)
            except AnabranchError as error:
                log.get(job=job.name).warning("job_not_measured", error=str(error))
                found = None
            self._opened[job.name] = mark, found
        return found

    def _made(self, name: str) -> JobMeasures | HopMeasures:
        if self._jobs.kind(name) is not Kind.JOB:
            return HopMeasures(HopView(self._jobs, name, self._supervision.home))
        return JobMeasures(Job.from_file(self._jobs.file(name), self._jobs.environment(name)))

    def _close(self, name: str) -> None:
        _, measures = self._opened.pop(name, (None, None))
        if measures is not None:
            measures.close()


def as_supervised(measure: Measure, job: ManagedJob, process: ProcessState) -> Measure:
    """Return a measure with what the manager knows better: a job that it keeps running has failed, or has no process."""
    if process.state == "failed":
        return with_state(measure, "failed", f"it ended with {process.code}, and a person has to mend that")
    if job.is_wanted and process.state == "waiting":
        said = f"it ended with {process.code}, and is started again"
        return with_state(measure, "died", f"it cannot be started: {process.problem}" if process.problem else said)
    if job.is_wanted and process.pid is not None and measure.state in ENDED:
        return with_state(measure, "starting", "")
    return measure
