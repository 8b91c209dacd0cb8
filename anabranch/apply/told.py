"""Reports of apply about its epochs: lines of the log for one that is committed, and counts.

What does not live here: slow epochs, and ends that are away (`epoch.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch import log
from anabranch.apply.work import Work
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.model.state import Checkpoint


@dataclass
class Totals:
    """Counts of this process: `epochs` are target transactions, `slow_epochs` attempts that went the slow way."""

    transactions: int = 0
    changes: int = 0
    epochs: int = 0
    slow_epochs: int = 0
    last_slow: str = ""
    busy_seconds: float = 0.0  # spent on epochs


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
