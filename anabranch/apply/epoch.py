"""One epoch: the trail's transactions up to a place, carried out in one target transaction with the checkpoint.

The quick way merges net changes set-wise. A conflict rolls everything back, and the epoch is cut into halves until a few
source transactions are left. Each of these is an epoch of its own: what conflicts then goes the slow way, each row change
alone. What still conflicts there is refused by its key.

Delivery: after any crash the target is exactly at its checkpoint; nothing is applied twice (K9). After a COMMIT whose
answer was lost, and at a target that lost its last commits, the checkpoint row says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from anabranch import log
from anabranch.apply.abilities import MergeWriter
from anabranch.apply.aside.setting_aside import parks, to_set_aside, touches, unfit, with_aside
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.conflict import Decider, Verdict, Where, note_of
from anabranch.apply.context import ApplyContext, Followed, replace_context
from anabranch.apply.feed import Feed, SourceTransaction, stops
from anabranch.apply.images import END, order_of, sequence_of
from anabranch.apply.life.park import is_told, let_go, parked_with, refused_table
from anabranch.apply.onebyone import refused, steps
from anabranch.apply.patience import Patience
from anabranch.apply.pipelines import OutOfStep, in_pipelines, settle
from anabranch.apply.plan import FilterImages, group, stages
from anabranch.apply.stage import Disputable, Group, Stage
from anabranch.apply.staging import Executors
from anabranch.apply.told import Totals, tell
from anabranch.apply.unconverted import words
from anabranch.apply.work import Work
from anabranch.contracts import Begun, Conflict, PipelinedWriter, TargetStore
from anabranch.errors import (
    AnabranchError,
    Fenced,
    Redefined,
    RowRefused,
    SourceUnavailable,
    StateError,
    TargetBusy,
    TargetFull,
    TargetUnavailable,
)
from anabranch.failpoints import reach
from anabranch.model.endpoint import USUAL, EndLimits
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import Cascade, RowChange, StagedNet, TableNet, TargetTable
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader

FEW_TRANSACTIONS = 4  # from here on row by row is quicker than more halves
EVENTS: dict[type[AnabranchError], str] = {TargetBusy: "target_busy", TargetFull: "target_full"}
GONE = "restore the target, or drop and load the job again"


@dataclass
class Applier:
    """Applies a job's trail to its target. One per apply process, one thread at a time.

    What is kept here (`checkpoint`, `states`, `context`) is what the target said or committed last. An epoch that did not
    end with a known commit leaves it in doubt: then the target is asked again before anything else is done."""

    job: str
    trail: TrailReader
    writer: MergeWriter
    store: TargetStore
    owner: str
    context_of: Callable[[Mapping[TableId, TableState]], ApplyContext]  # what is followed
    target_of: Callable[[TableId], TableId | None]
    filtered: FilterImages | None = None
    per_transaction: bool = False
    parks: bool = False  # tables whose rows are refused
    sets_aside: bool = False  # single rows that are refused, where nothing comes to depend on it
    aside_limit: int = 1000  # changes of a table
    executors: Executors | None = None  # None: every epoch is planned here
    names: retention.Names = field(default_factory=retention.Names)  # of what this target holds of the trail
    retry: EndLimits = USUAL  # how long the target is waited for
    stop: Callable[[], bool] = lambda: False  # asked where a target that is away is waited for
    waiting: Callable[[str, AnabranchError], None] = lambda why, error: None  # told what for
    settled: Callable[[TableId], bool] = lambda table: False  # waits for keys that are being built: were there any?
    totals: Totals = field(default_factory=Totals)
    checkpoint: Checkpoint = field(init=False)
    states: dict[TableId, TableState] = field(init=False)
    context: ApplyContext = field(init=False)
    skipped: Sequence[int] = field(default=(), init=False)  # transactions that are left out
    unsettled: bool = field(default=False, init=False)  # has it pipelined commits for whose disk nobody has waited?
    _is_in_doubt: bool = field(default=True, init=False)
    _patience: Patience = field(init=False)
    _grouped: tuple[Chunk, ApplyContext, Group] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._patience = Patience(lambda: self.stop(), self.retry)

    def look(self) -> None:
        """Take over what the target says, if that is in doubt."""
        if not self._is_in_doubt:
            return
        found = self.store.jobs.checkpoint(self.job)
        if found is None:
            raise StateError("the checkpoint row is gone", job=self.job, hint=GONE)
        if found.owner != self.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self.job)
        if self.executors:
            self.writer.sweep()  # what a failed epoch left
        self.states = self.store.states.tables(self.job)
        self.context = self._with_aside(self.context_of(self.states), self.states)
        self.skipped = [one.sequence for one in self.store.journal.skipped(self.job)]
        self.checkpoint, self._is_in_doubt = found, False
        if self.unsettled:
            settle(self)

    def _with_aside(self, context: ApplyContext, states: Mapping[TableId, TableState]) -> ApplyContext:
        """Also where the job sets nothing aside any more: what is stays so."""
        found = self.store.asides.set_aside(self.job) if any(state.facts.set_aside for state in states.values()) else []
        return with_aside(context, found, self.aside_limit, self.sets_aside)

    def look_for_another(self) -> None:
        """Also where nothing changes, whoever was replaced ends soon. Raises Fenced."""
        found = self.store.jobs.checkpoint(self.job)
        self._is_in_doubt |= found is None or found.owner != self.owner
        self.look()

    def ask_again(self) -> None:
        """Before the next epoch the target is asked anew where it is and what it enforces."""
        self._is_in_doubt = True

    def apply(self, upto: int) -> None:
        """Carry out the transactions after the checkpoint, up to sequence `upto`. One that is away or full is waited for."""
        refusal: RowRefused | None = None
        while True:
            try:
                self.look()
                if refusal is not None:
                    self._park(refusal)
                refusal, slow = None, self.totals.slow_epochs
                self._advance(upto)
                if self.totals.slow_epochs > slow:
                    self.ask_again()  # a key of the target may be new
            except (TargetUnavailable, SourceUnavailable) as lost:  # the source may be asked for what it computes
                self._wait_for_end(lost)
            except RowRefused as error:
                self.writer.rollback()
                if self._met_half_built_keys(error):
                    continue
                if isinstance(error, Redefined) and not is_told(error, self.context, self.trail, self.checkpoint):
                    self._wait_for_end(SourceUnavailable(f"capture has not read of it yet: {error}", table=error.table))
                    continue
                refusal = error
                if not (self.parks or isinstance(error, Redefined)) or refused_table(error, self.context) is None:
                    raise
            else:
                return self._patience.success()

    def _met_half_built_keys(self, refusal: RowRefused) -> bool:
        """A unique key that waits for the commit asks at once until its index has become the constraint (K8)."""
        table = refused_table(refusal, self.context)
        if table is None or not self.settled(table):
            return False
        log.get(job=self.job, table=str(table)).info("tried_again_behind_new_keys", reason=refusal.message)
        self.ask_again()
        return True

    def take_out(self, refusal: RowRefused) -> bool:
        """Park what is refused between two epochs. False where that is not asked for, or it is no table that is followed."""
        if not (self.parks or isinstance(refusal, Redefined)) or refused_table(refusal, self.context) is None:
            return False
        self.writer.rollback()
        self.look()
        self._park(refusal)
        return True

    def _park(self, refusal: RowRefused) -> None:
        """Take out the table that is refused, with what goes with it. The trail is held for them before the target says so."""
        table, at = refused_table(refusal, self.context), self.checkpoint.position
        parked = parked_with(table, refusal, at, self.states) if table else []
        for state in parked:
            if state.facts.resumes is not None:
                retention.hold(self.trail.directory, self.names.table(state.source), at.sequence)
        reach("apply.parking")
        self.park(parked)
        for state in parked:
            log.get(job=self.job, table=str(state.source)).warning("table_parked", reason=state.reason)

    def _wait_for_end(self, lost: TargetUnavailable | SourceUnavailable) -> None:
        """The same work again afterwards, over new connections: the checkpoint row says what of it is left."""
        self._is_in_doubt = True
        pause = self._patience.failure(lost)
        end = "source" if isinstance(lost, SourceUnavailable) else "target"
        event = EVENTS.get(type(lost), f"{end}_lost")
        log.get(job=self.job).warning(event, error=lost.message, retry_in=pause, **lost.named())
        self.waiting(f"for the {end}: {lost}", lost)
        self.writer.close()
        self.store.close()
        self._patience.wait(pause)

    def _advance(self, upto: int) -> None:
        for stop in stops(self.skipped, self.checkpoint.position.sequence, upto):
            self._carry_on(stop.before)
            if stop.skipped is not None:
                self._pass_over(stop.skipped)

    def _pass_over(self, sequence: int) -> None:
        """A transaction that is left out."""
        where = self._where(sequence)
        log.get(job=self.job).warning("transaction_skipped", position=where.position)
        self.move_on(Position.parse(where.position), where.commit_time)

    def _carry_on(self, upto: int) -> None:
        if upto <= self.checkpoint.position.sequence:
            return
        feed = Feed(self.trail, self.checkpoint.position.sequence, upto)
        if self.per_transaction:
            self._one_after_the_other(feed)
            return
        try:
            self._quick(feed)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, upto)
            self._by_halves(feed)

    def _by_halves(self, feed: Feed) -> None:
        """Carry out halves of an epoch that met a conflict, and so on: only what is near the conflict goes row by row."""
        middle = (feed.after + feed.upto) // 2
        if feed.upto - feed.after <= FEW_TRANSACTIONS:
            self._each(feed)
            return
        for half in (Feed(self.trail, feed.after, middle), Feed(self.trail, middle, feed.upto)):
            try:
                self._quick(half)
            except (Conflict, NeedsSlowWay):
                self.writer.rollback()
                self._by_halves(half)

    def _each(self, feed: Feed) -> None:
        """One transaction by its net change first: it may have an order that foreign keys accept, and a source that checks
        unique keys at its end (DEFERRABLE) has accepted what no order of its rows leads to."""
        if self.context.keys is not None:
            self._one_after_the_other(feed)
            return
        is_alone = feed.upto - feed.after == 1  # and was met as such
        for transaction in feed.transactions():
            try:
                if not is_alone:
                    self._one(transaction, self._merge)
                    continue
            except (Conflict, NeedsSlowWay):
                self.writer.rollback()
            self._slow(transaction)

    # --- between two epochs: one attempt each, the caller tries again -----------------------------------------

    def move_on(self, position: Position, commit_time: int) -> None:
        """Move the checkpoint over log that holds nothing for us."""
        then = self._then(position, commit_time)
        self.begin(then)
        reach("apply.moved.on")
        self.commit(then, self.work())

    def save_all(self, states: Iterable[TableState]) -> None:
        """New states of tables, at once."""
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        self.begin(then)
        work = self.work()
        work.states |= {state.source: state for state in states}
        self.commit(then, work)

    def save(self, state: TableState, changes: Iterable[RowChange] = ()) -> None:
        """A table's new state, with changes that are not from the trail (rows read again)."""
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        self.begin(then)
        work = self.work()
        work.states[state.source] = state
        try:
            for change in changes:
                self.writer.change(change)
            self.commit(then, work)
        except (Conflict, NeedsSlowWay) as reason:
            raise refused(reason, then.position) from reason

    def settle_aside(
        self,
        state: TableState,
        changes: Sequence[AsideChange],
        followed: Followed,
        numbers: Sequence[int],
        discards: bool,
    ) -> None:
        """One epoch that carries out `changes` of a row that is set aside, in their order; what `numbers` name waits no longer,
        and is kept on record where it is discarded. Raises Fenced where the table is not as `state` says."""
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        self.begin(then)
        work, table = self.work(), state.source
        context, work.states[table] = work.context, state
        work.context = replace_context(context, {**context.tables, table: followed})  # it may be parked
        try:
            for one in changes:
                where = Where(one.sequence, one.position, one.commit_time)
                step = Disputable(one.sequence, 0, followed.on_conflict, (), one.change(followed.table), ())
                self._settle(step, work, where)
            self.writer.settle_aside(self.job, state, numbers, discards)
            work.settle_aside(table, len(numbers))
            work.context = context  # and it stays so
            reach("apply.aside.settled")
            self.commit(then, work)
        except Conflict as reason:
            raise refused(reason, then.position) from reason
        self.ask_again()  # what is set aside is known by the target

    def park(self, states: Sequence[TableState]) -> None:
        """Take tables out, as these states of theirs say, between two epochs."""
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        self.begin(then)
        work = self.work()
        work.states |= {state.source: state for state in states}
        work.context = work.context.without(frozenset(state.source for state in states))
        self.commit(then, work)

    def join(self, states: Sequence[TableState], replayed: ApplyContext, joined: ApplyContext) -> None:
        """One epoch that carries out some tables' part of the trail, from where it begins for them to the checkpoint, by
        `replayed` (in which no other table has anything to do); afterwards `joined` holds."""
        try:
            self._replay(states, replayed, joined, self._merge)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, self.checkpoint.position.sequence)
            try:
                self._replay(states, replayed, joined, self._row_by_row)
            except (Conflict, NeedsSlowWay) as again:
                self.writer.rollback()
                raise refused(again, self.checkpoint.position) from again

    def _replay(
        self,
        states: Sequence[TableState],
        replayed: ApplyContext,
        joined: ApplyContext,
        carry_out: Callable[[Group, Work], None],
    ) -> None:
        then = self._then(self.checkpoint.position, self.checkpoint.commit_time)
        self.begin(then)
        names = [state.source for state in states]
        all_states = {**self.states, **{state.source: state for state in states}}
        replayed, joined = (self._with_aside(one, all_states) for one in (replayed, joined))
        low, last = min(replayed.tables[name].low for name in names), then.position.sequence
        work = Work(replayed, all_states, self.target_of, self._has_joined)
        for stop in stops(self.skipped, low, last):
            if stop.after < stop.before:
                for chunks in Feed(self.trail, stop.after, stop.before).groups():
                    carry_out(group(chunks, work.context, self.filtered), work)
        came = {name: work.context.tables[name] for name in names if name in work.context.tables}
        followed = {name: replace(joined.tables[name], dirty=one.dirty, aside=one.aside) for name, one in came.items()}
        others = {name: one for name, one in joined.tables.items() if name not in names}
        work.context = replace_context(joined, {**others, **followed})
        self.commit(then, work)

    # --- the quick way ---------------------------------------------------------------------------------------

    def _quick(self, feed: Feed) -> None:
        then = self._then(*feed.end())
        by_executors = self.executors is not None and self.executors.takes(feed, self.context)
        staged = self.executors.stage(feed, self.context) if self.executors and by_executors else []
        if staged:
            reach("apply.staged")
        self.begin(then)
        work = self.work()
        if staged:
            self._carry_out([(staged.stage, staged.nets) for piece in staged for staged in piece.stages], work)
            for piece in staged:
                work.count(dict(piece.counts))
        else:
            for chunks in feed.groups():
                self._merge(group(chunks, work.context, self.filtered), work)
        self.commit(then, work)

    def _merge(self, part: Group, work: Work) -> None:
        self._carry_out([(stage, stage.nets) for stage in stages(part, work.context)], work)
        work.reread_dirty(part)
        work.count(part.counts())
        work.park(part.parked)

    def _carry_out(self, planned: Sequence[tuple[Stage, Sequence[TableNet | StagedNet]]], work: Work) -> None:
        for number, (stage, nets) in enumerate(planned, 1):
            if stage.truncates:
                self.writer.truncate(stage.truncates, work.context.truncate)
                reach("apply.truncated")
            noted: list[TargetTable] = []
            for place, net in enumerate(nets):
                noted += self._cascade(stage.ahead.get(place, ()), work)
                noted += [net.table] if work.reread(net.table.source, self._merge_net(net)) else []
            noted += self._cascade(stage.cascades, work)
            noted += [work.context.tables[t].table for t, keys in stage.reread if work.reread_keys(t, keys)]
            if noted and number < len(planned):
                raise NeedsSlowWay(noted[0], "rows have to be read again, and what comes next was planned without that")

    def _cascade(self, cascades: Iterable[Cascade], work: Work) -> list[TargetTable]:
        """The children of which rows have to be read again."""
        noted = []
        for cascade in cascades:
            if work.reread(cascade.child.source, self.writer.cascade(cascade, cascade.rules)):
                noted.append(cascade.child)
            reach("apply.cascaded")
        return noted

    def _merge_net(self, net: TableNet | StagedNet) -> list[dict[str, str | None]]:
        if isinstance(net, StagedNet):
            again = self.writer.merge_staged(net)
            reach("apply.merged.staged")
        else:
            again = self.writer.merge(net)
            reach("apply.merged")
        return again

    # --- one target transaction per source transaction -------------------------------------------------------

    def _one_after_the_other(self, feed: Feed) -> None:
        """`mode = "transaction"`: small ones without waiting for each, where the target can; set-wise where possible, one by
        one where not."""
        if not isinstance(self.writer, PipelinedWriter) or not self.per_transaction:
            for transaction in feed.transactions():
                self.alone(transaction)
            return
        for part in feed.stretches():
            if isinstance(part, SourceTransaction):
                self.alone(part)
            else:
                in_pipelines(self, self.writer, part, self.filtered)

    def alone(self, transaction: SourceTransaction) -> None:
        try:
            self._one(transaction, self._merge)
        except (Conflict, NeedsSlowWay) as reason:
            self._note_slow(reason, transaction.sequence)
            self._slow(transaction)

    def _slow(self, transaction: SourceTransaction, attempt: int = 0) -> None:
        """Up to three attempts. Rows are set aside from the second on; what only the commit refuses names no row, and the
        third asks behind each."""
        sets_aside, at_once = attempt > 0 and self.sets_aside, attempt > 1
        try:
            self._one(transaction, partial(self._row_by_row, sets_aside=sets_aside, at_once=at_once))
        except (Conflict, NeedsSlowWay) as reason:
            self.writer.rollback()
            decides = any(followed.on_conflict.decides for followed in self.context.tables.values())
            last = 2 if self.sets_aside else int(decides)  # a row that was not there may have come meanwhile
            if attempt >= last:
                raise refused(reason, transaction.position) from reason
            self._slow(transaction, attempt + 1)

    def _one(self, transaction: SourceTransaction, carry_out: Callable[[Group, Work], None]) -> None:
        then = self._then(transaction.position, transaction.commit_time)
        self.begin(then)
        work = self.work()
        for chunk in transaction.chunks():
            carry_out(self._only(chunk, transaction.sequence, work), work)
        self.commit(then, work)

    def _only(self, chunk: Chunk, sequence: int, work: Work) -> Group:
        """The rows of one transaction. The last chunk's group is kept: its transactions come one after another."""
        if self._grouped is None or self._grouped[0] is not chunk or self._grouped[1] is not work.context:
            self._grouped = (chunk, work.context, group([chunk], work.context, self.filtered))
        part = self._grouped[2]
        return part.within(order_of(sequence, part.base), order_of(sequence + 1, part.base))

    def _row_by_row(self, part: Group, work: Work, sets_aside: bool = False, at_once: bool = False) -> None:
        waits = self._waiting(part, work)
        for step in steps(part, work.context, work.taken, waits.__contains__):
            if isinstance(step, Disputable):
                number = len(work.asides)
                if step.order in waits:
                    waits.remove(step.order)
                    self._set_aside(step, work, "it waits behind an earlier change of the row", is_first=False)
                elif sets_aside and step.change.table.key and not (step.ahead or step.follow):
                    self._settle_or_set_aside(step, work, at_once)
                else:
                    self._settle(step, work)
                if len(work.asides) > number:  # what comes now may have to do with it
                    waits -= {order for order in waits if order > step.order}  # one before was not set aside: it parks
                    waits |= self._waiting(part.within(step.order + 1, END), work)
            elif isinstance(step, RowChange):
                if not work.leaves_out(step):
                    work.reread_partial(step, met=self.writer.change(step))
            elif isinstance(step, TableNet):
                self.writer.merge(step)
            elif isinstance(step, Cascade):
                work.reread(step.child.source, self.writer.cascade(step, step.rules))
            else:
                self.writer.truncate(step, work.context.truncate)
        if waits:  # of changes that are not checked nothing is set aside
            raise parks(touches(part, work.context)[min(waits)], self._where(sequence_of(min(waits), part.base)))
        reach("apply.one")
        work.reread_dirty(part)
        work.count(part.counts())
        work.park(part.parked)

    def _waiting(self, part: Group, work: Work) -> set[int]:
        """The orders of changes that wait behind others of their rows. Raises RowRefused where something else has to do with
        rows that are set aside."""
        found = touches(part, work.context)
        for order, touch in found.items():
            if not touch.waits:
                raise parks(touch, self._where(sequence_of(order, part.base)))
        return set(found)

    def _settle_or_set_aside(self, step: Disputable, work: Work, at_once: bool) -> None:
        """A change that needs no staging table, and that nothing follows from."""
        try:
            with self.writer.alone(at_once):
                self._settle(step, work)
        except Conflict as reason:
            self._set_aside(step, work, refused(reason, self.checkpoint.position).message)

    def _set_aside(self, step: Disputable, work: Work, reason: str, is_first: bool = True) -> None:
        """In the epoch's transaction. Raises RowRefused where it may not be."""
        table, where = step.change.table.source, self._where(step.sequence)
        why_not = unfit(step, work.context, work.states, is_first)
        reason = words(step.unconverted) if step.unconverted and is_first else reason
        if why_not:
            raise RowRefused(f"{reason}; not set aside: {why_not}", table=str(table), position=where.position)
        change = to_set_aside(step.change, where, reason, step.unconverted)
        work.set_aside(replace(change, number=self.writer.set_aside(self.job, change)))
        reach("apply.set.aside")

    def _settle(self, step: Disputable, work: Work, where: Where | None = None) -> None:
        """A change that may find the target otherwise: what its table's policy makes of it, noted beside it."""
        waits = work.leaves_out(step.change)  # its row is read again from the source; what follows from it is not
        if step.unconverted and not waits:
            key = step.change.old_key or {name: step.change.values[name] for name in step.change.table.key}
            raise Conflict(step.change.table.source, words(step.unconverted), key)
        decider = Decider(self.writer, work.context.keys is not None)
        verdict = Verdict(()) if waits else decider.decide(step.change, step.policy)
        self._cascade(step.ahead if verdict.stands else (), work)
        for change in verdict.changes:
            self.writer.change(change)
        if verdict.kind and not (step.may_be_gone and verdict.kind == "missing"):
            where = where or self._where(step.sequence)
            self.writer.note(self.job, note_of(step.change, step.policy, verdict, where))
            work.note(step.change.table.source, f"{verdict.kind}, {verdict.decision}")
            reach("apply.conflict.noted")
        self._cascade(step.follow if verdict.stands else (), work)

    def _where(self, sequence: int) -> Where:
        ref = self.trail.descriptors(sequence - 1, sequence)[-1]
        row = self.trail.transactions(ref).slice(sequence - ref.first_sequence, 1).to_pylist()[0]
        return Where(sequence, str(Position(sequence, row["native"])), row["commit_time"])

    def _note_slow(self, reason: Exception, upto: int) -> None:
        self.writer.rollback()
        reach("apply.conflict")
        self.totals.slow_epochs += 1
        self.totals.last_slow = str(reason)
        log.get(job=self.job).info("slow_epoch", why=str(reason), upto=upto)

    # --- checkpoint ------------------------------------------------------------------------------------------

    def work(self) -> Work:
        return Work(self.context, dict(self.states), self.target_of, self._has_joined)

    def _has_joined(self, table: TableId, sequence: int) -> bool:
        """Was the table brought in again after `sequence`?"""
        return self.trail.history.joined_after(table, sequence)

    def _then(self, position: Position, commit_time: int) -> Checkpoint:
        return Checkpoint(self.checkpoint.owner, self.checkpoint.epoch + 1, position, commit_time)

    def begin(self, then: Checkpoint, now: Checkpoint | None = None) -> None:
        self._is_in_doubt = True
        reach("apply.begin")
        if self.writer.begin(now or self.checkpoint, then) is not Begun.OPEN:
            raise OutOfStep(f"the target is not at {self.checkpoint.position} any more", job=self.job)
        reach("apply.begun")

    def commit(self, then: Checkpoint, work: Work) -> None:
        work.pass_windows(then.position.sequence)
        for table, state in work.states.items():
            before = self.states.get(table)
            if state is not before:
                same = before is not None and state.schema is before.schema
                self.writer.save_table(self.job, replace(state, schema=None) if same else state)
                reach("apply.saved")
        forgotten = self.states.keys() - work.states.keys()
        for table in forgotten:
            self.writer.forget_table(self.job, table)
        reach("apply.commit")
        self.writer.commit()
        reach("apply.committed")
        self._patience.success()
        kept = let_go(self.job, self.store, self.trail.directory, self.names, forgotten)
        tell(self.job, self.checkpoint, then, work, forgotten - kept.keys())
        self.totals.transactions += then.position.sequence - self.checkpoint.position.sequence
        self.totals.changes += sum(work.counts.values())
        self.totals.epochs += 1
        self.checkpoint, self.context, self.states = then, work.context, {**work.states, **kept}
        self._is_in_doubt = False
