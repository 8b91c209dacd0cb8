"""Several appliers: small source transactions over several sessions at once, which commit in the source's order
(`[apply] appliers`).

A session carries a transaction's changes out as soon as those that it depends on are committed, waits until it is its turn,
moves the checkpoint by compare-and-set as its last statement, and commits. So what is committed is always a beginning of the
source's log, and the checkpoint row says which (K9): whatever dies, nothing is left out and nothing is done twice.

Nobody waits for ever (K22). Outside of the target a transaction waits only for earlier ones; inside, for a lock, only as long
as its session's short limit. One that may not have a lock, or is refused, is undone with all later ones, and is done again
alone over the writer's own session, while no other has anything open. What does not live here: which transactions are small
(`small.py`), which depend on each other (`dependencies.py`), runs and what goes alone between them (`pipelines.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Protocol

from anabranch.apply.dependencies import needed
from anabranch.apply.progress import OutOfStep, Progress
from anabranch.contracts import ApplierSession, ParallelWriter, PipelinedWriter
from anabranch.errors import Fenced
from anabranch.failpoints import reach
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import ChangeShape
from anabranch.rows.small import SmallTransactions, Values

BATCH = 100  # transactions whose changes are taken out of the columns at once


class AppliersWriter(PipelinedWriter, ParallelWriter, Protocol):
    """A Writer with one session, and with several."""

    def close(self) -> None: ...


class InOrder:
    """A PipelinedWriter over `number` sessions of another one. Which one is asked where a single session has to do.

    Delivery: as PipelinedWriter; each transaction's last statement, and not its first, moves the checkpoint."""

    def __init__(self, progress: Progress, writer: AppliersWriter, number: int) -> None:
        self._progress, self._writer, self._number = progress, writer, number

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        tables = list(dict.fromkeys(one.shape.table for one in transactions.changes))
        sessions = self._writer.appliers(self._number, tables)
        if not sessions:
            return self._writer.one_by_one(now, transactions)
        followed = self._progress.context.tables
        unique = {table.source: followed[table.source].unique for table in tables}
        run = _Run(now, transactions, needed(transactions, unique))
        try:
            run.carry_out(sessions)
        except BaseException:  # whatever it was: its commit may still be under way, and it is passed on
            self._writer.close()
            raise
        found = self._progress.store.jobs.checkpoint(self._progress.job)
        if found is None:
            raise OutOfStep("the checkpoint row is gone", job=self._progress.job)
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._progress.job)
        return found


class _Run:
    """One run of transactions, by their numbers from 0. `_done` are committed; from `_stop` on none will be."""

    def __init__(self, now: Checkpoint, transactions: SmallTransactions, needs: Sequence[int]) -> None:
        self._now, self._transactions, self._needs = now, transactions, needs
        self._next = self._done = 0
        self._stop = len(transactions)
        self._changed = Condition()
        self._batch: tuple[int, list[list[tuple[ChangeShape, Values]]]] = (-1, [])

    def carry_out(self, sessions: Sequence[ApplierSession]) -> None:
        """Carry the transactions out up to the first one that cannot be committed. Nothing is open afterwards. Raises the first
        error of a session."""
        with ThreadPoolExecutor(len(sessions), "anabranch-applier") as threads:
            ends = [threads.submit(self._work, session) for session in sessions]
        for end in ends:
            end.result()

    def _work(self, session: ApplierSession) -> None:
        number = 0
        try:
            while (taken := self._take()) is not None:
                number, changes = taken
                if not self._one(session, number, changes):
                    self._end(number)
                    session.rollback()
                    return
        except BaseException:  # whatever it was: the others have to end, and it is passed on
            self._end(number)
            raise

    def _one(self, session: ApplierSession, number: int, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        """Carry one transaction out and commit it. Returns False where it cannot be committed, or an earlier one cannot."""
        if not self._wait(number, lambda: self._done > self._needs[number]) or not session.carry_out(changes):
            return False
        reach("apply.carried")
        if not self._wait(number, lambda: self._done == number) or not session.commit(*self._places(number)):
            return False
        reach("apply.in.turn")
        with self._changed:
            self._done = number + 1
            self._changed.notify_all()
        return True

    def _take(self) -> tuple[int, Sequence[tuple[ChangeShape, Values]]] | None:
        """Return the next transaction with its changes. Numbers are taken in order, so that whoever waits for one waits for a
        session that has it."""
        with self._changed:
            number = self._next
            if number >= self._stop:
                return None
            self._next += 1
            first = number - number % BATCH
            if self._batch[0] != first:
                self._batch = first, self._transactions.part(first, first + BATCH).each()
            return number, self._batch[1][number - first]

    def _wait(self, number: int, comes: Callable[[], bool]) -> bool:
        """Wait until `comes` says so. Returns False where an earlier transaction, or this one, cannot be committed."""
        with self._changed:
            self._changed.wait_for(lambda: number >= self._stop or comes())
            return number < self._stop

    def _end(self, number: int) -> None:
        with self._changed:
            self._stop = min(self._stop, number)
            self._changed.notify_all()

    def _places(self, number: int) -> tuple[Checkpoint, Checkpoint]:
        """Return the checkpoints before and behind a transaction."""
        return self._place(number - 1), self._place(number)

    def _place(self, number: int) -> Checkpoint:
        if number < 0:
            return self._now
        some, epoch = self._transactions, self._now.epoch + number + 1
        position = Position(some.sequences[number], some.natives[number])
        return Checkpoint(self._now.owner, epoch, position, some.commit_times[number])
