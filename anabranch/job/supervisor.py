"""`run`: preflight, then the parts as children of this process, watched and started again when they die.

A part that ends with an error which time may heal, or that was killed, is started again with a growing pause, five times
an hour; then `run` ends with that part's code. When `run` itself dies, its parts see their input close and end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError, NotCaughtUp, TablesParked
from anabranch.job.caughtup import CaughtUp, Progress
from anabranch.job.display import Display
from anabranch.job.signals import SUPERVISED, Stop
from anabranch.job.watching import part
from anabranch.preflight.report import Report
from anabranch.state.store import StateStore

if TYPE_CHECKING:
    from anabranch.job.job import Job

RESTARTS_PER_HOUR = 5
STOP_SECONDS = 60.0  # for the running epoch; then a part is killed, which costs nothing but work
TICK = 0.2
FINAL_CODES = frozenset({2, 3, 5, 6, 7})  # the part has said what a person has to do


class PartFailed(AnabranchError):
    """A part ended for good; its own messages are on stderr already."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} ended with code {code}", hint="its message stands above and in anabranch status")
        self.exit_code = code


@dataclass
class Child:
    """One part as a process of its own. `ended_well` once it exited with 0."""

    name: str
    command: list[str]
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
        elif code == 0:
            self.ended_well = True
        elif code is not None:
            self._again(code, now)

    def _again(self, code: int, now: float) -> None:
        while self.restarts and now - self.restarts[0] > 3600:
            self.restarts.popleft()
        if code in FINAL_CODES or len(self.restarts) >= RESTARTS_PER_HOUR:
            raise PartFailed(self.name, code if code > 0 else 128 - code)
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
    """Runs a job on this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stop = Stop()
        self.state = StateStore(job.config.home)

    def run(self, *, until_caught_up: bool = False, seconds: float | None = None) -> None:
        """Raises what ended it: PreflightFailed, PartFailed, NotCaughtUp, TablesParked."""
        self.stop.listen()
        with part(self.state, "run"):
            self.state.clear_last_error()
            self._preflight()
            children = [self._child(name) for name in ("capture", "load", "apply")]
            try:
                self._watch(children, until_caught_up, seconds)
            finally:
                self._end(children)
                self.state.phase("stopped")
        self.state.close()

    def _preflight(self) -> None:
        self.state.phase("preflight")
        report = self.job.preflight()
        if report.verdict != "ok":
            Report(report.job, report.warnings + report.failed).write(sys.stderr)
        report.require()
        self.state.phase("waiting", "for the parts to start")

    def _child(self, name: str) -> Child:
        return Child(name, [sys.executable, "-m", "anabranch", name, str(self.job.path)])

    def _watch(self, children: list[Child], until_caught_up: bool, seconds: float | None) -> None:
        progress = Progress(self.job)
        caught_up = CaughtUp(progress)
        deadline = None
        with Display(self.job, self.state) as display:
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
