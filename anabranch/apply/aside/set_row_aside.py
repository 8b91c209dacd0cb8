"""Set a row aside: keep a change that the target refuses, in the epoch's own transaction, while the rest goes on (K26).

What does not live here: which changes may be set aside (`permitted.py`), finding out that the target refuses one
(`row_by_row.py`), what a load sets aside (`load/asides.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.apply.abilities import MergeWriter
from anabranch.apply.aside.permitted import row_of, unfit
from anabranch.apply.conflict import Where
from anabranch.apply.progress import Progress
from anabranch.apply.stage import Disputable
from anabranch.apply.unconverted import words
from anabranch.apply.work import Work
from anabranch.errors import RowRefused
from anabranch.failpoints import reach
from anabranch.rows.aside import AsideChange
from anabranch.rows.net import DELETE, INSERT, RowChange


def set_aside(
    step: Disputable, work: Work, progress: Progress, writer: MergeWriter, reason: str, is_first: bool = True
) -> None:
    """Set a change aside. `is_first`: no earlier change of its row is. Raises RowRefused where that may not be."""
    table, where = step.change.table.source, progress.where(step.sequence)
    why_not = unfit(step, work.context, work.states, is_first)
    reason = words(step.unconverted) if step.unconverted and is_first else reason
    if why_not:
        raise RowRefused(f"{reason}; not set aside: {why_not}", table=str(table), position=where.position)
    change = _aside_of(step.change, where, reason, step.unconverted)
    work.set_aside(replace(change, number=writer.set_aside(progress.job, change)))
    reach("apply.set.aside")


def _aside_of(change: RowChange, where: Where, reason: str, unconverted: Mapping[str, str]) -> AsideChange:
    """Return what is kept of a change."""
    is_insert = change.operation == INSERT
    return AsideChange(
        where.sequence,
        where.position,
        where.commit_time,
        change.table.source,
        change.table.target,
        {name: change.values[name] for name in change.table.key} if is_insert else dict(change.old_key),
        change.operation,
        None if is_insert else row_of(change),
        dict(change.values) if change.operation != DELETE else None,
        reason,
        change.keys_off,
        unconverted=dict(unconverted),
    )
