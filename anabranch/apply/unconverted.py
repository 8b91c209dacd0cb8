"""Images with values that could not be converted. The source's reader has left these values out and marked them
(ValueRules.carries). Their changes are refused where they stand, just as what the target refuses.

What does not live here: what becomes of a refused change (`row_steps.py`, `aside/`, `life/park.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.images import Images
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable
from anabranch.rows.refused import LEAVE_OUT

HINT = f"{LEAVE_OUT}; a value that stands for such ones: [types] zero_date, nul"


class Unconvertible(NeedsSlowWay):
    """The error for a change that cannot be applied, whatever the target holds."""

    hint = HINT


def refuse_unconverted(images: Mapping[TableId, Images], tables: Mapping[TableId, TargetTable]) -> None:
    """Raise Unconvertible for a change with a value that could not be converted: the quick way applies none."""
    for table, some in images.items():
        for at in places(some):
            if marks := lacking(some, at, tables[table]):
                raise Unconvertible(tables[table], words(marks))


def places(images: Images) -> Iterator[int]:
    """Find the images that lack such values."""
    if images.unconverted and len(images):
        orders = np.array(sorted(images.unconverted), np.int64)
        yield from np.flatnonzero(np.isin(images.order, orders)).tolist()


def lacking(images: Images, at: int, table: TargetTable) -> dict[str, str]:
    """Return the missing values that keep the change of an image from being applied. Of an old row only the key counts,
    where the table has one."""
    marks = images.unconverted_at(at)
    is_put = images.op[at] in (Op.INSERT, Op.AFTER)
    return {name: what for name, what in marks.items() if is_put or not table.key or name in table.key}


def lacking_of(images: Images, changed: Sequence[int], table: TargetTable) -> dict[str, str]:
    """Return the same for changes, by the place of their last image."""
    if not images.unconverted:
        return {}
    found: dict[str, str] = {}
    for at in changed:
        found |= lacking(images, at - 1, table) if images.op[at] == Op.AFTER else {}
        found |= lacking(images, at, table)
    return found


def words(marks: Mapping[str, str]) -> str:
    return ", ".join(f"column {name} holds {what}" for name, what in marks.items())
