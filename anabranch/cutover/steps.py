"""Carry out the steps of a cut-over. Each may be repeated after any crash, and returns the facts that its note keeps.

What does not live here: their order, notes, and the taking back (`machine.py`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from anabranch.cutover import acting, looking
from anabranch.cutover.counted import pass_counters
from anabranch.cutover.fence import gaps_of
from anabranch.cutover.flip import flip
from anabranch.cutover.following import TICK, Following, said
from anabranch.cutover.terms import Ends, Terms
from anabranch.errors import DifferencesFound, NotCaughtUp, SourceError, StateError, TargetError
from anabranch.failpoints import reach
from anabranch.model.checks import CheckVerdict
from anabranch.model.cutover import OWNER, Cutover, Phase, Step, Verifies
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.view.opened import catalog_of
from anabranch.view.options import value_rules

PAUSE = 0.1  # seconds between two tries to fence, and between two looks in the grace time
Facts = Mapping[str, Any]
LOST = (
    "a MySQL or MariaDB that starts again lifts it, and so does this command where it is broken off and the target takes no "
    "note of that; else somebody has opened it. Start the command once more"
)


@dataclass(frozen=True)
class Steps:
    """The steps of one cut-over. `cutover` gives its notes as they are now; `note` adds one."""

    ends: Ends
    terms: Terms
    following: Following
    cutover: Callable[[], Cutover]
    note: Callable[[Step, Phase, Facts], None]

    def before(self, step: Step) -> Facts:
        """Return what has to be noted before a step does anything. Raises what keeps it from beginning."""
        if step == Step.FENCE:
            tables = self._tables()
            return {"tables": [str(table) for table in tables], "before": self.ends.fence.before(tables)}
        if step == Step.REVERSE:
            back = self.terms.way_back.name if self.terms.way_back.is_wanted else self._back()
            return {"job": back} if back else {}
        if step == Step.FLIP:
            self._last_look()
            return {"opens": True} if self.terms.way_back.is_held() else {}
        return {}

    def carry_out(self, step: Step) -> Facts:
        does: Mapping[Step, Callable[[], Facts]] = {
            Step.LAG: self._lag,
            Step.FENCE: self._fence,
            Step.DRAIN: self._drain,
            Step.HOLD: self._hold,
            Step.VERIFY: self._verify,
            Step.COUNTERS: self._counters,
            Step.CONSTRAINTS: self._constraints,
            Step.REVERSE: self._reverse,
            Step.FLIP: self._flip,
            Step.GRACE: self._grace,
        }
        return does[step]()

    def look_again(self) -> None:
        """Look whether a fence that was raised has outlived what ended the cut-over: one with gaps breaks it off before the
        flip, and is told behind it."""
        cutover = self.cutover()
        if not cutover.is_done(Step.FENCE) or cutover.next in (Step.FLIP, Step.REPORT):
            return  # not raised yet; the flip looks itself; or it does not matter any more
        if not cutover.is_flipped:
            self._require_fence()
            return
        for gap in self._gaps():
            self.terms.tell(f"ALARM: the fence does not hold any more: {gap}")

    # --- up to the fence ----------------------------------------------------------------------------------------------

    def _lag(self) -> Facts:
        """Follow commits of the source to the target until one is there in time."""
        self._require_tables()
        if self.terms.verifies is not Verifies.NOT:
            self._require_equal(self.terms.comparing.before(self.terms.verifies), "before")
        until = time.monotonic() + self.terms.wait
        while True:
            with catalog_of(self.ends.source) as catalog:
                mark, begun = catalog.mark(), time.monotonic()
            sequence = self.following.reached(mark, max(self.terms.wait, self.terms.max_lag))
            took = time.monotonic() - begun
            if took <= self.terms.max_lag:
                return {"seconds": round(took, 3), "sequence": sequence}
            if time.monotonic() > until:
                raise NotCaughtUp(
                    f"the target is {took:.1f} s behind, and [cutover] max_lag is {self.terms.max_lag:g} s",
                    job=self.ends.job.label,
                    hint="try again when it has caught up, or allow more",
                )

    def _fence(self) -> Facts:
        tables, before = self._tables(), self._fenced_before()
        until, told = time.monotonic() + self.terms.wait, list[str]()
        while inside := self.ends.fence.deny(tables, before):
            if inside != told:
                self.terms.tell("waits for " + "; ".join(inside[:5]))
                told = inside
            if time.monotonic() > until:
                raise SourceError(
                    f"writers are in the way for {self.terms.wait:g} s: {'; '.join(inside[:10])}",
                    job=self.ends.job.label,
                    hint="end their transactions, or wait longer: --wait SECONDS",
                )
            time.sleep(PAUSE)
        reach("cutover.denied")
        mark = self.ends.fence.mark(before)
        reach("cutover.marked")
        self._require_fence()
        return {"position": mark.native, "resume": mark.resume}

    # --- at the fence ---------------------------------------------------------------------------------------------------

    def _drain(self) -> Facts:
        sequence = self.following.reached(self._mark(), self.terms.wait)
        self._require_nothing_foreign()
        return {"sequence": sequence}

    def _hold(self) -> Facts:
        """Take the checkpoint from apply, which then stands still: the target is at the fence, and stays there."""
        writer = self.ends.target.writer(value_rules(self.ends.job), False)
        with closing(writer):
            writer.claim(self.ends.job.config.name, f"{OWNER}{uuid.uuid4().hex}")
        reach("cutover.claimed")
        self._require_nothing_foreign()
        self._require_tables()
        return {"sequence": self.following.at()}

    def _verify(self) -> Facts:
        if self.terms.verifies is Verifies.NOT:
            return {"skipped": "nobody asked for it: --verify"}
        self.terms.tell("compares both ends")
        differing, facts = self.terms.comparing.at_fence(self.terms.verifies)
        self._require_equal(differing, "at")
        return facts

    def _require_equal(self, differing: str, where: str) -> None:
        if differing:
            hint = "anabranch verify JOB shows them, --repair mends them"
            raise DifferencesFound(
                f"both ends differ {where} the fence: {differing}", job=self.ends.job.label, hint=hint
            )

    def _counters(self) -> Facts:
        found, lost = pass_counters(self.ends, self.terms.margin)
        if problems := [one.problem for one in found if one.problem]:
            raise TargetError("; ".join(problems), job=self.ends.job.label, hint=looking.TOO_SMALL)
        for one in lost:
            self.terms.tell(f"no counter at the target goes on behind {one}: {looking.NO_COUNTER}")
        return {"set": [{"table": str(c.table), "column": c.column, "next": c.next} for c in found], "not_set": lost}

    def _constraints(self) -> Facts:
        """Name what will not act on rows as it does at the source. It refuses nothing: the application may do without."""
        states = self.ends.store.states.tables(self.ends.job.config.name)
        found = acting.look(self.ends)
        for one in acting.told(found):
            self.terms.tell(f"{one.said}: {one.hint}")
        not_built = [line for _, state in sorted(states.items()) for line in state.facts.not_built]
        return {"not_built": acting.not_told(not_built, found), **found}

    def _reverse(self) -> Facts:
        """Let the way back through the fence, and let it begin: nobody but the cut-over has written to the target since apply
        stands still, so it begins exactly behind what came from the source."""
        if not (back := self._back()):
            return {"skipped": "the job does not ask for a way back: [reverse] enabled"}
        self.ends.fence.admit(self._tables(), self._fenced_before(), back)
        reach("cutover.admitted")
        return self.terms.way_back.arm()

    # --- the flip, and behind it ------------------------------------------------------------------------------------------

    def _last_look(self) -> None:
        """Look once more whether the fence stands, and whether anybody has come through it up to now."""
        self._require_fence()
        with catalog_of(self.ends.source) as catalog:
            now = catalog.mark()
        self.following.read(now, self.terms.wait)
        self._require_nothing_foreign()
        self._require_tables()

    def _flip(self) -> Facts:
        begun = time.monotonic()
        if self.cutover().facts(Step.FLIP, Phase.BEGINS).get("opens"):
            self.terms.way_back.open()
            reach("cutover.opened")
        flip(self.ends.job, self.terms.flip, self._mark().native)
        reach("cutover.flipped")
        return {"command": self.terms.flip[0], "seconds": round(time.monotonic() - begun, 3)}

    def _grace(self) -> Facts:
        """Watch the source until the grace time is over, which begins anew behind a kill: whoever still writes there writes
        what the target never gets."""
        if self.cutover().facts(Step.FLIP, Phase.BEGINS).get("opens"):
            self.terms.way_back.release()
        over = time.monotonic() + self.terms.grace
        told = [dict(n.facts) for n in self.cutover().notes if n.phase == Phase.ALARM]
        while True:
            is_last = time.monotonic() >= over
            if is_last:
                self._read_all()
            for row in self.following.foreign(self._mark(), self._drained()):
                if row not in told:
                    told.append(row)
                    self.note(Step.GRACE, Phase.ALARM, row)
                    self.terms.tell(f"ALARM: the source took a write behind the flip: {said([row])}")
            if is_last:
                gaps = self._gaps()
                for gap in gaps:
                    self.terms.tell(f"ALARM: the fence does not hold any more: {gap}")
                return {"alarms": len(told), "gaps": gaps}
            time.sleep(min(PAUSE, max(TICK, over - time.monotonic())))

    # --- what they have in common -------------------------------------------------------------------------------------------

    def _tables(self) -> list[TableId]:
        """Return the replicated tables: those of the fence, once it is noted."""
        noted = self.cutover().facts(Step.FENCE, Phase.BEGINS).get("tables")
        return (
            [TableId.parse(text) for text in noted]
            if noted
            else sorted(self.ends.store.states.tables(self.ends.job.config.name))
        )

    def _fenced_before(self) -> Facts:
        found: Facts = self.cutover().facts(Step.FENCE, Phase.BEGINS)["before"]
        return found

    def _back(self) -> str:
        """Return the job that the fence lets through, "" for none."""
        return str(self.cutover().facts(Step.REVERSE, Phase.BEGINS).get("job", ""))

    def _gaps(self) -> list[str]:
        return gaps_of(self.ends.fence, self.cutover())

    def _mark(self) -> LogMark:
        """Return the fence's place in the log."""
        facts = self.cutover().facts(Step.FENCE)
        return LogMark(facts["position"], facts["resume"])

    def _drained(self) -> int:
        """Return a sequence of the trail that is not behind the fence."""
        return int(self.cutover().facts(Step.LAG)["sequence"])

    def _read_all(self) -> None:
        with catalog_of(self.ends.source) as catalog:
            now = catalog.mark()
        self.following.read(now, self.terms.wait)

    def _require_fence(self) -> None:
        if gaps := self._gaps():
            said = f"the fence does not hold: {'; '.join(gaps[:10])}"
            raise SourceError(said, job=self.ends.job.label, hint=LOST)

    def _require_nothing_foreign(self) -> None:
        if rows := self.following.foreign(self._mark(), self._drained()):
            raise SourceError(
                f"the source took writes behind the fence: {said(rows)}",
                job=self.ends.job.label,
                hint="find out who writes there with rights that pass the fence, and stop it",
            )

    def _require_tables(self) -> None:
        states = self.ends.store.states.tables(self.ends.job.config.name)
        found = [*looking.tables(states, self.terms.allows_parked), *looking.unknown(self.ends, states)]
        failed = [one for one in found if one.verdict == CheckVerdict.FAILED]
        if failed:
            raise StateError("; ".join(one.message for one in failed), job=self.ends.job.label, hint=failed[0].hint)
