"""Faults at the ends of a cut-over, or of a return, at every place that the code has: servers that start again, lines that are
cut, and lines that stay away for some seconds. The command, capture and apply are in this process, and live on.

What does not live here: the job, its application, its ends (cutover.py), ends of processes (cutover_kills.py).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anabranch.cutover import machine, steps
from anabranch.cutover.machine import CutOver
from anabranch.cutover.report import CutoverReport
from anabranch.errors import AnabranchError
from anabranch.failpoints import POINTS
from anabranch.model.cutover import STEPS, Step
from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import PATIENCE
from rigs.cutover_kills import CUTOVER, FAILBACK, LIFTED, Killing

PLACES = tuple(name for name in POINTS if name.startswith("cutover.") and name != LIFTED)
BEFORE = "before the first step"
AWAY = 3.0  # seconds, at most
Place = tuple[Step | None, str]
# From here on a server that starts again lifts its fence, and nobody looks before the command has led the application away.
LED_AWAY = {(Step.FLIP, "cutover.noted"), (Step.FLIP, "cutover.opened"), (Step.FLIP, "cutover.flipped")}


@dataclass(frozen=True)
class Fault:
    """`end`: "source", which writers leave, or "target", to which they go. `kind`: its server starts again ("restart"), its
    lines are cut ("cut"), or new ones are not let in, either, for a time ("away")."""

    end: str
    kind: str

    def __str__(self) -> str:
        return f"{self.end}-{self.kind}"


FAULTS = tuple(Fault(end, kind) for kind in ("restart", "cut", "away") for end in ("source", "target"))
Drawn = Callable[[Place], Fault | None]


@dataclass
class Failing(Killing):
    """One of the two switches of a job, and what befalls its ends. `lines`: to each of them. `drawn`: what happens when a place
    is met for the first time."""

    lines: Mapping[Database, Proxy] = field(default_factory=dict)
    drawn: Drawn = lambda place: None
    met: dict[Place, Fault] = field(default_factory=dict)
    errors: list[tuple[Place, AnabranchError]] = field(
        default_factory=list
    )  # what commands ended with, and behind what
    _step: Step | None = None
    _last: Place = (None, "")
    _come_back: list[threading.Timer] = field(default_factory=list)

    # --- one command --------------------------------------------------------------------------------------------------------

    def once(self, abort: bool = False) -> None:
        """Run it, or its taking back, with the faults of all places that are met for the first time."""
        job, met, error = self.cut.here.job, len(self.met), None
        run, back = (job.cutover, job.abort_cutover) if self.verb == CUTOVER else (job.failback, job.abort_failback)
        with self._armed():
            try:
                if abort:
                    back(flip_undone=True, tell=self.told.append)
                else:
                    run(wait=PATIENCE, tell=self.told.append)
            except AnabranchError as found:
                error = found
                self.errors.append((self._last, found))
        for timer in self._come_back:
            timer.cancel()
            timer.join()
        self._come_back.clear()
        for line in self.lines.values():
            line.restore()
        is_known = error is None or "the fence does not hold" in error.message  # which an earlier fault has lifted
        assert is_known or len(self.met) > met, (error, self.told[-5:])
        self.look()

    @contextmanager
    def _armed(self) -> Iterator[None]:
        carry, plan = CutOver._carry_out, CutOver.plan

        def carry_out(one: CutOver, step: Step) -> None:
            self._step = step
            carry(one, step)

        def planned(one: CutOver) -> Any:
            self.meet(BEFORE)
            return plan(one)

        with self.patch.context() as patch:
            patch.setattr(CutOver, "_carry_out", carry_out)
            patch.setattr(CutOver, "plan", planned)
            for module in (machine, steps):
                patch.setattr(module, "reach", self.meet)
            yield

    def meet(self, name: str) -> None:
        """Let happen what is drawn for this place, once."""
        place = (None if name in (BEFORE, LIFTED) else self._step, name)
        if place in self.met or (fault := self.drawn(place)) is None:
            return
        self.met[place], self._last = fault, place
        end = self.ends[fault.end == "target"]
        if fault.kind == "restart":
            if place in LED_AWAY:
                self.leave()
            end.server.stop(immediate=True)
            end.server.start()
        elif fault.kind == "cut":
            self.lines[end].cut()
        else:
            self.lines[end].refuse()
            self._come_back.append(threading.Timer(AWAY, self.lines[end].restore))
            self._come_back[-1].start()

    # --- what has to be true ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Whoever is said to write does, and nobody else; a fence that does not stand is told, and shut again by hand where no
        command does it: behind a flip."""
        if self.at.is_flipped:
            shut_again(self.report, self.ends[0])
        elif self.verb == FAILBACK and not self.at.is_flip_unknown:
            shut_again(self.cut.here.job.cutover_status, self.ends[1])
        if not self.report().gaps:
            super().look()

    # --- whole ways -----------------------------------------------------------------------------------------------------

    def through(self) -> Mapping[Place, Fault]:
        """Go on after each fault, until it is through. Returns what happened where."""
        for _ in range(3 * len(STEPS) * len(PLACES)):
            self.once(abort=self.at.is_to_be_taken_back)
            if self.at.is_finished:
                return self.met
        raise AssertionError(f"it does not come to its end: {self.errors[-5:]}")


def shut_again(report: Callable[[], CutoverReport], end: Database) -> None:
    """Shut a MySQL or MariaDB whose fence a restart has lifted, by the statement that `--status` names."""
    if statements := re.findall(r"\((SET GLOBAL [^)]*)\)", " ".join(report().gaps)):
        end.execute(*statements)
        assert not report().gaps
