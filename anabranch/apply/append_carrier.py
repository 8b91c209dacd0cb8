"""Carrying out a trail at a target that keeps changes: each of them is added behind those that are there (`CarryOut`).

Nothing is compacted, and nothing there is compared with what is expected. What does not live here: what a change looks like
at the target (its Appender).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch import spans
from anabranch.apply.appending import batch_of_group, with_open
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.feed import Feed
from anabranch.apply.images import Images
from anabranch.apply.plan import FilterImages, group
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.apply.unconverted import Unconvertible, places, words
from anabranch.apply.work import Work
from anabranch.contracts import Appender, Conflict, TookTooLong
from anabranch.errors import RowRefused, StateError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.net import RowChange, TargetTable

NO_ROWS = "the target keeps changes and no rows: a table cannot be read again or go on behind others"
TRUNCATED = "anabranch skip add JOB POSITION --execute goes on behind it, without anything of that transaction"


@dataclass
class AppendCarrier:
    """`CarryOut` by appending.

    Delivery: an epoch's changes and its checkpoint are committed together; a transaction is in one epoch whole."""

    progress: Progress
    writer: Appender
    filtered: FilterImages | None = None
    at_once: int = 0  # transactions of the source in one epoch, at most; 0: however many

    def carry_out(self, feed: Feed, again: bool = False) -> None:
        """Carry out the feed in one epoch, or in several where one may have so many transactions only; where something is
        refused, in halves, so that all in front of it is delivered and the error names the transaction. Raises RowRefused."""
        if (most := self.at_once) and feed.upto - feed.after > most:
            for after in range(feed.after, feed.upto, most):
                self.carry_out(Feed(feed.trail, after, min(after + most, feed.upto)))
            return None
        try:
            self._at_once(feed)
        except (Conflict, NeedsSlowWay, RowRefused, TookTooLong) as reason:
            self.progress.writer.rollback()
            if feed.upto - feed.after == 1:
                if isinstance(reason, TookTooLong) and not again:
                    return self.carry_out(feed, again=True)  # it may have waited for a target that was away
                raise self._told(reason, feed) from reason
            middle = (feed.after + feed.upto) // 2
            self.carry_out(Feed(feed.trail, feed.after, middle))
            self.carry_out(Feed(feed.trail, middle, feed.upto))

    def _at_once(self, feed: Feed) -> None:
        then = self.progress.then(*feed.end())
        facts: dict[str, spans.Fact] = {"epoch": then.epoch, "after": feed.after, "upto": feed.upto}
        with spans.span("epoch", **facts, position=str(then.position)) as told:
            work = self._in_one(feed, then)
            told.note(rows=sum(work.counts.values()), transactions=feed.upto - feed.after)

    def _in_one(self, feed: Feed, then: Checkpoint) -> Work:
        """Append a feed in one transaction of the target. Returns what it has changed."""
        progress = self.progress
        progress.begin(then)
        work = progress.work()
        for chunks in feed.groups():
            tables = {table: one.table for table, one in work.context.tables.items()}
            with spans.span("decode"):
                part = group(chunks, work.context, self.filtered)
            _refuse_unconverted(part.images, tables)
            batch = with_open(batch_of_group(part, chunks, tables), chunks, feed)
            if batch.emptied and not self.writer.takes_emptied:
                what = "the source has emptied the table by TRUNCATE, which change tables have no row for"
                raise RowRefused(what, table=str(batch.emptied[0].table.source), hint=TRUNCATED)
            with spans.span("apply"):
                self.writer.append(batch)
            reach("apply.appended")
            for one in part.parked:
                if one.table in tables:
                    self.writer.end(tables[one.table], one.sequence)
            work.count(part.counts())
            work.park(part.parked)
            work.ignore(part.ignored)
        progress.commit(then, work)
        return work

    def _told(self, reason: Exception, feed: Feed) -> RowRefused:
        position, _ = feed.end()
        if isinstance(reason, TookTooLong):
            return RowRefused(f"one transaction: {reason.message}", position=str(position), hint=reason.hint)
        if not isinstance(reason, RowRefused):
            assert isinstance(reason, Conflict | NeedsSlowWay)
            return refused(reason, position)
        reason.position = str(position)
        return reason

    def replay(
        self, states: Sequence[TableState], replayed: ApplyContext, joined: ApplyContext, upto: int | None = None
    ) -> None:
        raise self._refused(states[0])

    def put(self, state: TableState, changes: Iterable[RowChange], window: Followed | None = None) -> None:
        raise self._refused(state)

    def _refused(self, state: TableState) -> StateError:
        return StateError(NO_ROWS, job=self.progress.job, table=str(state.source))


def _refuse_unconverted(images: Mapping[TableId, Images], tables: Mapping[TableId, TargetTable]) -> None:
    """Refuse a value that could not be converted, in old images, too: a change table has all of them."""
    for table, some in images.items():
        for at in places(some):
            if marks := some.unconverted_at(at):
                raise Unconvertible(tables[table], words(marks))
