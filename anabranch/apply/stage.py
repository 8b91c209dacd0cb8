"""Values between planning and carrying out: a group of chunks, a stage of net changes, a change that may be refused.

No behaviour lives here but cutting a group. Planning is in `plan.py` and `row_steps.py`, carrying out in `set_wise.py`
and `row_by_row.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.apply.cascades.cascade import ParentChange
from anabranch.apply.context import KeyTexts
from anabranch.apply.images import Images, sequence_of
from anabranch.model.ddl_changes import PARKS, DdlRule
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Op
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.net import Cascade, RowChange, TableNet, TargetTable


@dataclass(frozen=True)
class Parked:
    """`stood`: the sequence behind which the table could go on with its rows, as long as the trail has it."""

    table: TableId
    sequence: int
    reason: str
    statement: str
    rule: DdlRule = PARKS
    stood: int | None = None


@dataclass(frozen=True)
class Ignored:
    """A statement that a table goes on behind, with the target's table as it is. `kinds`: of what it changes."""

    table: TableId
    sequence: int
    kinds: tuple[str, ...]
    statement: str


@dataclass(frozen=True)
class Stage:
    """A stage. It is carried out in this order: truncates, nets (in their order where the target enforces foreign keys,
    else in any), cascades. `ahead`: cascades that come before the net at a place (K7). `reread`: keys that the load
    window must read again from the source (K3)."""

    truncates: tuple[TargetTable, ...] = ()
    nets: tuple[TableNet, ...] = ()
    cascades: tuple[Cascade, ...] = ()
    ahead: Mapping[int, tuple[Cascade, ...]] = field(default_factory=dict)
    reread: tuple[tuple[TableId, pa.Table], ...] = ()


@dataclass(frozen=True)
class Group:
    """Some chunks, ready to be planned: images per table, parent changes, barriers, all on one axis of orders."""

    base: int
    images: Mapping[TableId, Images]
    changes: Sequence[ParentChange]
    truncates: Sequence[tuple[int, TargetTable]]
    parked: Sequence[Parked]
    waiting: Mapping[TableId, frozenset[KeyTexts]] = field(default_factory=dict)  # of tables with rows to be read again
    ignored: Sequence[Ignored] = ()

    def within(self, start: int, stop: int) -> Group:
        """Return the part with start <= order < stop."""
        images = {table: images.between(start, stop) for table, images in self.images.items()}
        low, high = sequence_of(start, self.base), sequence_of(stop, self.base)
        return Group(
            self.base,
            {table: some for table, some in images.items() if len(some)},
            self.changes[slice(*(bisect_left(self.changes, at, key=lambda c: c.order) for at in (start, stop)))],
            [(o, t) for o, t in self.truncates if start <= o < stop],
            [p for p in self.parked if low <= p.sequence < high],
            self.waiting,
            [one for one in self.ignored if low <= one.sequence < high],
        )

    def counts(self) -> dict[TableId, int]:
        """Return row changes per table: the two images of an update count once."""
        return {table: int((images.op != Op.BEFORE).sum()) for table, images in self.images.items()}


@dataclass(frozen=True)
class Disputable:
    """A change of a table whose policy decides about disagreements (conflict.py), or that may be set aside
    (aside/permitted.py). `ahead` comes just before it, and `follow` after it, if the change stands."""

    sequence: int
    order: int
    policy: ConflictPolicy
    ahead: tuple[Cascade, ...]
    change: RowChange
    follow: tuple[Cascade, ...]
    may_be_gone: bool = False  # it may have gone with a parent in the same transaction: then it may be missing
    unconverted: Mapping[str, str] = field(default_factory=dict)
    """Columns that the change lacks, and why: it is refused."""


@dataclass
class RemovedByKeys:
    """Tables from which cascades of the present transaction have removed rows. A large transaction comes in several
    groups."""

    sequence: int = 0
    tables: set[TableId] = field(default_factory=set)

    def begin(self, sequence: int) -> None:
        if sequence != self.sequence:
            self.sequence, self.tables = sequence, set()
