"""The contract between following a trail and changing a target: how transactions are carried out.

Each kind of target has one implementation. `merge_carrier.py` brings the target's rows to the state that the source's
had; a target that takes changes and keeps no state gets one of its own here. What does not live here: the checkpoint
(`progress.py`), which each implementation moves by `begin` and `commit`; ends that are away, parked tables,
transactions that are left out (`epoch.py`).
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
    """Carries out parts of a trail. One thread calls it, after `Progress.look`, and after any error again with the
    rest.

    Delivery: each target transaction moves the checkpoint to the end of one of the source's. So a crash at any point
    leaves nothing out and applies nothing twice.
    """

    def carry_out(self, feed: Feed) -> None:
        """Carry out the transactions of the feed, in their order. When it returns, the checkpoint is at the feed's end.

        Raises RowRefused for what the target does not take; the target's transaction may then still be open.
        """

    def replay(
        self,
        states: Sequence[TableState],
        replayed: ApplyContext,
        joined: ApplyContext,
        upto: int | None = None,
    ) -> None:
        """Carry out some tables' part of the trail, from where it begins for them up to the checkpoint, in one epoch
        that saves `states`.

        `replayed`: the context of the replay, in which no other table has anything to do. `joined`: the context that
        holds afterwards. `upto`: the transaction up to which it is done, in front of the checkpoint; None: up to that.
        Raises RowRefused for what the target does not take, StateError for rows of another definition.
        """

    def put(self, state: TableState, changes: Iterable[RowChange], window: Followed | None = None) -> None:
        """Write rows that were read from the source, in one epoch that saves their table's new state.

        `window`: how the table is followed afterwards, where the log may also have what was read (K3). Raises
        RowRefused for what the target does not take.
        """


@runtime_checkable
class ReleasesAside(Protocol):
    """The ability to release rows that were set aside; not every way of carrying out has it (K26)."""

    def release(
        self,
        state: TableState,
        changes: Sequence[AsideChange],
        followed: Followed,
        numbers: Sequence[int],
        discards: bool,
    ) -> None:
        """Carry out `changes` of a set-aside row in their order, in one epoch. The changes that `numbers` names are
        then no longer set aside; discarded ones stay on record.

        Raises RowRefused, and Fenced where the table is not as `state` says.
        """
