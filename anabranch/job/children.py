"""The parts of a job as processes of their own, started again when they die.

What does not live here: which there are, and when the job ends (`supervisor.py`, `lanes.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anabranch import log, pace
from anabranch.errors import AnabranchError
from anabranch.job.forking import ForkedProcess, ForkServer
from anabranch.job.signals import SUPERVISED

RESTARTS_PER_HOUR = 5
PROGRAM = (sys.executable, "-m", "anabranch")
FINAL_CODES = frozenset({2, 3, 5, 6, 7})  # the part has said what a person has to do


class PartFailed(AnabranchError):
    """A part ended for good; its own messages are on stderr already."""

    code = "part_failed"

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} ended with code {code}", hint="its message stands above and in anabranch status")
        self.exit_code = code or 1


class Process(Protocol):
    """A running process, as far as it is used here; subprocess.Popen is one."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


@dataclass
class Forks:
    """Start commands as forks of `server`, as long as there is one; else, and in another Python's environment, as programs."""

    server: ForkServer | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> Process:
        words = [*command[len(PROGRAM) :]]
        if self.server is not None and tuple(command[: len(PROGRAM)]) == PROGRAM:
            try:
                return ForkedProcess(self.server.fork([words, dict(environment)]))
            except OSError as error:  # no room for it: perhaps for a program
                log.get().warning("not_forked", error=str(error))
            except RuntimeError as error:  # somebody has killed it, say
                log.get().warning("forks_given_up", error=str(error))
                self.end()
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)

    def end(self) -> None:
        """Let the server end; from here on all are programs."""
        if self.server is not None:
            self.server.close()
            self.server = None


_forks = Forks()


def fork_by(server: ForkServer) -> None:
    """Let all parts that this process starts be forks of `server`."""
    _forks.server = server


def end_forks() -> None:
    """Let what forks parts end, so that nobody else has to wait for it."""
    _forks.end()


@dataclass
class Child:
    """A part as a process of its own. If it `may_end`, it has `ended_well` once it exited with 0."""

    name: str
    command: list[str]
    may_end: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    process: Process | None = None
    ended_well: bool = False
    restarts_per_hour: int = RESTARTS_PER_HOUR  # -1: always
    restarts: deque[float] = field(default_factory=deque)
    restarted: int = 0  # times, since this process began
    not_before: float = 0.0
    _is_renewed: bool = False  # it was asked to end, so that it starts again

    def start(self) -> None:
        self._is_renewed = False
        environment = {**os.environ, SUPERVISED: "1", **self.environment}
        self.process = _forks.start(self.command, environment)

    def poll(self, now: float) -> None:
        """Start, or start again, what should be running. Raises PartFailed."""
        if self.ended_well or now < self.not_before:
            return
        code = self.process.poll() if self.process else None
        if self.process is None:
            self.start()
        elif code == 0 and self.may_end:
            self.ended_well = True
        elif code is not None and self._is_renewed:
            self.start()
        elif code is not None:
            self._again(code, now)

    def _again(self, code: int, now: float) -> None:
        while self.restarts and now - self.restarts[0] > 3600:
            self.restarts.popleft()
        if code in FINAL_CODES or 0 <= self.restarts_per_hour <= len(self.restarts):
            raise PartFailed(self.name, code if code >= 0 else 128 - code)
        self.restarts.append(now)
        self.restarted += 1
        self.not_before = now + min(pace.current.run_again * 2 ** (len(self.restarts) - 1), 30.0)
        log.get().warning("part_restarts", part=self.name, code=code, restart=len(self.restarts))
        self.process = None

    def again_at(self, moment: float) -> None:
        """Plan another try after it ended for good, as if it were the first."""
        self.process, self.not_before = None, moment
        self.restarts.clear()

    def renew(self, restarts_per_hour: int) -> None:
        """Let it end, and start again with what it reads by then, unless it is one that may end: that goes on. This is no death
        and is not counted. It may die of a new number of times."""
        self.restarts_per_hour = restarts_per_hour
        if not self.may_end:
            self.pause()

    def pause(self) -> None:
        """Let it end, to be started again by `poll`. It is asked once, since a second signal would end it at once, and
        this is no death."""
        if not self._is_renewed and self.process is not None and self.process.poll() is None:
            self._is_renewed = True
            self.stop()

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
            self.process.send_signal(signal.SIGKILL)  # in case it is in no session of its own yet
            self.process.wait()
