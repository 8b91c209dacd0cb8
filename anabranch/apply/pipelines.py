"""`mode = "transaction"` at a target that takes many source transactions at once: runs of small ones, each committed by
itself. A transaction that is not small, or is refused, goes alone between them.

What does not live here: which are small (`small.py`), one transaction alone (`merge_carrier.py`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from anabranch import spans
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.feed import SourceTransaction
from anabranch.apply.images import order_of
from anabranch.apply.plan import FilterImages, group
from anabranch.apply.progress import OutOfStep, Progress
from anabranch.apply.relaxed import Relaxed
from anabranch.apply.small import Planned, plan
from anabranch.apply.stage import Group
from anabranch.contracts import PipelinedWriter
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.chunk import Chunk
from anabranch.rows.small import SmallTransactions

PIPELINED = 8000  # transactions that are sent to the target between two commits that wait for its disk
FEW = 4  # shorter runs gain nothing
LONG_S = 2.0  # a slow target is given shorter runs, so that its disk is waited for, and status updated, more often


def in_pipelines(
    progress: Progress,
    writer: PipelinedWriter,
    chunks: Sequence[Chunk],
    filtered: FilterImages | None,
    alone: Callable[[SourceTransaction], None],
) -> None:
    """Carry out runs of small transactions. Those that are not small, or are refused, are carried out by `alone`
    between them."""
    line = _Line(chunks)
    try:
        plans = _Plans(line, group(chunks, progress.context, filtered), progress.context)
    except NeedsSlowWay:  # the transaction that needs it says why when it is carried out alone
        for place in range(len(line)):
            alone(line[place])
        return
    place, most = 0, PIPELINED
    with plans:
        while place < len(line):
            if plans.context is not progress.context:
                plans.change(group(chunks, progress.context, filtered), progress.context)
            planned, end = plans.at(place)
            # A change that moves a row that waits to be read again is noted in the epoch that carries it out.
            stop = place if any(plans.part.waiting.values()) else _end(line, planned, place, min(end, place + most))
            begin, are_some = time.monotonic(), stop - place >= FEW
            done = 0
            if are_some:
                with spans.span("pipeline", after=line.sequences[place] - 1, upto=line.sequences[stop - 1]) as told:
                    done = _pipelined(progress, writer, line, range(place, stop), planned)
                    told.note(transactions=done)
            if are_some and done < stop - place:
                most = FEW * 4  # transactions near a refused one may be refused, too
            elif are_some:
                is_slow = time.monotonic() - begin > LONG_S
                most = max(FEW * 4, most // 2) if is_slow else min(PIPELINED, most * 2)
            if done < stop - place or stop == place:
                alone(line[place + done])
                done += 1
            place += done


class _Line:
    """The transactions of some chunks, one after the other."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.sequences: list[int] = []
        self.natives: list[str] = []
        self.commit_times: list[int] = []
        self._chunks, self._firsts = chunks, [0]
        for chunk in chunks:
            self.natives += chunk.transactions.column("native").to_pylist()
            self.commit_times += chunk.transactions.column("commit_time").to_pylist()
            self.sequences += range(chunk.first_sequence, chunk.first_sequence + chunk.transactions.num_rows)
            self._firsts.append(len(self.sequences))

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, place: int) -> SourceTransaction:
        sequence = self.sequences[place]
        chunk = self._chunks[bisect_right(self._firsts, place) - 1]
        position = Position(sequence, self.natives[place])
        return SourceTransaction(sequence, position, self.commit_times[place], lambda: iter((chunk,)))


class _Plans:
    """Plans of PIPELINED transactions at a time. The next ones are planned while the target works on those before."""

    def __init__(self, line: _Line, part: Group, context: ApplyContext) -> None:
        self._line, self._threads = line, ThreadPoolExecutor(1, "anabranch-plan")
        self._ahead: tuple[int, Future[Planned]] | None = None
        self.change(part, context)

    def __enter__(self) -> _Plans:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def change(self, part: Group, context: ApplyContext) -> None:
        self.part, self.context, self._ahead, self._end = part, context, None, 0

    def at(self, place: int) -> tuple[Planned, int]:
        """Return the plan that holds at a place, and the place where it ends."""
        if place >= self._end:
            ahead, self._ahead = self._ahead, None
            self._planned = (
                ahead[1].result() if ahead and ahead[0] == place else self._plan(place, self.part, self.context)
            )
            self._end = min(len(self._line), place + PIPELINED)
            if self._end < len(self._line):
                self._ahead = self._end, self._threads.submit(self._plan, self._end, self.part, self.context)
        return self._planned, self._end

    def _plan(self, place: int, part: Group, context: ApplyContext) -> Planned:
        last = min(len(self._line), place + PIPELINED) - 1
        bounds = (self._line.sequences[place], self._line.sequences[last] + 1)
        return plan(part.within(*(order_of(sequence, part.base) for sequence in bounds)), context)


def _end(line: _Line, planned: Planned, place: int, end: int) -> int:
    """Find the first transaction from `place` on that has to go alone; `end` where there is none."""
    return next((n for n in range(place, end) if line.sequences[n] in planned.apart), end)


def _pipelined(progress: Progress, writer: PipelinedWriter, line: _Line, small: range, planned: Planned) -> int:
    """Carry out small transactions, and return how many are done. They are committed one by one. The epoch after them
    makes them durable, and saves what they changed besides rows."""
    left = planned.sequences - progress.ahead.keys()
    some = [n for n in small if line.sequences[n] in left]
    sent = SmallTransactions(
        [line.sequences[n] for n in some],
        [line.natives[n] for n in some],
        [line.commit_times[n] for n in some],
        planned.of([line.sequences[n] for n in some]) if some else [],
    )
    progress.begin_pipeline()
    found = writer.one_by_one(progress.checkpoint, sent) if some else progress.checkpoint
    reach("apply.pipelined")
    is_moved = not isinstance(writer, Relaxed) or writer.moves
    number = found.epoch - progress.checkpoint.epoch
    places = [progress.checkpoint.position.sequence, *sent.sequences]
    if not 0 <= number < len(places) or places[number] != found.position.sequence:
        raise OutOfStep(f"the target is not behind {progress.checkpoint.position} any more", job=progress.job)
    done = len(small) if number == len(some) else some[number] - small.start
    if done:
        last = line[small[done - 1]]
        then = Checkpoint(found.owner, found.epoch + 1, last.position, last.commit_time)
        progress.begin(then, found if is_moved else progress.checkpoint)
        work = progress.work()
        work.count(_counts(sent.part(0, number)))
        progress.commit(then, work)
        progress.end_pipeline(number)
    return done


def _counts(sent: SmallTransactions) -> dict[TableId, int]:
    found: Counter[TableId] = Counter()
    for one in sent.changes:
        found[one.shape.table.source] += len(one)
    return found
