"""Several appliers that do not keep the source's order of commits (`[apply] commit_order = "relaxed"`).

A session takes a transaction when those that it depends on are committed (`scheduling.py`), carries it out and commits.
Its last statement before COMMIT notes its place beside the checkpoint, if that stands where the run began and is this owner's
(`ApplierSession.commit_ahead`). So the checkpoint and these notes together say what is committed (K9): the checkpoint is the
low mark, up to which everything is; what is noted beyond it is not done again. The epoch behind the run moves the checkpoint
over all that hangs together and removes their notes in the same transaction (`progress.py`).

Nobody waits for ever (K22): a session waits for others with nothing open, and only for earlier transactions; in the target it
waits for whoever is about to commit. One that is refused is undone; none is begun behind it, and what is under way then is
committed. It is done again alone. What does not live here: the same in the source's order (`appliers.py`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition

from anabranch.apply.appliers import BATCH, AppliersWriter
from anabranch.apply.progress import Progress
from anabranch.apply.scheduling import Order, ordered
from anabranch.contracts import ApplierSession, NotesApplied
from anabranch.errors import StateError
from anabranch.failpoints import reach
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import ChangeShape
from anabranch.rows.small import SmallTransactions, Values

AHEAD = 1000  # transactions behind the low mark that may be begun: a crash leaves no more of them to be looked at


class Relaxed:
    """A PipelinedWriter over `number` sessions of another one. Which one is asked where a single session has to do.

    It does not move the checkpoint: it returns how far it may be moved, and tells `progress` what is committed beyond.

    Delivery: each transaction commits with a note of its place or not at all; a fenced owner commits none."""

    def __init__(self, progress: Progress, writer: AppliersWriter, number: int) -> None:
        self._progress, self._writer, self._number = progress, writer, number
        self.moves = True  # of the last call: a single session moved the checkpoint, if anything did

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        progress, self.moves = self._progress, True
        tables = list(dict.fromkeys(one.shape.table for one in transactions.changes))
        sessions = self._writer.appliers(self._number, tables)
        if not sessions and progress.ahead:  # their notes are looked at where an epoch passes them
            return now
        if not sessions:
            return self._writer.one_by_one(now, transactions)
        jobs = progress.store.jobs
        if not isinstance(jobs, NotesApplied):
            raise StateError("the target keeps no notes of transactions", hint='[apply] commit_order = "kept"')
        jobs.begin_notes()
        progress.notes_applied()
        self.moves = False
        run = _Run(now, transactions, ordered(transactions, progress.context.tables))
        try:
            run.carry_out(sessions)
        except BaseException:  # whatever it was: a commit may still be under way, and it is passed on
            self._writer.close()
            raise
        reach("apply.relaxed.ended")
        for number in (*range(run.low), *run.beyond()):
            progress.ahead[transactions.sequences[number]] = transactions.natives[number]
        for number in run.beyond():
            of = progress.uncounted[transactions.sequences[number]] = Counter()
            for one in transactions.part(number, number + 1).changes:
                of[one.shape.table.source] += len(one)
        return run.place(run.low)


class _Run:
    """One run of transactions, by their numbers from 0. All before `low` are committed, some behind it, too."""

    def __init__(self, now: Checkpoint, transactions: SmallTransactions, order: Order) -> None:
        self._now, self._transactions, self._order = now, transactions, order
        self._changed = Condition()
        self._is_over = False  # no more are begun
        self.low, self._done = 0, set[int]()
        self._taken = 0
        self._missing = [len(needs) for needs in order.needs]  # groups that have to be committed before each
        self._members = [len(group) for group in order.groups]  # that are not committed
        self._in: list[list[int]] = [[] for _ in order.needs]  # the groups of each transaction
        self._behind: list[list[int]] = [[] for _ in order.groups]  # who needs each group
        for group, members in enumerate(order.groups):
            for number in members:
                self._in[number].append(group)
        for number, needs in enumerate(order.needs):
            for group in needs:
                self._behind[group].append(number)
        self._ready = [number for number, missing in enumerate(self._missing) if not missing]  # a heap: it is sorted
        self._read: dict[int, list[list[tuple[ChangeShape, Values]]]] = {}  # changes, by the first number of a batch
        self._unread: Counter[int] = Counter()  # of a batch: how many were taken

    def carry_out(self, sessions: Sequence[ApplierSession]) -> None:
        """Carry out transactions until all are committed or one is refused. Nothing is open afterwards. Raises the first error
        of a session."""
        with ThreadPoolExecutor(len(sessions), "anabranch-applier") as threads:
            ends = [threads.submit(self._work, session) for session in sessions]
        for end in ends:
            end.result()

    def beyond(self) -> list[int]:
        """Return those that are committed behind one that is not."""
        return sorted(number for number in self._done if number >= self.low)

    def place(self, number: int) -> Checkpoint:
        """Return the checkpoint before a transaction, when all before it are committed."""
        if not number:
            return self._now
        some, last = self._transactions, number - 1
        position = Position(some.sequences[last], some.natives[last])
        return Checkpoint(self._now.owner, self._now.epoch + number, position, some.commit_times[last])

    def _work(self, session: ApplierSession) -> None:
        try:
            while (taken := self._take()) is not None:
                number, changes = taken
                if not session.carry_out(changes):
                    return self._end()
                reach("apply.relaxed.carried")
                some = self._transactions
                if not session.commit_ahead(self._now, Position(some.sequences[number], some.natives[number])):
                    session.rollback()
                    return self._end()
                reach("apply.out.of.turn")
                self._committed(number)
        except BaseException:  # whatever it was: the others have to end, and it is passed on
            self._end()
            raise

    def _take(self) -> tuple[int, Sequence[tuple[ChangeShape, Values]]] | None:
        """Return the first transaction that is ready, with its changes; None when no more are to be begun."""
        with self._changed:
            self._changed.wait_for(self._may_go_on)
            if self._is_over or self._taken == len(self._transactions):
                return None
            number = heapq.heappop(self._ready)
            self._taken += 1
            return number, self._changes(number)

    def _may_go_on(self) -> bool:
        is_ready = bool(self._ready) and self._ready[0] < self.low + AHEAD
        return self._is_over or self._taken == len(self._transactions) or is_ready

    def _changes(self, number: int) -> Sequence[tuple[ChangeShape, Values]]:
        first = number - number % BATCH
        if first not in self._read:
            self._read[first] = self._transactions.part(first, first + BATCH).each()
        self._unread[first] += 1
        batch = self._read[first]
        if self._unread[first] == len(batch):
            del self._read[first]
        return batch[number - first]

    def _committed(self, number: int) -> None:
        with self._changed:
            self._done.add(number)
            while self.low in self._done:
                self._done.remove(self.low)
                self.low += 1
            for group in self._in[number]:
                self._members[group] -= 1
                if not self._members[group]:
                    self._free(self._behind[group])
            self._changed.notify_all()

    def _free(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._missing[number] -= 1
            if not self._missing[number]:
                heapq.heappush(self._ready, number)

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
