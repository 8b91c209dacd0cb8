"""Kills of a cut-over, or of a return: at every place that the code has, by its own lists, so that new ones are met by
themselves. In this process, where a kill is an exception that nobody expects and takes nothing back, or by processes of their
own, which end as after SIGKILL, with all processes of the jobs.

What does not live here: the job, its application, its ends (cutover.py).
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.cutover.machine import CutOver
from anabranch.cutover.report import CutoverReport
from anabranch.failpoints import EXIT_CODE, LOG_VARIABLE, POINTS, VARIABLE, FailpointReached
from anabranch.model.cutover import STEPS, Cutover, Step
from anabranch.preflight.report import Report
from anabranch.testing.databases import Database
from anabranch.testing.in_time import PATIENCE, until
from rigs.cutover import FIRST, WAITING, Cut
from rigs.scenario import Running

CUTOVER, FAILBACK = "cutover", "failback"
NOTED, CARRIED_OUT, LIFTED = "cutover.noted", "cutover.carried.out", "cutover.lifted"
PLACES = tuple(name for name in POINTS if name.startswith("cutover.") and name not in (NOTED, LIFTED))
OF_A_RETURN = {"cutover.opened"}
_MARKS = itertools.count(1)  # values of rows that are waited for, each of them once
Met = set[tuple[Step | None, str]]


@dataclass
class Killing:
    """One of the two switches of a job, `verb`, and how it is killed."""

    cut: Cut
    verb: str
    patch: pytest.MonkeyPatch
    told: list[str] = field(default_factory=list)
    leave: Callable[[], object] = lambda: None  # who is killed leaves its application alone
    _looked: bool = False  # before it began: what is found then is not looked for again each time

    action = "raise"

    @property
    def at(self) -> Cutover:
        return self.report().cutover

    def report(self) -> CutoverReport:
        job = self.cut.here.job
        return job.cutover_status() if self.verb == CUTOVER else job.failback_status()

    @property
    def ends(self) -> tuple[Database, Database]:
        """The end that writers leave, and the one to which they go."""
        source, target = self.cut.made.source, self.cut.made.target
        return (source, target) if self.verb == CUTOVER else (target, source)

    def killed(self, points: Iterable[str], abort: bool = False) -> str:
        """Run it, or its taking back, and kill it at the first of these places, `name` or `name@n`. Returns that place's name,
        "" where it went through. What is said of who writes is true then."""
        where = self.run(";".join(self._arm(point) for point in points), abort)
        self.look()
        return where

    def _arm(self, point: str) -> str:
        name, _, number = point.partition("@")
        return f"{name}={self.action}@{number or 1}"

    def run(self, armed: str, abort: bool) -> str:
        """In this process."""
        job = self.cut.here.job
        run = job.cutover if self.verb == CUTOVER else job.failback
        back = job.abort_cutover if self.verb == CUTOVER else job.abort_failback
        does: Callable[..., object] = partial(back, flip_undone=True) if abort else partial(run, wait=PATIENCE)
        with self.patch.context() as patch:
            patch.setattr(CutOver, "_break_off", lambda *_: None)  # who is killed takes nothing back
            if self._looked:
                patch.setattr(CutOver, "plan", lambda one: Report(one.ends.job.label, ()))
            self._looked = True
            failpoints.arm({VARIABLE: armed})
            try:
                does(tell=self.told.append)
            except FailpointReached as reached:
                return str(reached)
            finally:
                failpoints.arm({})
        return ""

    def look(self) -> None:
        """Whoever is said to write does, and nobody else: never both ends, where both are fenced."""
        cutover, (source, target) = self.at, self.ends
        words, admits = cutover.who_writes(), self.cut.admits(source)
        if "nobody knows whether" not in words:
            assert admits == (not cutover.is_fenced), words
            assert (
                words.startswith(
                    "nobody writes"
                    if admits is False and not cutover.is_flip_unknown and not cutover.is_flipped
                    else ""
                )
                or cutover.is_finished
            ), words
        if self.verb == FAILBACK:
            assert not (admits and self.cut.admits(target)), f"both ends take writes: {words}"

    # --- whole ways -----------------------------------------------------------------------------------------------------

    def through(self) -> Met:
        """Kill it at every place of every step, and go on each time, until it is through. Returns where it was killed."""
        met: Met = set()
        where = self.killed([NOTED])
        while where:
            step = self.at.next
            assert (step, where) not in met, f"killed twice at {step}, {where}"
            met.add((step, where))
            where = self.killed([*(place for place in PLACES if (step, place) not in met), f"{NOTED}@2"])
        assert self.at.is_finished, self.told
        wanted = {(step, place) for step in STEPS if step != Step.REPORT for place in (NOTED, CARRIED_OUT)}
        assert met >= wanted, wanted - met
        here = set(PLACES) - (OF_A_RETURN if self.verb == CUTOVER else set())
        assert {place for _, place in met} == {NOTED, *here}, "a place is met in no step"
        return met

    def taken_back(self, arrived: Callable[[], object]) -> None:
        """Kill it at each step up to the flip, before it is carried out and behind it, then take it back, killed there once.
        `arrived` waits until what is written behind that is at the other end."""
        for number, step in enumerate(STEPS[: STEPS.index(Step.GRACE)], 1):
            assert self.killed([f"{NOTED}@{number}"]) == NOTED and self.at.next == step
            if self.at.is_fenced:
                assert self.killed([CARRIED_OUT]) == CARRIED_OUT and self.at.next == step
            assert self.killed([LIFTED], abort=True) == LIFTED and self.at.is_to_be_taken_back
            assert self.killed([], abort=True) == "" and self.at.is_aborted
            arrived()


@dataclass
class KillingProcesses(Killing):
    """With commands, and `anabranch run` of both jobs, as processes: all of them end, and those of the jobs begin again."""

    action = "exit"
    runs: dict[Path, Running] = field(default_factory=dict)
    _logs: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, armed: str, abort: bool) -> str:
        log = self.cut.made.directory / f"points-{self.verb}-{next(self._logs)}"
        self.patch.setenv(VARIABLE, armed)
        self.patch.setenv(LOG_VARIABLE, str(log))
        result = self.cut.made.cli(self.verb, *(("--abort", "--flip-undone") if abort else WAITING), code=None)
        self.patch.delenv(VARIABLE)
        self.patch.delenv(LOG_VARIABLE)
        assert result.code in (0, EXIT_CODE), result.stderr
        acted = [line.partition("=")[0] for line in log.read_text().splitlines() if "=" in line]
        assert len(acted) == bool(result.code), (armed, acted)
        if acted:
            self.end(*self.runs)
            self.begin(*self.runs)
        return "".join(acted)

    def begin(self, *files: Path) -> None:
        """Start the jobs of these files."""
        for file in files:
            made = copy.copy(self.cut.made)
            made.name = file.stem
            self.runs[file] = made.start("run")

    def end(self, *files: Path) -> None:
        """Kill all that these jobs consist of."""
        for file in files:
            if (running := self.runs.get(file)) is not None:
                with suppress(ProcessLookupError):
                    running.kill()


def once(rows: list[int], acknowledged: Iterable[int]) -> None:
    """Each value that a writer was told is there is there, and none is there twice."""
    found = Counter(value for value in rows if value > FIRST)
    assert set(acknowledged) <= set(found), sorted(set(acknowledged) - set(found))[:10]
    assert not (twice := [value for value, times in found.items() if times > 1]), twice[:10]


def arrives(cut: Cut, source: Database, target: Database) -> None:
    """Wait until a row that is written now is at the other end."""
    value = -next(_MARKS)
    source.execute(f"INSERT INTO {cut.there('item') if source is cut.made.target else 'item'} (v) VALUES ({value})")
    until(lambda: value in cut.rows(target), f"{value} is at the other end")
