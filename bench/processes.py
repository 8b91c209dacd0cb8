"""Programs under measurement: started, timed, ended; processor time and resident memory from the kernel (proc(5))."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from anabranch.demo.child import descendants

TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 60.0
TAIL_LINES = 30


class ProgramFailed(Exception):
    """A program ended as it should not; with the last lines that it printed."""


@dataclass(frozen=True)
class Use:
    """Of one kind of process: seconds of processors in a run, and the most MB that one of them had resident so far."""

    cpu: float
    rss: float


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of processors, and the most memory that was resident at once, in MB; `each`: by kind of
    process, servers too."""

    seconds: float
    cpu: float
    rss: float
    each: Mapping[str, Use] = field(default_factory=dict)


def measured(command: Sequence[object], environment: Mapping[str, str]) -> Cost:
    """Run a program to its end."""
    return piped((command, environment))


def piped(*programs: tuple[Sequence[object], Mapping[str, str]]) -> Cost:
    """Run a pipe of programs to its end, each in an environment of its own. The memory is the largest one's."""
    begin = time.monotonic()
    started: list[subprocess.Popen[bytes]] = []
    before: IO[bytes] | None = None
    for number, (command, environment) in enumerate(programs):
        is_last = number == len(programs) - 1
        program = subprocess.Popen(
            [str(part) for part in command],
            stdin=before or subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if is_last else subprocess.PIPE,
            env=dict(environment),
        )
        if before is not None:
            before.close()
        before = program.stdout
        started.append(program)
    ends = [os.wait4(program.pid, 0) for program in started]
    seconds = time.monotonic() - begin
    for (command, _), program, (_, status, _) in zip(programs, started, ends, strict=True):
        program.returncode = os.waitstatus_to_exitcode(status)
        if program.returncode:
            raise ProgramFailed(f"{command[0]} ended with {program.returncode}")
    used = [Use(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024) for _, _, usage in ends]
    each = {
        f"{Path(str(command[0])).name} {number}": use
        for number, ((command, _), use) in enumerate(zip(programs, used, strict=True), 1)
    }
    return Cost(seconds, sum(use.cpu for use in used), max(use.rss for use in used), each)


class Program:
    """A program in a session of its own, that dies with us. What it prints to stderr is kept, line by line."""

    def __init__(self, command: Sequence[object], environment: Mapping[str, str]) -> None:
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        self.name = " ".join(map(str, command))
        self.process = subprocess.Popen(
            [*prefix, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
            text=True,
        )
        self.said: list[tuple[float, str]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.rstrip()))

    def heard(self, words: str) -> float | None:
        """When it first said so."""
        return next((when for when, line in list(self.said) if words in line), None)

    def check(self) -> None:
        """Raises when it has ended by itself."""
        if self.process.poll() is not None:
            tail = "\n".join(line for _, line in self.said[-TAIL_LINES:])
            raise ProgramFailed(f"{self.name} ended with {self.process.returncode}\n{tail}")

    def ask(self, line: str) -> str:
        """Write a line to it and wait for the line that it answers."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait(STOP_SECONDS)
            self.check()
        return answer

    @property
    def tree(self) -> list[int]:
        return [self.process.pid, *descendants(self.process.pid)]

    def stop(self) -> None:
        """SIGTERM, and wait; SIGKILL for all of it when that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        for pid in self.tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop() if kind is None else self.kill()


def python(*arguments: object) -> list[object]:
    return [sys.executable, "-m", *arguments]


def cpu(pids: Sequence[int]) -> float:
    """Processor seconds of processes and of the children that they have waited for."""
    return sum(sum(map(int, facts[11:15])) / TICKS for pid in pids if (facts := _stat(pid)))


def own_cpu(pid: int) -> float:
    """Processor seconds of a process alone."""
    return sum(map(int, _stat(pid)[11:13])) / TICKS


def peak_rss(pids: Sequence[int]) -> float:
    """MB that the largest of these processes had resident at most."""
    return max((_status(pid).get("VmHWM", 0.0) for pid in pids), default=0.0)


def is_java(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    return False


def forget_peak(pids: Sequence[int]) -> None:
    """From here on `peak_rss` begins anew."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def until(condition: Callable[[], Any], seconds: float, what: str, pause: float = 0.005, check: Any = None) -> float:
    """Wait for `condition`; when it was true. `check` may raise why it never will be."""
    limit = time.monotonic() + seconds
    next_check = 0.0
    while not condition():
        now = time.monotonic()
        if now > limit:
            raise ProgramFailed(f"{what}: not within {seconds:.0f} s")
        if check is not None and now >= next_check:
            check()
            next_check = now + 0.2
        time.sleep(pause)
    return time.monotonic()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name: state first; 11..14 are utime, stime, cutime, cstime."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _status(pid: int) -> dict[str, float]:
    """The sizes of /proc/PID/status, in MB."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        sizes = (line.split() for line in lines if line.endswith(" kB"))
        return {name.rstrip(":"): int(size) / 1024 for name, size, _ in sizes}
    return {}
