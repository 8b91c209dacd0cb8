"""The machine of a cut-over: one step after the other, noted before and behind; broken off, taken back, gone on with.

An error before the flip opens the source again, and forward goes on as if nothing had been. A kill leaves everything as it
is: the notes say who writes then, and the same command goes on. What does not live here: what a step does (`steps.py`).
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from anabranch.cutover import looking
from anabranch.cutover.fence import lifted
from anabranch.cutover.flip import FlipRefused, flip_lock
from anabranch.cutover.following import Following
from anabranch.cutover.report import CutoverReport, report_of, write_files
from anabranch.cutover.steps import PAUSE, Steps
from anabranch.cutover.terms import Ends, Terms
from anabranch.errors import AnabranchError, Fenced, SourceError, StateError, TargetError, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.model.cutover import Cutover, CutoverNote, Phase, Step, Verifies
from anabranch.preflight.report import Report
from anabranch.trail.reader import TrailReader
from anabranch.version import __version__

LIFT_SECONDS = 10.0  # for readers that keep us from removing what refuses nobody any more, and for who is in the way

SAID: Mapping[Step, str] = {
    Step.LAG: "the target is {seconds:.1f} s behind",
    Step.FENCE: "the source is fenced, at {position}",
    Step.DRAIN: "the target is at the fence, {sequence}",
    Step.HOLD: "apply stands still",
    Step.VERIFY: "both ends are equal: {said}",
    Step.COUNTERS: "{number} counters are set",
    Step.CONSTRAINTS: "what could not be built: {not_built}",
    Step.REVERSE: "{said}",
    Step.FLIP: "{command} has ended well: the target takes writes",
    Step.GRACE: "{alarms} alarms",
}


class CutOver:
    """A cut-over of one job at one target; one process at a time."""

    def __init__(self, ends: Ends, terms: Terms) -> None:
        self.ends, self.terms = ends, terms
        self._job = ends.job.config.name
        ends.store.prepare()
        self._cutover = Cutover.of(ends.store.cutovers.cutover_notes(self._job))
        self._unsure: CutoverNote | None = None  # the target may have it: the answer was lost
        if self._cutover.is_under_way:  # what was asked for when it began still is
            began = self._cutover.facts(Step.BEGIN, Phase.BEGINS)
            self.terms = replace(
                terms,
                verifies=terms.verifies.or_more(Verifies.noted(began)),
                allows_parked=terms.allows_parked or bool(began.get("allow_parked")),
            )

    @cached_property
    def _following(self) -> Following:
        """Open the trail, which taking back does without."""
        return Following(self.ends.job, self.ends.store, TrailReader(self.ends.job.trail), self.ends.source.order)

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self.ends, self.terms, self._following, lambda: self._cutover, self._note)

    def plan(self) -> Report:
        """Look what keeps it from being begun. Nothing is changed."""
        return Report(self.ends.job.label, tuple(looking.look(self.ends, self.terms, self._following, self._cutover)))

    def run(self) -> CutoverReport:
        """Cut over, or go on with what was begun. Returns when the grace time is over. Raises PreflightFailed where it cannot
        begin, and whatever broke it off: the message says who writes then."""
        if self._cutover.is_fenced and self._cutover.is_under_way:
            self._refuse_half_taken_back()
            flip_lock(self.ends.job).close()
            self.terms.tell(f"goes on: {self._cutover.who_writes()}")
        else:  # also where one was begun and did nothing yet: its look at the lag is old
            self.plan().require()
            wishes = {
                **self.terms.verifies.facts,
                "allow_parked": self.terms.allows_parked,
                "returns": self.terms.returns,
            }
            self._note(Step.BEGIN, Phase.BEGINS, {**_who(), **wishes})
        try:
            self._steps.look_again()
            while (step := self._cutover.next) is not None:
                self._carry_out(step)
        except BaseException as error:  # Ctrl-C, too: whatever it was, it is broken off, and passed on
            self._break_off(error)
            raise
        return report_of(self.ends.job.label, self._cutover)

    def abort(self, is_flip_undone: bool = False) -> None:
        """Take everything back. Raises StateError where there is nothing to take back, or it is too late."""
        cutover = self._cutover
        if not cutover.is_under_way or cutover.is_flipped or (cutover.is_flip_unknown and not is_flip_undone):
            raise StateError(f"nothing can be taken back: {cutover.who_writes()}", job=self.ends.job.label)
        flip_lock(self.ends.job).close()
        self._take_back()

    def close(self) -> None:
        if "_following" in vars(self):
            self._following.trail.close()
        self.ends.fence.close()

    # --- steps ----------------------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step) -> None:
        if step == Step.REPORT:
            self._report()
            return
        was_unknown = step == Step.FLIP and self._cutover.is_flip_unknown
        if step != Step.FENCE or not self._cutover.has(step, Phase.BEGINS):  # what was there before it is noted once
            self._note(step, Phase.BEGINS, self._steps.before(step))
        reach("cutover.noted")
        try:
            facts = self._steps.carry_out(step)
        except AnabranchError as error:
            # The command says that it did nothing; or it was not started now, and had not been before.
            if step == Step.FLIP and (isinstance(error, FlipRefused) or not was_unknown):
                self._note_failure(step, error)
            raise
        reach("cutover.carried.out")
        self._note(step, Phase.DONE, facts)
        self.terms.tell(_line(step, facts))

    def _note_failure(self, step: Step, error: AnabranchError) -> None:
        try:
            self._note(step, Phase.FAILED, {"error": error.message})
        except TargetError as lost:
            error.add_note(f"and the target took no note of it: {lost.message}")

    def _report(self) -> None:
        """Write what a person reads of it, with the note that ends it, then that note: behind it nobody writes it again."""
        end = self._next_note(Step.REPORT, Phase.DONE, _who())
        whole = Cutover.of([*self._cutover.notes, end])
        write_files(self.ends.job.target_home, report_of(self.ends.job.label, whole))
        reach("cutover.reported")
        self._keep(end)

    # --- taking back ----------------------------------------------------------------------------------------------------

    def _break_off(self, error: BaseException) -> None:
        """Open the source again, where nobody uses the target yet; else say what holds."""
        if isinstance(error, Fenced):
            self._give_way()
            return
        cutover = self._cutover
        if not cutover.is_under_way or cutover.is_flipped or cutover.is_flip_unknown:
            self.terms.tell(cutover.who_writes())
            return
        self.terms.tell("broken off: the source is opened again")
        self.ends.store.close()  # an interrupt may have left its connection in the middle of an answer
        try:
            self._take_back()
        except AnabranchError as second:
            error.add_note(f"and the taking back has not ended: {second}; {cutover.command} --abort goes on with that")

    def _give_way(self) -> None:
        """Another process, with another home, is at the same cut-over. What it has taken back stays so: a fence that was raised
        here meanwhile is lifted by what was noted before it."""
        mine, self._cutover = self._cutover, Cutover.of(self.ends.store.cutovers.cutover_notes(self._job))
        if mine.is_fenced and (self._cutover.is_aborted or self._cutover.is_to_be_taken_back):
            lifted(self.ends.fence, mine, LIFT_SECONDS)
        self.terms.tell(self._cutover.who_writes())

    def _take_back(self) -> None:
        """Lift the fence, then let apply go on. A target that takes no note does not keep the source shut."""
        try:
            self._note(Step.ABORT, Phase.BEGINS, _who())
        except Fenced:
            raise
        except TargetError as error:
            self.terms.tell(f"the target takes no note of it: {error.message}")
        self._shut()
        left = lifted(self.ends.fence, self._cutover, LIFT_SECONDS) if self._cutover.is_fenced else []
        reach("cutover.lifted")
        left += self._disarm()
        try:
            self._note(Step.ABORT, Phase.DONE, {"left": left})
        except TargetUnavailable:
            go_on = f"{self._cutover.command} --abort, when it is back"
            self.terms.tell(f"the source takes writes again; the target has no note of that until then: {go_on}")
            raise
        self.terms.tell(self._cutover.who_writes())
        if left:
            self.terms.tell(f"what is left refuses nobody, and is removed by hand: {'; '.join(left)}")

    def _shut(self) -> None:
        """Shut the target again, where the flip had opened it: before that the source stays shut, so that there are never two
        sides that take writes. Raises TargetError where somebody is in the way."""
        if not self._cutover.facts(Step.FLIP, Phase.BEGINS).get("opens"):
            return
        until = time.monotonic() + LIFT_SECONDS
        while inside := self.terms.way_back.shut():
            if time.monotonic() > until:
                said = f"the target cannot be shut again, where the flip had opened it: {'; '.join(inside[:5])}"
                raise TargetError(said, job=self.ends.job.label, hint="end their transactions, then --abort again")
            time.sleep(PAUSE)

    def _disarm(self) -> list[str]:
        """Remove the way back, where it may have been armed; behind the fence's end, which may keep its state from being
        written."""
        if not self._cutover.facts(Step.REVERSE, Phase.BEGINS):
            return []
        return self.terms.way_back.disarm()

    def _refuse_half_taken_back(self) -> None:
        if self._cutover.is_to_be_taken_back:
            raise StateError(self._cutover.who_writes(), job=self.ends.job.label)

    def _note(self, step: Step, phase: Phase, facts: Mapping[str, Any]) -> None:
        if self._unsure is not None:
            self._has(self._unsure)
        self._keep(self._next_note(step, phase, facts))

    def _next_note(self, step: Step, phase: Phase, facts: Mapping[str, Any]) -> CutoverNote:
        return CutoverNote(self._cutover.last + 1, step, phase, time.time_ns() // 1000, facts)

    def _keep(self, note: CutoverNote) -> None:
        """Add a note. One whose answer is lost with the line may be there: it is looked for, and added once more if not."""
        self._unsure = note
        try:
            self.ends.store.cutovers.note_cutover(self._job, note)
        except TargetUnavailable:
            self.ends.store.close()
            if self._has(note):
                return
            self.ends.store.cutovers.note_cutover(self._job, note)
        self._unsure = None
        self._cutover = Cutover.of([*self._before(note.step), note])

    def _has(self, note: CutoverNote) -> bool:
        """Look whether the target has this note as its last one, which is true of the cut-over then."""
        notes = self.ends.store.cutovers.cutover_notes(self._job)
        is_there = bool(notes) and _same(notes[-1], note)
        if is_there:
            self._cutover = Cutover.of(notes)
        self._unsure = None
        return is_there

    def _before(self, step: Step) -> tuple[CutoverNote, ...]:
        return () if step == Step.BEGIN else self._cutover.notes


def alarmed(report: CutoverReport) -> SourceError | None:
    """Return the error of a cut-over that is through, and whose source took writes behind the flip."""
    gaps = report.cutover.facts(Step.GRACE).get("gaps")
    if gaps and not report.alarms:
        return SourceError(f"the target is in use, and the fence does not hold: {'; '.join(gaps)}", job=report.job)
    if not report.alarms:
        return None
    hint = "anabranch trail show JOB --from POSITION shows them: they are not at the target, bring them there by hand"
    return SourceError(f"the source took {len(report.alarms)} rows behind the flip", job=report.job, hint=hint)


def _same(one: CutoverNote, other: CutoverNote) -> bool:
    """Return whether they are one note: no two processes write the same step in the same microsecond."""
    return (one.number, one.step, one.phase, one.at) == (other.number, other.step, other.phase, other.at)


def _who() -> dict[str, Any]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may not know a name for the number
        user = str(os.getuid())
    return {"user": user, "host": os.uname().nodename, "pid": os.getpid(), "release": __version__}


def _line(step: Step, facts: Mapping[str, Any]) -> str:
    """Say, for people, what a step has done."""
    if "skipped" in facts:
        return f"{step}: skipped, {facts['skipped']}"
    counted = {"number": len(facts.get("set", ())), "not_built": "; ".join(facts.get("not_built", ())) or "nothing"}
    return f"{step}: " + SAID.get(step, "done").format_map({**facts, **counted})
