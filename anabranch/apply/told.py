"""Reports of apply about its epochs: lines of the log for one that is committed, what each one has passed, and counts.

What does not live here: slow epochs, and ends that are away (`epoch.py`).
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anabranch import log
from anabranch.apply.work import Work
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint

KEPT = 2_000  # epochs that wait to be noted, at most


def now() -> int:
    """Return the time by this machine's clock, for people: microseconds since 1970 UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class PassedEpoch:
    """An epoch that has moved on in the trail, behind sequence `after` up to `upto`. Times as of `now`: when its transaction
    was opened at the target, and when it was committed. By source table: row changes that it has carried out, disagreements
    that it has settled, rows that it has set aside. `parked`: tables that it has parked."""

    epoch: int
    after: int
    upto: Position
    began: int
    committed: int
    changes: Mapping[str, int]
    conflicts: Mapping[str, int]
    asides: Mapping[str, int]
    parked: tuple[str, ...]


def passed(before: Checkpoint, then: Checkpoint, began: int, work: Work, parked: Iterable[TableId]) -> PassedEpoch:
    """Return what an epoch that was just committed has passed."""
    conflicts = Counter[str]()
    for (table, _), number in work.conflicts.items():
        conflicts[str(table)] += number
    return PassedEpoch(
        then.epoch,
        before.position.sequence,
        then.position,
        began,
        now(),
        {str(table): number for table, number in work.counts.items() if number},
        conflicts,
        Counter(str(one.source) for one in work.asides),
        tuple(map(str, parked)),
    )


@dataclass
class Totals:
    """Counts of this process: `epochs` are target transactions, `slow_epochs` attempts that went the slow way."""

    transactions: int = 0
    changes: int = 0
    epochs: int = 0
    slow_epochs: int = 0
    last_slow: str = ""
    busy_seconds: float = 0.0  # spent on epochs
    passed: deque[PassedEpoch] = field(default_factory=lambda: deque(maxlen=KEPT))  # whoever notes them takes them out


def tell(job: str, before: Checkpoint, then: Checkpoint, work: Work, forgotten: Iterable[TableId] = ()) -> None:
    """Log an epoch: at `debug` each one; at any level what a person should see."""
    if log.is_detailed():
        changes = {str(table): number for table, number in work.counts.items() if number}
        transactions = then.position.sequence - before.position.sequence
        upto = str(then.position)
        log.get(job=job).debug(
            "epoch_committed", epoch=then.epoch, upto=upto, transactions=transactions, changes=changes
        )
    for (table, what), number in work.conflicts.items():
        log.get(job=job, table=str(table)).warning("conflicts_settled", what=what, number=number)
    for table in forgotten:
        log.get(job=job, table=str(table)).info("table_forgotten", why=DROPPED)
    for one in work.asides:
        log.get(job=job, table=str(one.source)).warning("row_set_aside", number=one.number, reason=one.reason)
