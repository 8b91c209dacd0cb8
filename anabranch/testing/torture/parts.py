"""The processes of a job under torture: forked in milliseconds, watched, started again when a fault ended them.

What does not live here: what a part does (local.py), which faults there are and when they begin (pipeline.py).
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.failpoints import VARIABLE
from anabranch.job.forking import Forked
from anabranch.testing.torture.contract import SECOND, PipelineFailed
from anabranch.testing.torture.forks import fork
from anabranch.testing.torture.local import Small

PARTS = ("capture", "load", "apply")
OF_TWO = (*PARTS, f"load of {SECOND}", f"apply of {SECOND}")
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)  # a part that was asked to end
RESTARTS = 30  # of one part, after which something else is wrong
TAIL_LINES = 40


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: `error` is the class that it named, "" where it said nothing."""

    part: str
    pid: int
    code: int
    begun: float
    error: str
    message: str

    def __str__(self) -> str:
        return f"{self.part} ended with code {self.code}" + (f" ({self.error}: {self.message})" if self.error else "")


def target_of(part: str) -> str:
    """SECOND, or "" for a part of the first target or of the whole job."""
    return part.partition(" of ")[2]


@dataclass
class Running:
    """One process of a part, from its start. Times are of time.monotonic()."""

    part: str
    output: Path
    process: Forked
    begun: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.code() is None

    def ended(self) -> Ended | None:
        code = self.process.code()
        if code is None:
            return None
        last = Path(f"{self.output}.end")
        said = json.loads(last.read_text()) if last.exists() else {"class": "", "message": ""}
        return Ended(self.part, self.pid, code, self.begun, said["class"], said["message"])

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.process.wait(10)

    def tail(self) -> str:
        try:
            return "\n".join(self.output.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        except FileNotFoundError:
            return ""


@dataclass
class Parts:
    """The parts of one job. `start` begins them; `restart` takes the place of one that ended. `armed`: by target, the
    failpoints of its parts instead of all."""

    directory: Path
    job_file: Path
    environment: dict[str, str]
    small: Small = field(default_factory=Small)
    names: tuple[str, ...] = PARTS
    armed: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    others: list[Running] = field(default_factory=list)  # second owners, and those they came second to
    starts: dict[str, int] = field(default_factory=dict)

    def start(self, held: Container[str] = ()) -> None:
        for part in self.names:
            if part not in held:
                self.running[part] = self.begin(part)

    def is_alive(self, part: str) -> bool:
        """False also before it was begun."""
        return part in self.running and self.running[part].is_alive

    def begin(self, part: str) -> Running:
        number = self.starts[part] = self.starts.get(part, 0) + 1
        if number > RESTARTS:
            raise PipelineFailed(f"{part} was started {RESTARTS} times\n{self.tail(part)}")
        output = self.directory / f"{part.replace(' ', '.')}.{number}.log"
        environment = dict(self.environment)
        if part != "capture" and target_of(part) in self.armed:
            environment[VARIABLE] = self.armed[target_of(part)]
        return Running(part, output, fork(part, self.job_file, environment, output, self.small))

    def restart(self, part: str) -> None:
        self.running[part] = self.begin(part)

    def second(self, part: str) -> None:
        """Another process of a part whose first one stands still."""
        self.others.append(self.running[part])
        self.restart(part)

    def back(self, first: Running) -> None:
        """One that another was to replace, and that goes on."""
        self.others.remove(first)
        self.running[first.part] = first

    def tail(self, part: str) -> str:
        """The last lines of its last process."""
        return self.running[part].tail() if part in self.running else ""

    def tails(self) -> str:
        return "\n".join(f"--- {part}\n{self.tail(part)}" for part in self.running)

    def kill(self) -> None:
        for one in (*self.running.values(), *self.others):
            one.kill()
