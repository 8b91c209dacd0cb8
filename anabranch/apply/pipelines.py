"""`mode = "transaction"` at a target that takes many source transactions at once: runs of small ones, each committed by itself;
what is none, or is refused, alone between them.

What does not live here: which are small (`small.py`), one transaction alone (`epoch.py`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from anabranch.abc import PipelinedWriter
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.feed import SourceTransaction, each
from anabranch.apply.images import order_of
from anabranch.apply.plan import FilterImages, group
from anabranch.apply.small import Planned, plan
from anabranch.errors import TargetUnavailable
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.rows.chunk import Chunk
from anabranch.rows.small import SmallTransactions

if TYPE_CHECKING:
    from anabranch.apply.epoch import Applier

PIPELINED = 2000  # transactions that are sent to the target between two commits that wait for its disk
FEW = 4  # fewer gain nothing


class OutOfStep(TargetUnavailable):
    """The target is not where this process left it: it lost its last commits, or has one whose answer was lost."""


def in_pipelines(
    applier: Applier, writer: PipelinedWriter, chunks: Sequence[Chunk], filtered: FilterImages | None
) -> None:
    """Runs of small transactions; what is none, or is refused, alone between them."""
    left = deque(transaction for chunk in chunks for transaction in each(chunk))
    try:
        part = group(chunks, applier.context, filtered)
    except NeedsSlowWay:  # of one of them: alone it says what it lacks
        for transaction in left:
            applier.alone(transaction)
        return
    context, planned, upto, most = applier.context, Planned(), 0, PIPELINED
    while left:
        if context is not applier.context:
            context, upto = applier.context, 0
            part = group(chunks, context, filtered)
        if left[0].sequence > upto:
            upto = left[min(len(left), PIPELINED) - 1].sequence
            bounds = (order_of(sequence, part.base) for sequence in (left[0].sequence, upto + 1))
            planned = plan(part.within(*bounds), context)
        # What moves a row that waits to be read again is noted in the epoch that carries it out.
        small = [] if any(part.dirty.values()) else _beginning(islice(left, most), planned, upto)
        done = _pipelined(applier, writer, small, planned) if len(small) >= FEW else 0
        for _ in range(done):
            left.popleft()
        most = PIPELINED if done == len(small) else FEW * 4  # others may be refused near it
        if done < len(small) or not small:
            applier.alone(left.popleft())


def _beginning(run: Iterable[SourceTransaction], planned: Planned, upto: int) -> list[SourceTransaction]:
    return list(takewhile(lambda one: one.sequence <= upto and one.sequence not in planned.apart, run))


def _pipelined(applier: Applier, writer: PipelinedWriter, small: Sequence[SourceTransaction], planned: Planned) -> int:
    """How many are done. They are committed one by one, and certain to stay with the epoch behind them, which also says
    what they came to."""
    some = [one for one in small if one.sequence in planned.sequences]
    applier.ask_again()  # until it is known how far it came
    changes = planned.of([one.sequence for one in some]) if some else []
    sent = SmallTransactions([one.position for one in some], [one.commit_time for one in some], changes)
    applier.unsettled = True
    found = writer.one_by_one(applier.checkpoint, sent) if some else applier.checkpoint
    reach("apply.pipelined")
    number = found.epoch - applier.checkpoint.epoch
    places = [applier.checkpoint.position.sequence, *(one.sequence for one in some)]
    if not 0 <= number < len(places) or places[number] != found.position.sequence:
        raise OutOfStep(f"the target is not behind {applier.checkpoint.position} any more", job=applier.job)
    done = [one for one in small if number == len(some) or one.sequence < some[number].sequence]
    if done:
        then = Checkpoint(found.owner, found.epoch + 1, done[-1].position, done[-1].commit_time)
        applier.begin(then, found)
        work = applier.work()
        work.count(_counts(sent.part(0, number)))
        applier.commit(then, work)
        applier.totals.epochs += number
    applier.unsettled = False
    return len(done)


def _counts(sent: SmallTransactions) -> dict[TableId, int]:
    found: Counter[TableId] = Counter()
    for one in sent.changes:
        found[one.shape.table.source] += len(one)
    return found


def settle(applier: Applier) -> None:
    """Commit once with the target's disk, after pipelined commits whose closing epoch did not come: what stands behind them
    counts as applied, and lets the trail go, only when it is durable."""
    applier.move_on(applier.checkpoint.position, applier.checkpoint.commit_time)
    applier.unsettled = False
