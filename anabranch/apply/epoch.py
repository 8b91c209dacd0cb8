"""One epoch: the trail's transactions up to a place, carried out in one target transaction with the checkpoint.

The quick way merges net changes set-wise. A conflict rolls everything back and the epoch goes the slow way: one target
transaction per source transaction, each row change alone. What still conflicts there is refused by its key.

Delivery: after any crash the target is exactly at its checkpoint; nothing is applied twice (K9).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from anabranch import log
from anabranch.abc import Checkpoint, Conflict, TableState, Writer
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.feed import Feed, SourceTransaction
from anabranch.apply.images import order_of
from anabranch.apply.onebyone import steps
from anabranch.apply.plan import FilterImages, Group, Stage, group, stages
from anabranch.apply.staging import Executors, StagedPiece
from anabranch.apply.work import Work
from anabranch.errors import RowRefused, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import Cascade, RowChange
from anabranch.trail.reader import TrailReader

RECONNECT_SECONDS = 300.0


@dataclass
class Totals:
    """What this process has applied so far."""

    transactions: int = 0
    changes: int = 0
    epochs: int = 0
    slow_epochs: int = 0


@dataclass
class Applier:
    """Applies a job's trail to its target. One per apply process, one thread."""

    job: str
    trail: TrailReader
    writer: Writer
    context: ApplyContext
    states: dict[TableId, TableState]
    checkpoint: Checkpoint
    reload: Callable[[], Checkpoint]  # the checkpoint row as it is
    target_of: Callable[[TableId], TableId | None]
    filtered: FilterImages | None = None
    per_transaction: bool = False
    executors: Executors | None = None  # None: every epoch is planned here
    stop: Callable[[], bool] = lambda: False  # asked where a target that is away is waited for
    totals: Totals = field(default_factory=Totals)

    def apply(self, upto: int) -> None:
        """Carry out the transactions after the checkpoint, up to sequence `upto`."""
        if upto <= self.checkpoint.position.sequence:
            return
        feed = Feed(self.trail, self.checkpoint.position.sequence, upto)
        if self.per_transaction:
            self._one_after_the_other(feed)
            return
        try:
            self._with_reconnect(lambda: self._quick(feed))
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, upto)
            for transaction in feed.transactions():
                self._slow(transaction)

    def move_on(self, position: Position, commit_time: int) -> None:
        """Move the checkpoint over log that holds nothing for us."""
        then = self._then(position, commit_time)
        self._with_reconnect(lambda: self._commit(then, self._work()) if self._begin(then) else None)

    def put(self, changes: Iterable[RowChange], state: TableState) -> None:
        """One epoch of changes that are not from the trail (rows read again), with the table's new state."""
        some = list(changes)

        def once() -> None:
            then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
            if self._begin(then):
                work = Work(self.context, {**self.states, state.source: state}, self.target_of)
                for change in some:
                    self.writer.change(change)
                self._commit(then, work)

        self._with_reconnect(once)

    def join(self, state: TableState, replayed: ApplyContext, joined: ApplyContext) -> None:
        """One epoch that carries out a new table's part of the trail, from its window's begin to the checkpoint, by
        `replayed` (in which no other table has anything to do); afterwards `joined` holds."""
        try:
            self._with_reconnect(lambda: self._replay(state, replayed, joined, self._merge))
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, self.checkpoint.position.sequence)
            self._with_reconnect(lambda: self._replay(state, replayed, joined, self._row_by_row))

    def _replay(
        self,
        state: TableState,
        replayed: ApplyContext,
        joined: ApplyContext,
        carry_out: Callable[[Group, Work], None],
    ) -> None:
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        if not self._begin(then):
            return
        low, last = replayed.tables[state.source].low, then.position.sequence
        work = Work(replayed, {**self.states, state.source: state}, self.target_of)
        if low < last:
            for chunks in Feed(self.trail, low, last).groups():
                carry_out(group(chunks, work.context, self.filtered), work)
        work.context = joined if state.source in work.context.tables else self.context
        self._commit(then, work)

    # --- the quick way ---------------------------------------------------------------------------------------

    def _quick(self, feed: Feed) -> None:
        then = self._then(*feed.end())
        by_executors = self.executors is not None and self.executors.takes(feed, self.context)
        staged = self.executors.stage(feed, self.context) if self.executors and by_executors else []
        if not self._begin(then):
            return
        work = self._work()
        for piece in staged:
            self._merge_staged(piece, work)
        if not staged:
            for chunks in feed.groups():
                self._merge(group(chunks, work.context, self.filtered), work)
        self._commit(then, work)

    def _merge(self, part: Group, work: Work) -> None:
        for stage in stages(part, work.context):
            self._truncate(stage, work)
            for net in stage.nets:
                work.reread(net.table.source, self.writer.merge(net))
            self._cascade(stage, work)
        work.count(part.counts())
        work.park(part.parked)

    def _merge_staged(self, piece: StagedPiece, work: Work) -> None:
        for staged in piece.stages:
            self._truncate(staged.stage, work)
            for net in staged.nets:
                work.reread(net.table.source, self.writer.merge_staged(net))
            self._cascade(staged.stage, work)
        work.count(dict(piece.counts))

    def _truncate(self, stage: Stage, work: Work) -> None:
        for table in stage.truncates:
            self.writer.truncate(table, work.context.truncate)

    def _cascade(self, stage: Stage, work: Work) -> None:
        for cascade in stage.cascades:
            self.writer.cascade(cascade, work.context.cascades)
        for table_id, keys in stage.reread:
            work.reread_keys(table_id, keys)

    # --- one target transaction per source transaction -------------------------------------------------------

    def _one_after_the_other(self, feed: Feed) -> None:
        """`mode = "transaction"`: set-wise where possible, one by one where not."""
        for transaction in feed.transactions():
            try:
                self._with_reconnect(lambda one=transaction: self._one(one, self._merge))  # type: ignore[misc]
            except (Conflict, NeedsSlowWay) as reason:
                self._note_slow(reason, transaction.sequence)
                self._slow(transaction)

    def _slow(self, transaction: SourceTransaction) -> None:
        try:
            self._with_reconnect(lambda: self._one(transaction, self._row_by_row))
        except (Conflict, NeedsSlowWay) as reason:
            self.writer.rollback()
            raise _refused(reason, transaction.position) from reason

    def _one(self, transaction: SourceTransaction, carry_out: Callable[[Group, Work], None]) -> None:
        then = self._then(transaction.position, transaction.commit_time)
        if transaction.sequence <= self.checkpoint.position.sequence or not self._begin(then):
            return
        work = self._work()
        for chunk in transaction.chunks():
            carry_out(self._only(chunk, transaction.sequence, work), work)
        self._commit(then, work)

    def _only(self, chunk: Chunk, sequence: int, work: Work) -> Group:
        """The rows of one transaction. The last chunk's group is kept: its transactions come one after another."""
        if self._grouped is None or self._grouped[0] is not chunk or self._grouped[1] is not work.context:
            self._grouped = (chunk, work.context, group([chunk], work.context, self.filtered))
        part = self._grouped[2]
        return part.within(order_of(sequence, part.base), order_of(sequence + 1, part.base))

    _grouped: tuple[Chunk, ApplyContext, Group] | None = None

    def _row_by_row(self, part: Group, work: Work) -> None:
        for step in steps(part, work.context):
            if isinstance(step, RowChange):
                self.writer.change(step)
                work.reread_partial(step)
            elif isinstance(step, Cascade):
                self.writer.cascade(step, work.context.cascades)
            else:
                self.writer.truncate(step, work.context.truncate)
        work.count(part.counts())
        work.park(part.parked)

    def _note_slow(self, reason: Exception, upto: int) -> None:
        self.writer.rollback()
        self.totals.slow_epochs += 1
        log.get(job=self.job).info("slow_epoch", why=str(reason), upto=upto)

    # --- checkpoint ------------------------------------------------------------------------------------------

    def _work(self) -> Work:
        return Work(self.context, dict(self.states), self.target_of)

    def _then(self, position: Position, commit_time: int) -> Checkpoint:
        return Checkpoint(self.checkpoint.owner, self.checkpoint.epoch + 1, position, commit_time)

    def _begin(self, then: Checkpoint) -> bool:
        """False: the target is there already, or elsewhere; then `checkpoint` says where."""
        outcome = self.writer.begin(self.checkpoint, then)
        if outcome == "applied":
            self.checkpoint = then
        elif outcome == "replan":
            self.checkpoint = self.reload()
        return outcome == "open"

    def _commit(self, then: Checkpoint, work: Work) -> None:
        work.pass_windows(then.position.sequence)
        for table, state in work.states.items():
            if state is not self.states.get(table):
                self.writer.save_table(self.job, state)
        self.writer.commit()
        self.totals.transactions += then.position.sequence - self.checkpoint.position.sequence
        self.totals.changes += sum(work.counts.values())
        self.totals.epochs += 1
        self.checkpoint, self.context, self.states = then, work.context, work.states

    def _with_reconnect(self, action: Callable[[], object]) -> None:
        """An epoch whose outcome is unknown is begun again: the checkpoint row tells whether it was applied."""
        give_up = time.monotonic() + RECONNECT_SECONDS
        pause = 0.2
        while True:
            try:
                action()
                return
            except TargetUnavailable as lost:
                if time.monotonic() > give_up or self.stop():
                    raise
                log.get(job=self.job).warning("target_lost", error=lost.message, retry_in=pause)
                self.writer.close()
                time.sleep(pause)
                pause = min(pause * 2, 10.0)


def _refused(reason: Exception, position: Position) -> RowRefused:
    if not isinstance(reason, Conflict):
        return RowRefused(str(reason), position=str(position))
    key = ", ".join(f"{name} = {value}" for name, value in reason.key.items())
    return RowRefused(
        f"{reason.what}" + (f" (row {key})" if key else ""),
        table=str(reason.table),
        position=str(position),
        hint="mend the row or the table at the target, then start again: the job goes on from here",
    )
