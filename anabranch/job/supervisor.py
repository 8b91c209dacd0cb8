"""`run`: preflight, then the parts as children of this process, watched and started again when they die.

A part that ends with an error which time may heal, or that was killed or stopped by somebody else, is started again with
a growing pause, five times an hour; then `run` ends with that part's code. When `run` itself dies, its parts see their
input close and end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError, NotCaughtUp, StateError, TablesParked
from anabranch.job import ends
from anabranch.job.caughtup import CaughtUp, Progress
from anabranch.job.display import Display
from anabranch.job.signals import SUPERVISED, Stop
from anabranch.job.watching import part
from anabranch.state.store import StateStore
from anabranch.trail.lock import LockHeld, OsLock

if TYPE_CHECKING:
    from anabranch.job.job import Job

RESTARTS_PER_HOUR = 5
LOCK = "run.lock"  # in the job's home
LOCK_SECONDS = 10.0  # a run that was just stopped may still end its parts
STOP_SECONDS = 60.0  # for the running epoch; then a part is killed, which costs nothing but work
TICK = 0.2
FINAL_CODES = frozenset({2, 3, 5, 6, 7})  # the part has said what a person has to do


class PartFailed(AnabranchError):
    """A part ended for good; its own messages are on stderr already."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} ended with code {code}", hint="its message stands above and in anabranch status")
        self.exit_code = code or 1


@dataclass
class Child:
    """One part as a process of its own. One that `may_end` has `ended_well` once it exited with 0."""

    name: str
    command: list[str]
    may_end: bool = False
    process: subprocess.Popen[bytes] | None = None
    ended_well: bool = False
    restarts: deque[float] = field(default_factory=deque)
    not_before: float = 0.0

    def start(self) -> None:
        environment = {**os.environ, SUPERVISED: "1"}
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, env=environment, start_new_session=True)

    def poll(self, now: float) -> None:
        """Start, or start again, what should be running. Raises PartFailed."""
        if self.ended_well or now < self.not_before:
            return
        code = self.process.poll() if self.process else None
        if self.process is None:
            self.start()
        elif code == 0 and self.may_end:
            self.ended_well = True
        elif code is not None:
            self._again(code, now)

    def _again(self, code: int, now: float) -> None:
        while self.restarts and now - self.restarts[0] > 3600:
            self.restarts.popleft()
        if code in FINAL_CODES or len(self.restarts) >= RESTARTS_PER_HOUR:
            raise PartFailed(self.name, code if code >= 0 else 128 - code)
        self.restarts.append(now)
        self.not_before = now + min(0.5 * 2 ** len(self.restarts), 30.0)
        log.get().warning("part_restarts", part=self.name, code=code, restart=len(self.restarts))
        self.process = None

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait for the end until `deadline`, then kill the part and what it started."""
        if not self.process:
            return
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Supervisor:
    """Runs a job on this machine. One at a time: a second one would end the first one's apply."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stop = Stop()

    def run(self, *, until_caught_up: bool = False, seconds: float | None = None) -> None:
        """Raises what ended it: PreflightFailed, PartFailed, NotCaughtUp, TablesParked; StateError for a second one."""
        with self.stop, only_one(self.job, self.stop), part(self.job, "run") as state:
            state.clear_last_error()
            self._preflight(state)
            ends.refuse_changed_job(self.job)
            children = [self._child(name) for name in ("capture", "load", "apply")]
            try:
                self._watch(children, state, until_caught_up, seconds)
            finally:
                self._end(children)
                state.phase("stopped")

    def _preflight(self, state: StateStore) -> None:
        state.phase("preflight")
        report = self.job.preflight()
        if report.verdict != "ok":
            report.write(sys.stderr, but="ok")
        report.require()
        state.phase("waiting", "for the parts to start")

    def _child(self, name: str) -> Child:
        return Child(name, [sys.executable, "-m", "anabranch", name, str(self.job.path)], may_end=name == "load")

    def _watch(self, children: list[Child], state: StateStore, until_caught_up: bool, seconds: float | None) -> None:
        progress = Progress(self.job)
        caught_up = CaughtUp(progress)
        deadline = None
        with Display(self.job, state) as display:
            while not self.stop.wait(TICK):
                now = time.monotonic()
                for child in children:
                    child.poll(now)
                progress.refresh()
                display.refresh(progress)
                if seconds is not None and deadline is None and progress.is_followed and progress.is_streaming:
                    deadline = now + seconds
                if until_caught_up and caught_up.is_reached():
                    return self._finish(progress)
                if until_caught_up and caught_up.has_goal:
                    state.drains()
                if deadline is not None and now > deadline:
                    return self._timed_out(until_caught_up, seconds)
        if until_caught_up:
            sys.exit(128 + (self.stop.signal or signal.SIGTERM))
        return None

    def _timed_out(self, until_caught_up: bool, seconds: float | None) -> None:
        if until_caught_up:
            raise NotCaughtUp(
                f"not caught up within {seconds:g} seconds of streaming",
                job=self.job.config.name,
                hint="start again with more time: it goes on from where it is",
            )

    def _finish(self, progress: Progress) -> None:
        parked = progress.parked()
        if parked:
            raise TablesParked(
                f"caught up, but {len(parked)} tables are parked: {', '.join(parked)}",
                job=self.job.config.name,
                hint="anabranch status JOB says why and what to do",
            )

    def _end(self, children: list[Child]) -> None:
        """Apply first, so that nothing it needs goes away under it; a second signal ends everything at once."""
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(children):
            child.stop()
        for child in reversed(children):
            child.end(deadline)


@contextlib.contextmanager
def only_one(job: Job, stop: Stop) -> Iterator[None]:
    """The job's home is ours to run, before anything starts."""
    try:
        job.config.home.mkdir(parents=True, exist_ok=True)
        lock = OsLock(job.config.home / LOCK, LOCK_SECONDS, stop.asked)
    except LockHeld as held:
        raise StateError(f"the job is being run by {held}", job=job.config.name, hint="stop that one first") from None
    except OSError as error:
        message = f"the home {job.config.home} cannot be used: {error.strerror}"
        raise StateError(message, job=job.config.name, hint="ANABRANCH_HOME says where jobs have their home") from None
    try:
        yield
    finally:
        lock.close()
