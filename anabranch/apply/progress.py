"""Progress of a job at its target: the checkpoint, the states of tables and what is followed, with every way to move them.

Delivery: after any crash the target is exactly at its checkpoint; nothing is applied twice (K9). After a COMMIT whose
answer was lost, and at a target that lost its last commits, the checkpoint row says where to go on.

What does not live here: carrying out the trail's transactions (`carry_out.py`), and trying again (`epoch.py`).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anabranch import spans
from anabranch.apply.abilities import StateWriter, appending
from anabranch.apply.aside.permitted import with_aside
from anabranch.apply.conflict import Where
from anabranch.apply.context import ApplyContext
from anabranch.apply.decided import Decided
from anabranch.apply.life.park import let_go
from anabranch.apply.patience import Patience
from anabranch.apply.settings import ApplySettings
from anabranch.apply.told import Totals, passed, tell
from anabranch.apply.told import now as clock
from anabranch.apply.work import Work
from anabranch.contracts import Begun, EpochWriter, ForgetsApplied, NotesApplied, TargetStore
from anabranch.errors import Fenced, StateError, TargetUnavailable, TrailError
from anabranch.failpoints import reach
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.trail.reader import TrailReader

T = TypeVar("T")
GONE = "restore the target, or drop and load the job again"


class OutOfStep(TargetUnavailable):
    """The error for a target that is not where this process left it: it lost its last commits, or has one whose answer
    was lost."""


def claim(job: str, writer: EpochWriter) -> str:
    """Make the checkpoint this process's own, and return the owner's new name. Whoever had it can no longer commit
    (K9)."""
    owner = uuid.uuid4().hex
    reach("apply.claim")
    writer.claim(job, owner)
    reach("apply.claimed")
    return owner


@dataclass
class Progress:
    """Keeps what the target said or committed last (`checkpoint`, `states`, `context`). One per apply process, for one
    thread at a time.

    An epoch is `begin`, its changes, `commit`. An epoch that does not end with a known commit leaves all of this in
    doubt: `look` then asks the target before anything else is done. States and what is followed change only by a commit
    here, by `look`, and by `learn`.
    """

    job: str
    trail: TrailReader
    writer: StateWriter
    store: TargetStore
    owner: str
    context_of: Callable[[Mapping[TableId, TableState]], ApplyContext]  # the tables that are followed, and how
    target_of: Callable[[TableId], TableId | None]  # the name at the target of a table that is first heard of
    settings: ApplySettings = field(default_factory=ApplySettings)
    sweep: Callable[[], None] = lambda: None  # removes what a failed epoch has staged at the target
    totals: Totals = field(default_factory=Totals)
    patience: Patience = field(default_factory=Patience)  # for both ends; a commit ends it
    checkpoint: Checkpoint = field(init=False)
    states: dict[TableId, TableState] = field(init=False, repr=False)
    context: ApplyContext = field(init=False, repr=False)
    skipped: Sequence[int] = field(default=(), init=False)  # transactions that are left out
    # Transactions with a note at the target that they are applied, beyond the checkpoint: sequences, positions
    ahead: dict[int, str] = field(default_factory=dict, init=False)
    uncounted: dict[int, Counter[TableId]] = field(default_factory=dict, init=False)  # their changes, by sequence
    catch_up: Callable[[], None] | None = None  # carries out what is missing before the last of them
    _began: int = field(default=0, init=False)  # when the running epoch was opened at the target
    _is_in_doubt: bool = field(default=True, init=False)
    _is_unsettled: bool = field(
        default=False, init=False
    )  # are there pipelined commits for whose disk nobody has waited?
    _has_notes: bool = field(default=False, init=False)  # may the target have notes of what is applied beyond?

    # --- what the target says ----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take over what the target says, if that is in doubt. Raises Fenced where another process owns the checkpoint."""
        if not self._is_in_doubt:
            return
        found = self.store.jobs.checkpoint(self.job)
        if found is None:
            raise StateError("the checkpoint row is gone", job=self.job, hint=GONE)
        if found.owner != self.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self.job)
        self.sweep()
        self.states = self.store.states.tables(self.job)
        self.context = self.with_aside(self.context_of(self.states), self.states)
        self.skipped = [one.sequence for one in self.store.journal.skipped(self.job)]
        self.checkpoint, self.ahead, self._is_in_doubt = found, {}, False
        try:
            if self._is_unsettled or self._notes():
                self.settle()  # a note counts when it is on the target's disk, as all is that was committed before this
            self._look_ahead()
        except BaseException:  # whatever it was: what is missing was not carried out, and it is passed on
            self._is_in_doubt = True
            raise

    def _look_ahead(self) -> None:
        """Take over what is applied beyond the checkpoint, and carry out what is missing before it, before anything else is
        done at the target. No session of ours notes more meanwhile: each does so only while the checkpoint is where its run
        began, and `settle` has moved it since."""
        noted = self._notes()
        self._has_notes |= bool(noted)
        self.ahead = self._beyond(noted, self.checkpoint)
        self.uncounted = {sequence: of for sequence, of in self.uncounted.items() if sequence in self.ahead}
        if not self.ahead:
            return
        if self.catch_up is None:
            what = f"{len(self.ahead)} transactions are applied beyond {self.checkpoint.position}"
            raise StateError(what, job=self.job, hint="start the job, which carries out what is missing between them")
        self.catch_up()

    @staticmethod
    def _beyond(some: Mapping[int, T], at: Checkpoint) -> dict[int, T]:
        return {sequence: of for sequence, of in some.items() if sequence > at.position.sequence}

    def _notes(self) -> Mapping[int, str]:
        jobs = self.store.jobs
        return jobs.applied(self.job) if isinstance(jobs, NotesApplied) else {}

    def with_aside(self, context: ApplyContext, states: Mapping[TableId, TableState]) -> ApplyContext:
        """Return the context with what is set aside. What is set aside stays so even if the job no longer sets anything
        aside."""
        found = self.store.asides.set_aside(self.job) if any(state.facts.set_aside for state in states.values()) else []
        return with_aside(context, found, self.settings.aside_limit, self.settings.sets_aside)

    def look_for_another(self) -> None:
        """Check for another owner. Without this, a process that was replaced would not end while nothing changes.
        Raises Fenced."""
        found = self.store.jobs.checkpoint(self.job)
        self._is_in_doubt |= found is None or found.owner != self.owner
        self.look()

    def ask_again(self) -> None:
        """Ask the target again, before the next epoch, where it is and what it enforces."""
        self._is_in_doubt = True

    def back_out(self) -> None:
        """Give up the running epoch, and take over what the target says."""
        self.writer.rollback()
        self.look()

    def learn(self, states: Iterable[TableState]) -> None:
        """Take over states that others have written, for tables that are not followed: those of a load, or of a table
        that is resumed."""
        self.states |= {state.source: state for state in states}

    def where(self, sequence: int) -> Where:
        """Return the source transaction with this sequence."""
        ref = self.trail.descriptors(sequence - 1, sequence)[-1]
        row = self.trail.transactions(ref).slice(sequence - ref.first_sequence, 1).to_pylist()[0]
        return Where(sequence, str(Position(sequence, row["native"])), row["commit_time"], row["gtid"])

    # --- epochs that carry out nothing of the trail: one attempt each, the caller tries again ------------------------------

    def move_on(self, position: Position, commit_time: int) -> None:
        """Move the checkpoint over log that holds nothing for us."""
        then = self.then(position, commit_time)
        self.begin(then)
        reach("apply.moved.on")
        self.commit(then, self.work())

    def save(self, *states: TableState) -> None:
        """Save new states of tables, at once."""
        then = self.here()
        self.begin(then)
        work = self.work()
        work.states |= {state.source: state for state in states}
        self.commit(then, work)

    def park(self, *states: TableState, decided: Iterable[Decided] = ()) -> None:
        """Take tables out, save these states of theirs, and note what that has decided."""
        then = self.here()
        self.begin(then)
        work = self.work()
        work.states |= {state.source: state for state in states}
        work.leave(state.source for state in states)
        work.decided += decided
        self.commit(then, work)

    def settle(self) -> None:
        """Commit once with the target's disk, after pipelined commits without a closing epoch. They count as applied,
        and release the trail, only when they are durable."""
        self.move_on(self.checkpoint.position, self.checkpoint.commit_time)
        self._is_unsettled = False

    # --- one epoch -----------------------------------------------------------------------------------------------------

    def then(self, position: Position, commit_time: int) -> Checkpoint:
        """Return the checkpoint of an epoch that ends at this position."""
        return Checkpoint(self.checkpoint.owner, self.checkpoint.epoch + 1, position, commit_time)

    def here(self) -> Checkpoint:
        """Return the checkpoint of an epoch that does not move on in the log."""
        return self.then(self.checkpoint.position, self.checkpoint.commit_time)

    def work(self, context: ApplyContext | None = None, states: Mapping[TableId, TableState] | None = None) -> Work:
        """Return the record of what an epoch changes besides rows. It begins with the present context and states, or
        with those given."""
        states = dict(self.states if states is None else states)
        return Work(
            self.context if context is None else context,
            states,
            self.target_of,
            self._has_joined,
            self.settings.actions,
        )

    def _has_joined(self, table: TableId, sequence: int) -> bool:
        """Return whether the table was brought in again after `sequence`."""
        return self.trail.history.joined_after(table, sequence)

    def begin(self, then: Checkpoint, now: Checkpoint | None = None) -> None:
        """Open the target's transaction. Its first statement moves the checkpoint from `now`, by default the one that
        is known here. Raises OutOfStep where the target is elsewhere."""
        self._is_in_doubt, self._began = True, clock()
        reach("apply.begin")
        if self.writer.begin(now or self.checkpoint, then) is not Begun.OPEN:
            raise OutOfStep(f"the target is not at {self.checkpoint.position} any more", job=self.job)
        reach("apply.begun")

    def commit(self, then: Checkpoint, work: Work) -> None:
        """Save the states that have changed, commit, and take over what the epoch noted."""
        for sequence in self.uncounted.keys() - self._beyond(self.uncounted, then):
            work.count({t: number for t, number in self.uncounted[sequence].items() if t in work.states})
        work.pass_windows(then.position.sequence)
        for table, state in work.states.items():
            before = self.states.get(table)
            if state is not before:
                same = before is not None and state.schema is before.schema
                self.writer.save_table(self.job, replace(state, schema=None) if same else state)
                reach("apply.saved")
        self._end_changes(work)
        forgotten = self.states.keys() - work.states.keys()
        for table in forgotten:
            self.writer.forget_table(self.job, table)
        for one in work.decided:
            self.writer.note_ddl(self.job, self._noted(one))
            reach("apply.ddl.noted")
        self._forget_notes(then.position.sequence)
        reach("apply.commit")
        with spans.span("commit"):
            self.writer.commit()
        reach("apply.committed")
        self.patience.success()
        kept = let_go(self.job, self.store, self.trail.directory, self.settings.names, forgotten)
        tell(self.job, self.checkpoint, then, work, forgotten - kept.keys())
        if then.position.sequence > self.checkpoint.position.sequence:
            parked = (table for table, state in work.states.items() if state.is_parked and self._was_not_parked(table))
            self.totals.passed.append(passed(self.checkpoint, then, self._began, work, parked))
        self.totals.transactions += then.position.sequence - self.checkpoint.position.sequence
        self.totals.changes += sum(work.counts.values())
        self.totals.epochs += 1
        self.checkpoint, self.context, self.states = then, work.context, {**work.states, **kept}
        self.ahead, self.uncounted = self._beyond(self.ahead, then), self._beyond(self.uncounted, then)
        self._has_notes, self._is_in_doubt = bool(self.ahead), False

    def _forget_notes(self, upto: int) -> None:
        """Remove the notes of transactions that the checkpoint passes. Raises OutOfStep where the target does not have all of
        them: it lost them, and with them what they say is applied."""
        if not (self._has_notes and isinstance(self.writer, ForgetsApplied)):
            return
        found, expected = self.writer.forget_applied(self.job, upto), sum(sequence <= upto for sequence in self.ahead)
        if found < expected:
            what = f"the target has lost {expected - found} transactions that were applied beyond"
            raise OutOfStep(f"{what} {self.checkpoint.position}", job=self.job)

    def _was_not_parked(self, table: TableId) -> bool:
        before = self.states.get(table)
        return before is None or not before.is_parked

    def _end_changes(self, work: Work) -> None:
        """Let readers of changes know of tables that are parked here, whatever parks them: nothing comes behind this place."""
        for table, state in work.states.items():
            before, followed = self.states.get(table), self.context.tables.get(table)
            if state.is_parked and before is not None and before.is_streaming and followed and appending(self.writer):
                self.writer.end(followed.table, self.checkpoint.position.sequence + 1)

    def _noted(self, decided: Decided) -> DdlChange:
        try:
            return decided.noted(self.where(decided.sequence))
        except TrailError:  # the trail has that transaction no longer
            return decided.noted(Where(decided.sequence, "", 0))

    def begin_pipeline(self) -> None:
        """Note that transactions are committed one by one from here on, and that the target's disk may not have all of
        them."""
        self._is_in_doubt = self._is_unsettled = True

    def notes_applied(self) -> None:
        """Note that transactions may be committed beyond the checkpoint from here on, with notes of them at the target."""
        self._has_notes = True

    def end_pipeline(self, number: int) -> None:
        """Note that a later epoch was committed with the target's disk. `number`: the epochs before it, which count as
        well."""
        self.totals.epochs += number
        self._is_unsettled = False
