"""Carrying out a trail at a target that keeps changes: each of them is added behind those that are there (`CarryOut`).

Nothing is compacted, and nothing there is compared with what is expected. What does not live here: what a change looks like
at the target (its Appender).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.apply.appending import batch_of_group
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.feed import Feed
from anabranch.apply.plan import FilterImages, group
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.apply.unconverted import refuse_unconverted
from anabranch.contracts import Appender
from anabranch.errors import RowRefused, StateError
from anabranch.failpoints import reach
from anabranch.model.table_life import TableState
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.net import RowChange

NO_ROWS = "the target keeps changes and no rows: a table cannot be read again or go on behind others"
TRUNCATED = "leave the table out ([[rules]] exclude), or skip the transaction: anabranch skip JOB POSITION --reason WHY"


@dataclass
class AppendCarrier:
    """`CarryOut` by appending.

    Delivery: an epoch's changes and its checkpoint are committed together; a transaction is in one epoch whole."""

    progress: Progress
    writer: Appender
    filtered: FilterImages | None = None

    def carry_out(self, feed: Feed) -> None:
        progress = self.progress
        then = progress.then(*feed.end())
        progress.begin(then)
        work = progress.work()
        for chunks in feed.groups():
            tables = {table: one.table for table, one in work.context.tables.items()}
            part = group(chunks, work.context, self.filtered)
            try:
                refuse_unconverted(part.images, tables)
            except NeedsSlowWay as reason:
                raise refused(reason, then.position) from reason
            batch = batch_of_group(part, chunks, tables)
            self._refuse_emptied(batch)
            self.writer.append(batch)
            reach("apply.appended")
            work.count(part.counts())
            work.park(part.parked)
        progress.commit(then, work)

    def replay(
        self, states: Sequence[TableState], replayed: ApplyContext, joined: ApplyContext, upto: int | None = None
    ) -> None:
        raise self._refused(states[0])

    def put(self, state: TableState, changes: Iterable[RowChange], window: Followed | None = None) -> None:
        raise self._refused(state)

    def _refused(self, state: TableState) -> StateError:
        return StateError(NO_ROWS, job=self.progress.job, table=str(state.source))

    def _refuse_emptied(self, batch: ChangeBatch) -> None:
        """Refuse TRUNCATE: which rows went is not in the log, and a change table has no row for it."""
        for one in batch.emptied:
            where = self.progress.where(one.sequence)
            what = "the source has emptied the table by TRUNCATE, which change tables have no row for"
            raise RowRefused(what, table=str(one.table.source), position=where.position, hint=TRUNCATED)
