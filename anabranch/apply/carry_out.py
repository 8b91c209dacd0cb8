"""The contract between following a trail and changing a target: what carries transactions out.

One per kind of target. `merge_carrier.py` brings the target's rows to the state that the source's had; a target that takes
changes, and keeps no state, gets one of its own here. What does not live here: the checkpoint (`progress.py`), which every
one of them moves by `begin` and `commit`; ends that are away, tables that park, transactions that are left out (`epoch.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.feed import Feed
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.net import RowChange


class CarryOut(Protocol):
    """Carries out parts of a trail. Called by one thread, after `Progress.look`, and again with the rest after any error.

    Delivery: each of the target's transactions moves the checkpoint to the end of one of the source's, so what ends this half
    way leaves nothing out and does nothing twice."""

    def carry_out(self, feed: Feed) -> None:
        """Carry out the transactions of the feed, in their order; where it returns, the checkpoint is at the feed's end.

        Raises RowRefused for what the target does not take; the target's transaction may then still be open."""

    def replay(self, states: Sequence[TableState], replayed: ApplyContext, joined: ApplyContext) -> None:
        """Carry out some tables' part of the trail, from where it begins for them up to the checkpoint, in one epoch that saves
        `states`. `replayed`: no other table has anything to do in it; `joined`: what holds afterwards.

        Raises RowRefused for what the target does not take, StateError for rows of another definition."""

    def put(self, state: TableState, changes: Iterable[RowChange], window: Followed | None = None) -> None:
        """Put rows that were read from the source, in one epoch that saves their table's new state. `window`: how the table is
        followed from here on, where the log may have what was read (K3).

        Raises RowRefused for what the target does not take."""


@runtime_checkable
class ReleasesAside(Protocol):
    """Releases rows that it has set aside; an ability that not all have (K26)."""

    def release(
        self,
        state: TableState,
        changes: Sequence[AsideChange],
        followed: Followed,
        numbers: Sequence[int],
        discards: bool,
    ) -> None:
        """One epoch that carries out `changes` of a row that is set aside, in their order; what `numbers` name waits no longer,
        and is kept on record where it is discarded.

        Raises RowRefused, and Fenced where the table is not as `state` says."""
