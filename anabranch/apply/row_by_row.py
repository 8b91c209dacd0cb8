"""Carrying out a group row by row: each change alone, in the source's order, in one target transaction that the caller
begins and commits.

What a policy covers is settled and noted; what the target refuses may be set aside. What does not live here: the steps
(`row_steps.py`), which changes may be set aside, and setting them aside (`aside/`), what a policy decides (`conflict.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.apply.abilities import MergeWriter
from anabranch.apply.aside.permitted import parks, touches
from anabranch.apply.aside.set_row_aside import set_aside
from anabranch.apply.conflict import Decider, Verdict, Where, note_of
from anabranch.apply.images import END, sequence_of
from anabranch.apply.pair import refuse_cascades, refuse_emptied
from anabranch.apply.pair_altering import fill_come
from anabranch.apply.pair_deletes import note_deleted
from anabranch.apply.pair_standing import note_standing
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.apply.row_steps import steps
from anabranch.apply.set_wise import carry_out_cascades
from anabranch.apply.stage import Disputable, Group
from anabranch.apply.unconverted import words
from anabranch.apply.work import Work
from anabranch.contracts import Conflict
from anabranch.failpoints import reach
from anabranch.rows.net import INSERT, Cascade, RowChange, TableNet

ATTEMPTS = 5  # of a row that users insert and delete while it is decided
BEHIND = "it waits behind an earlier change of the row"


@dataclass(frozen=True)
class RowByRow:
    """One attempt. `sets_aside`: changes that the target refuses may be set aside. `at_once`: checks that the target
    would make at the commit are made after each change, so that a refusal names a row."""

    progress: Progress
    writer: MergeWriter
    sets_aside: bool = False
    at_once: bool = False

    def carry_out(self, part: Group, work: Work) -> None:
        """Carry out the group. Raises Conflict, NeedsSlowWay, and RowRefused for a change that concerns set-aside rows."""
        writer, waits = self.writer, self._behind_rows_aside(part, work)
        for step in steps(part, work.context, work.removed, waits.__contains__):
            if isinstance(step, Disputable):
                number = len(work.asides)
                if step.order in waits:
                    waits.remove(step.order)
                    set_aside(step, work, self.progress, writer, BEHIND, is_first=False)
                elif self.sets_aside and step.change.table.key and not (step.ahead or step.follow):
                    self._settle_or_set_aside(step, work)
                else:
                    self.settle(step, work)
                if len(work.asides) > number:  # later changes may concern it
                    waits -= {order for order in waits if order > step.order}  # one before was not set aside: it parks
                    waits |= self._behind_rows_aside(part.within(step.order + 1, END), work)
            elif isinstance(step, RowChange):
                if not work.leaves_out(step):
                    work.reread_partial(step, has_row=writer.change(step))
            elif isinstance(step, TableNet):
                writer.merge(step)
            elif isinstance(step, Cascade):
                work.reread(step.child.source, writer.cascade(step, step.rules))
            else:
                refuse_emptied(step, work.context)
                writer.truncate(step, work.context.truncate)
        if waits:  # unchecked changes are not set aside, so these could not wait
            where = self.progress.where(sequence_of(min(waits), part.base))
            raise parks(touches(part, work.context)[min(waits)], where)
        reach("apply.one")

    def _behind_rows_aside(self, part: Group, work: Work) -> set[int]:
        """Return the orders of changes that wait behind others of their rows. Raises RowRefused for any other change
        that concerns set-aside rows."""
        found = touches(part, work.context)
        for order, touch in found.items():
            if not touch.waits:
                raise parks(touch, self.progress.where(sequence_of(order, part.base)))
        return set(found)

    def _settle_or_set_aside(self, step: Disputable, work: Work) -> None:
        """Carry out a change, or set it aside if the target refuses it. The change must need no staging table, and
        nothing may follow from it."""
        try:
            with self.writer.alone(self.at_once):
                self.settle(step, work)
        except Conflict as reason:
            why = refused(reason, self.progress.checkpoint.position).message
            set_aside(step, work, self.progress, self.writer, why)

    def settle(self, step: Disputable, work: Work, where: Where | None = None) -> None:
        """Carry out a change that may disagree with the target: do what its table's policy decides, and note the
        decision."""
        writer = self.writer
        # A waiting row is read again from the source; the cascades of its change still have to be carried out.
        waits = work.leaves_out(step.change)
        if step.unconverted and not waits:
            key = step.change.old_key or {name: step.change.values[name] for name in step.change.table.key}
            raise Conflict(step.change.table.source, words(step.unconverted), key)
        keys = work.context.keys
        decider = Decider(writer, keys is not None and step.change.table.source in keys.acting)
        verdict = Verdict(()) if waits else decider.decide(step.change, step.policy)
        refuse_cascades(step.change, step.policy, (*step.ahead, *step.follow))
        carry_out_cascades(step.ahead if verdict.stands else (), writer, work)
        if step.policy.pair and any(change.operation == INSERT for change in verdict.changes):
            verdict = self._inserted(step, decider, verdict)
        else:
            self._change(verdict)
        if verdict.wins:
            fill_come(step.change.table, step.policy, verdict.changes[0].old_key, writer)
        if verdict.removed is not None:
            note_deleted(self.progress.job, writer, step.change, verdict.removed.age)
        if verdict.again is not None:
            note_standing(self.progress.job, writer, step.change, verdict.again)
        if verdict.kind and not (step.may_be_gone and verdict.kind == "missing"):
            where = where or self.progress.where(step.sequence)
            writer.note(self.progress.job, note_of(step.change, step.policy, verdict, where))
            work.note(step.change.table.source, f"{verdict.kind}, {verdict.decision}")
            reach("apply.conflict.noted")
        carry_out_cascades(step.follow if verdict.stands else (), writer, work)

    def _change(self, verdict: Verdict) -> None:
        for change in verdict.changes:
            self.writer.change(change)

    def _inserted(self, step: Disputable, decider: Decider, verdict: Verdict) -> Verdict:
        """Carry out a decision for a row that was not there, which no lock holds: a user of this site may insert it meanwhile.
        Then it is decided anew. Returns the decision that was carried out. Raises Conflict for any other refusal."""
        for _ in range(ATTEMPTS):
            try:
                with self.writer.alone():
                    self._change(verdict)
                return verdict
            except Conflict:
                again = decider.decide(step.change, step.policy)
                if again == verdict:
                    raise
                verdict = again
        self._change(verdict)
        return verdict
