"""Carrying out a trail at a target that keeps rows: it comes to the state that the source had (`CarryOut`).

The quick way merges the net changes of an epoch set-wise. A conflict rolls everything back, and the epoch is cut into
halves until a few source transactions are left. Each of these is an epoch of its own. If it conflicts too, it goes the
slow way, each row change alone. What still conflicts there is refused, with its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from anabranch import log, spans
from anabranch.apply.abilities import MergeWriter
from anabranch.apply.appliers import InOrder
from anabranch.apply.cascades.takeovers import with_takeovers
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.conflict import Where
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.feed import Feed, SourceTransaction, stops
from anabranch.apply.images import order_of
from anabranch.apply.pipelines import in_pipelines
from anabranch.apply.plan import FilterImages, group, stages
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.apply.relaxed import Relaxed
from anabranch.apply.row_by_row import RowByRow
from anabranch.apply.set_wise import carry_out_stages
from anabranch.apply.stage import Disputable, Group
from anabranch.apply.staging import Executors
from anabranch.apply.work import Work
from anabranch.contracts import Conflict, EmptiesApart, Emptying, ParallelWriter, PipelinedWriter
from anabranch.failpoints import reach
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.chunk import BarrierKind, Chunk, Part
from anabranch.rows.net import RowChange

FEW_TRANSACTIONS = 4  # with so few, row by row is quicker than more halves

Way = Callable[[Group, Work], None]
"""Carries out a group inside the open transaction. Raises Conflict or NeedsSlowWay."""


@dataclass
class MergeCarrier:
    """`CarryOut` by merging. Before it changes from one way to another, the transaction is rolled back."""

    progress: Progress
    writer: MergeWriter
    filtered: FilterImages | None = None
    executors: Executors | None = None  # None: every epoch is planned here
    _grouped: tuple[Chunk, ApplyContext, Group] | None = field(default=None, init=False)

    def carry_out(self, feed: Feed) -> None:
        emptying = self._truncating(feed)
        if not emptying:
            self._carry_on(feed)
            return
        for stop in stops(emptying, feed.after, feed.upto):
            if stop.after < stop.before:
                self._carry_on(Feed(feed.trail, stop.after, stop.before))
            if stop.skipped is not None:
                alone = Feed(feed.trail, stop.skipped - 1, stop.skipped)
                self._empty_apart(alone)
                self._carry_on(alone)

    def _carry_on(self, feed: Feed) -> None:
        if self.progress.settings.per_transaction or self.progress.ahead:
            self._one_after_the_other(feed)
            if self.progress.ahead:  # the last ones of the feed may be among them
                self.progress.move_on(*feed.end())
            return
        try:
            self._quick(feed)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, feed.upto)
            self._by_halves(feed)

    # --- tables that are emptied by a statement that commits (K17) --------------------------------------------------------

    def _truncating(self, feed: Feed) -> Sequence[int]:
        """Return the transactions that truncate tables, where that is done between two epochs."""
        if self.progress.settings.truncate is not Emptying.TRUNCATE or not isinstance(self.writer, EmptiesApart):
            return []
        chunks = (feed.trail.load(ref) for ref in feed.refs if ref.has_barriers and ref.part is Part.WHOLE)
        followed = self.progress.context.tables.items()
        tables = {table for table, one in followed if not one.on_conflict.pair}  # those of a pair are refused as ever
        found = {
            chunk.first_sequence + barrier.tx
            for chunk in chunks
            for barrier in chunk.barriers
            if barrier.kind is BarrierKind.TRUNCATE and barrier.table in tables
        }
        return sorted(found)

    def _empty_apart(self, feed: Feed) -> None:
        """Empty the tables of one transaction, if it does nothing else and none of them is in a load's window."""
        progress, context = self.progress, self.progress.context
        (chunks,) = feed.groups()
        part = group(chunks, context, self.filtered)
        emptied = tuple(table for _, table in part.truncates)
        does_more = part.images or part.changes or part.parked or context.watches
        in_window = any(context.tables[table.source].high >= feed.upto for table in emptied)
        if emptied and not does_more and not in_window and isinstance(self.writer, EmptiesApart):
            self.writer.empty_apart(progress.checkpoint, emptied)
            reach("apply.emptied")

    # --- an epoch of many transactions -------------------------------------------------------------------------------

    def _quick(self, feed: Feed) -> None:
        progress = self.progress
        then = progress.then(*feed.end())
        facts: dict[str, spans.Fact] = {"epoch": then.epoch, "after": feed.after, "upto": feed.upto}
        with spans.span("epoch", **facts, position=str(then.position)) as told:
            work = self._in_one(feed, then)
            told.note(rows=sum(work.counts.values()), transactions=feed.upto - feed.after)

    def _in_one(self, feed: Feed, then: Checkpoint) -> Work:
        """Carry out a feed in one transaction of the target. Returns what it has changed."""
        progress = self.progress
        by_executors = self.executors is not None and self.executors.takes(feed, progress.context)
        staged = []
        if self.executors and by_executors:
            with spans.span("stage"):
                staged = self.executors.stage(feed, progress.context)
        if staged:
            reach("apply.staged")
        progress.begin(then)
        work = progress.work()
        if staged:
            planned = [(staged.stage, staged.nets) for piece in staged for staged in piece.stages]
            with spans.span("apply"):
                carry_out_stages(planned, self.writer, work)
            for piece in staged:
                work.count(dict(piece.counts))
        else:
            for chunks in feed.groups():
                with spans.span("decode"):
                    part = group(chunks, work.context, self.filtered)
                self._set_wise(part, work)
        progress.commit(then, work)
        return work

    def _by_halves(self, feed: Feed) -> None:
        """Carry out an epoch that had a conflict in halves, and these in halves again: only what is near the conflict
        goes row by row."""
        middle = (feed.after + feed.upto) // 2
        if feed.upto - feed.after <= FEW_TRANSACTIONS:
            self._each(feed)
            return
        for half in (Feed(feed.trail, feed.after, middle), Feed(feed.trail, middle, feed.upto)):
            try:
                self._quick(half)
            except (Conflict, NeedsSlowWay):
                self.writer.rollback()
                self._by_halves(half)

    def _each(self, feed: Feed) -> None:
        """Carry out each transaction by its net change first, then row by row. The net change may have an order that
        foreign keys accept; and a source that checks unique keys at the transaction's end (DEFERRABLE) has accepted
        changes that no order of rows leads to."""
        if self.progress.context.keys is not None:
            self._one_after_the_other(feed)
            return
        is_alone = feed.upto - feed.after == 1  # and conflicted alone
        for transaction in feed.transactions():
            try:
                if not is_alone:
                    self._one(transaction, self._set_wise)
                    continue
            except (Conflict, NeedsSlowWay):
                self.writer.rollback()
            self._slow(transaction)

    # --- one target transaction per source transaction -----------------------------------------------------------------

    def _one_after_the_other(self, feed: Feed) -> None:
        """Carry out each transaction in one of the target (`mode = "transaction"`). Small ones go in pipelines, without
        waiting for each, where the target can; others set-wise where possible, else row by row."""
        writer = self.writer
        if not isinstance(writer, PipelinedWriter) or not self.progress.settings.per_transaction:
            for transaction in feed.transactions():
                self.alone(transaction)
            return
        many: PipelinedWriter = writer
        number = self.progress.settings.appliers
        if number > 1 and isinstance(writer, ParallelWriter):
            way = Relaxed if self.progress.settings.is_relaxed else InOrder
            many = way(self.progress, writer, number)
        for part in feed.stretches():
            if isinstance(part, SourceTransaction):
                self.alone(part)
            else:
                in_pipelines(self.progress, many, part, self.filtered, self.alone)

    def alone(self, transaction: SourceTransaction) -> None:
        """Carry out one transaction in an epoch of its own, unless it is applied already: the next epoch passes it."""
        if transaction.sequence in self.progress.ahead:
            return
        try:
            self._one(transaction, self._set_wise)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, transaction.sequence)
            self._slow(transaction)

    def _slow(self, transaction: SourceTransaction, attempt: int = 0) -> None:
        """Carry out a transaction row by row, in up to three attempts. From the second on, rows may be set aside. A
        refusal that comes only at the commit names no row, so the third attempt checks after each change."""
        sets_aside = self.progress.settings.sets_aside
        try:
            self._one(transaction, self._row_by_row(attempt > 0 and sets_aside, attempt > 1))
        except (Conflict, NeedsSlowWay) as reason:
            self.writer.rollback()
            decides = any(followed.on_conflict.decides for followed in self.progress.context.tables.values())
            last = 2 if sets_aside else int(decides)  # a row that was missing may be there by now
            if attempt >= last:
                raise refused(reason, transaction.position) from reason
            self._slow(transaction, attempt + 1)

    def _one(self, transaction: SourceTransaction, way: Way) -> None:
        then = self.progress.then(transaction.position, transaction.commit_time)
        facts = {"epoch": then.epoch, "after": transaction.sequence - 1, "upto": transaction.sequence}
        with spans.span("epoch", **facts, position=str(then.position)) as told:
            self.progress.begin(then)
            work = self.progress.work()
            for chunk in transaction.chunks():
                way(self._only(chunk, transaction.sequence, work), work)
            self.progress.commit(then, work)
            told.note(rows=sum(work.counts.values()), transactions=1)

    def _only(self, chunk: Chunk, sequence: int, work: Work) -> Group:
        """Return the rows of one transaction. The last chunk's group is kept, because its transactions come one after
        another."""
        context = work.context
        if self._grouped is None or self._grouped[0] is not chunk or self._grouped[1] is not context:
            self._grouped = (chunk, context, group([chunk], context, self.filtered))
        part = self._grouped[2]
        return part.within(order_of(sequence, part.base), order_of(sequence + 1, part.base))

    # --- tables that join, rows that are read again or released ----------------------------------------------------------

    def replay(
        self, states: Sequence[TableState], replayed: ApplyContext, joined: ApplyContext, upto: int | None = None
    ) -> None:
        try:
            self._replay(states, replayed, joined, self._set_wise, upto)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, self.progress.checkpoint.position.sequence)
            try:
                self._replay(states, replayed, joined, self._row_by_row(), upto)
            except (Conflict, NeedsSlowWay) as again:
                self.writer.rollback()
                raise refused(again, self.progress.checkpoint.position) from again

    def _replay(
        self,
        states: Sequence[TableState],
        replayed: ApplyContext,
        joined: ApplyContext,
        way: Way,
        upto: int | None,
    ) -> None:
        progress = self.progress
        then = progress.here()
        progress.begin(then)
        names = [state.source for state in states]
        all_states = {**progress.states, **{state.source: state for state in states}}
        replayed, joined = (progress.with_aside(one, all_states) for one in (replayed, joined))
        low = min(replayed.tables[name].low for name in names)
        last = then.position.sequence if upto is None else upto
        work = progress.work(replayed, all_states)
        for stop in stops(progress.skipped, low, last):
            if stop.after < stop.before:
                for chunks in Feed(progress.trail, stop.after, stop.before).groups():
                    way(group(chunks, work.context, self.filtered), work)
        work.decided.clear()  # noted when the others passed here
        if upto is not None:
            work.turn_to(joined)
            progress.commit(then, work)
            return
        came = {name: work.context.tables[name] for name in names if name in work.context.tables}
        followed = [replace(joined.tables[name], waiting=one.waiting, aside=one.aside) for name, one in came.items()]
        work.turn_to(joined.without(frozenset(names) - came.keys()).with_followed(*followed))
        progress.commit(then, work)

    def put(self, state: TableState, changes: Iterable[RowChange], window: Followed | None = None) -> None:
        progress = self.progress
        then, context = progress.here(), progress.context
        if window is not None:
            context = with_takeovers(context.with_followed(window), progress.trail)
        progress.begin(then)
        work = progress.work(context)
        work.states[state.source] = state
        try:
            for change in changes:
                self.writer.change(change)
            progress.commit(then, work)
        except (Conflict, NeedsSlowWay) as reason:
            raise refused(reason, then.position) from reason

    def release(
        self,
        state: TableState,
        changes: Sequence[AsideChange],
        followed: Followed,
        numbers: Sequence[int],
        discards: bool,
    ) -> None:
        progress = self.progress
        then = progress.here()
        progress.begin(then)
        work, table, rows = progress.work(), state.source, RowByRow(progress, self.writer)
        context, work.states[table] = work.context, state
        work.follow(followed)  # the table may be parked, and is followed for this epoch only
        try:
            for one in changes:
                where = Where(one.sequence, one.position, one.commit_time)
                step = Disputable(one.sequence, 0, followed.on_conflict, (), one.change(followed.table), ())
                rows.settle(step, work, where)
            self.writer.settle_aside(progress.job, state, numbers, discards)
            work.settle_aside(table, len(numbers))
            work.turn_to(context)  # back to what was followed before
            reach("apply.aside.settled")
            progress.commit(then, work)
        except Conflict as reason:
            raise refused(reason, then.position) from reason
        progress.ask_again()  # the target knows what is still set aside

    # --- the two ways --------------------------------------------------------------------------------------------------

    def _set_wise(self, part: Group, work: Work) -> None:
        with spans.span("plan"):
            planned = [(stage, stage.nets) for stage in stages(part, work.context)]
        with spans.span("apply"):
            carry_out_stages(planned, self.writer, work)
        _note(part, work)

    def _row_by_row(self, sets_aside: bool = False, at_once: bool = False) -> Way:
        rows = RowByRow(self.progress, self.writer, sets_aside, at_once)

        def way(part: Group, work: Work) -> None:
            with spans.span("apply", row_by_row=True):
                rows.carry_out(part, work)
            _note(part, work)

        return way

    def _note_slow(self, reason: Exception, upto: int) -> None:
        self.writer.rollback()
        reach("apply.conflict")
        totals = self.progress.totals
        totals.slow_epochs += 1
        totals.last_slow = str(reason)
        log.get(job=self.progress.job).info("slow_epoch", why=str(reason), upto=upto)


def _note(part: Group, work: Work) -> None:
    """Note what a group changes besides rows."""
    work.reread_waiting(part)
    work.count(part.counts())
    work.park(part.parked)
    work.ignore(part.ignored)
