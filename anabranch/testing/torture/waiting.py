"""Answers that both pipelines give in the same way: how far the job is, and what was reached on the way.

What does not live here: processes, faults.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anabranch.testing.databases import Database
from anabranch.testing.torture.contract import Fault, PipelineFailed
from anabranch.testing.torture.exempt import Noted
from anabranch.testing.torture.place import Looking, Place, until

CALM_SECONDS = 100.0  # a busy machine takes its time; what is not calm then counts for nothing
AT_FAILPOINTS = frozenset({"exit", "raise", "delay", "full"})


class Waiting:
    """Part of contract.Pipeline. `look_at` comes first; `failure` is what the thread that watches has found; `meets` is the
    failpoint at which the transactions begin that run during the load, "": at once. `looking` is at the first target;
    `joins_late`: it is not to wait until the tables of the other one stream."""

    looking: Looking
    lookings: tuple[Looking, ...] = ()  # at each target
    joins_late: bool = False
    others: tuple[Database, ...] = ()
    log: Path
    failure: BaseException | None = None
    meets: str = ""

    def look_at(self, place: Place) -> None:
        """The job of this place, begun afresh."""
        place.forget()  # what another run of the same seed may have left
        self.log = place.directory / "reached"
        self.lookings = place.lookings()
        self.looking = self.lookings[0]

    def tails(self) -> str:
        """The last lines of every process."""
        return ""

    def wait_loading(self, seconds: float) -> None:
        if self.meets:
            self._wait(lambda: self.meets in self.hits(), seconds, f"{self.meets} is reached")

    def wait_consistent(self, seconds: float) -> None:
        awaited = self.lookings[:1] if self.joins_late else self.lookings
        self._wait(lambda: all(one.is_consistent() for one in awaited), seconds, "every table streams")

    def wait_caught_up(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for one in self.lookings:
            self._wait(one.take_goal, deadline - time.monotonic(), "the source can be asked where it is")
        for one in self.lookings:
            job = one.job.label
            self._wait(one.is_at_goal, deadline - time.monotonic(), f"{job}: all up to {one.goal} is applied")
            self._wait(one.is_built, deadline - time.monotonic(), f"{job}: indexes and foreign keys stand")

    def beside(self) -> tuple[str, ...]:
        return ()

    def wrong_beside(self, seen: Mapping[str, Sequence[bytes]], losses: int) -> str:
        return ""

    def noted(self) -> Sequence[Noted]:
        return ()

    def definitions(self) -> Sequence[Sequence[tuple[str, str]]]:
        noted = (one.job.ddl_changes() for one in self.lookings)
        return [[(change.source.name, change.outcome.value) for change in changes] for changes in noted]

    def is_calm(self) -> bool:
        """Return whether no fault is under way or to come and every part is as it should be. Asked once all is committed."""
        raise NotImplementedError

    def unrest(self) -> str:
        """Say what is_calm waits for."""
        return "no fault is under way, and every part lives"

    def settle(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        is_calm = until(self.is_calm, min(seconds, CALM_SECONDS), self.look)
        if not is_calm:
            print(f"{self.log.parent.name}: not within {CALM_SECONDS:.0f} s: {self.unrest()}", file=sys.stderr)
        Waiting.wait_caught_up(self, deadline - time.monotonic())
        return is_calm

    def hits(self) -> frozenset[str]:
        return frozenset(line for line in self.reached() if "=" not in line)

    def reached(self) -> list[str]:
        """Lines of the failpoints' log."""
        with contextlib.suppress(FileNotFoundError):
            return self.log.read_text().splitlines()
        return []

    def acted(self, fault: Fault) -> int:
        """The process in which it happened, 0 for none."""
        for line in self.reached():
            text, _, pid = line.partition(" ")
            if pid and text == asked(fault):
                return int(pid)
        return 0

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        if not until(condition, seconds, self.look):
            raise PipelineFailed(f"not within {seconds:.0f} s: {what}\n{self.tails()}")

    def look(self) -> None:
        if self.failure is not None:
            raise self.failure


def asked(fault: Fault) -> str:
    """A fault at a failpoint, as the variable says it (failpoints.py)."""
    value = f":{fault.seconds:g}" if fault.seconds and fault.kind in ("delay", "full") else ""
    return f"{fault.where}={fault.kind}{value}" + (f"@{fault.nth}" if fault.nth > 1 else "")
