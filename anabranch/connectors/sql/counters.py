"""The number that a counter of a target is set to when the target takes over: past the rows that are there and past what the
source has given, with a margin, in the counter's own step, from its own start.

What does not live here: reading and setting counters (each target).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.contracts import Counter
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable


def last_given(start: int, step: int, used: Iterable[int | None], margin: int) -> int | None:
    """Return the number that counts as given last: no number in `used` is ahead of it, it is `start` and a multiple of `step`
    away, and `margin` steps are left out. None where nothing is used: the counter stays as it is.

    Below 0 the step goes down, and "ahead" is below."""
    known = [number for number in used if number is not None]
    if not known:
        return None
    way = 1 if step > 0 else -1
    far = max(way * number for number in known) - way * start
    steps = max(0, -(-far // abs(step)))
    return start + step * (steps + margin)


def source_counters(
    tables: Iterable[TargetTable], target: TableId, column: str, counters: Sequence[Counter]
) -> list[Counter]:
    """Return the source's counters of a column of a target table: one of each source table that goes into it, and counts
    there."""
    into = [table for table in tables if table.target == target]
    names = [dict(zip(one.columns, one.source_columns or one.columns, strict=True)) for one in into]
    wanted = {(one.source, its.get(column, column)) for one, its in zip(into, names, strict=True)}
    return [one for one in counters if (one.table, one.column) in wanted]
