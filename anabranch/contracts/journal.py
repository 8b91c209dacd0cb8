"""Contracts of what is noted at a target for people: conflicts, transactions to leave out, the trace, rows set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.model.ids import TableId
from anabranch.model.state import Skipped

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import NotedConflict


class Journal(Protocol):
    """Tells what happened to a job: rows that differed, transactions that are left out, the trace.

    Conflicts and changes of definitions are written inside an epoch (EpochState.note, EpochState.note_ddl)."""

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        """Return what was settled, in its order: of one table, with numbers behind `after`, the first `limit` (0: all)."""

    def forget_conflicts(self, job: str, upto: int) -> int:
        """Remove those with numbers up to `upto`; return how many they were."""

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        """Return what became of changes of definitions, in the order of their numbers, of one source table or of all; none
        where the state is of a release without them."""

    def skip(self, job: str, one: Skipped) -> None:
        """Leave a transaction out. One that is known is left as it is."""

    def skipped(self, job: str) -> list[Skipped]:
        """Return all skipped transactions, oldest first, including those that apply has passed already."""

    def unskip(self, job: str, sequence: int) -> bool:
        """Carry the transaction out after all. False: it was not among them."""

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        """Add entries of the job's trace (`state/trace.py`): those that are there stay, those with lesser ids than `oldest` go.
        False: the job has no state there yet. Raises TargetBusy at once where somebody locks the table."""

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        """Return entries in their order, with ids from `first` on."""


class AsideStore(Protocol):
    """Tells which changes are set aside, and takes what is wanted of them. They are set aside and settled inside an epoch
    (EpochState)."""

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        """Return changes that wait, in the order of their numbers, of one source table or all; or the ones that were
        discarded."""

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        """Return how many changes of each source table wait."""

    def forget_aside(self, job: str, table: TableId) -> None:
        """Forget all that is set aside of a table: it has to be loaded again."""

    def asked(self, job: str) -> bool:
        """Say whether anything is wanted of them. Cheap to repeat."""

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        """Note what is wanted for changes that wait (RELEASE, DISCARD, "" = nothing any more), and another reason if one is
        given. Returns how many of them still waited: the others are left as they are."""
