"""Contracts of the job's state at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import TableState

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import NotedConflict


class AsideStore(Protocol):
    """The part of a TargetStore that tells what is set aside, and hands over what is to come of it."""

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        """Lists changes that wait, in the order of their numbers, of one source table or all; or the ones that were
        discarded."""

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        """How many changes of each source table wait."""

    def forget_aside(self, job: str, table: TableId) -> None:
        """Nothing of the table is set aside any more: it has to be loaded again."""

    def asked(self, job: str) -> bool:
        """Is anything wanted of them? Cheap to repeat."""

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        """Note what is wanted for changes that wait (RELEASE, DISCARD, "" = nothing any more), and another reason if one is
        given. Returns how many of them still waited: the others are left as they are."""


class TargetStore(AsideStore, Protocol):
    """State at the target, schema `anabranch`: created on first use, versioned, every key starts with the job (K31).

    One connection, each call commits by itself."""

    def exists(self) -> bool:
        """Is there any state of any job? Reads only."""

    def prepare(self) -> None:
        """Create or check schema and version; StateError when made by a newer release."""

    def job(self, job: str) -> dict[str, str] | None: ...

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        """The job as last run, without secrets: uuid, source identity, definition JSON."""

    def checkpoint(self, job: str) -> Checkpoint | None: ...

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        """First row of a job, at the position where apply will start; an existing row is left as it is."""

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        """All of one moment. Cheap to repeat: callers poll. With `whole=False` their definitions may be missing."""

    def table(self, job: str, table: TableId) -> TableState | None: ...

    def others(self, job: str) -> frozenset[TableId]:
        """The target tables of all other jobs."""

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        """Write it, if the table's state, generation and facts are still those of `before` (None: there is no row).
        Otherwise raises Fenced: somebody else has come first."""

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        """`save_table` of several, each with its `before`: all of them, or none and Fenced."""

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        """What was settled, in its order: of one source table, with numbers behind `after`, the first `limit` (0: all)."""

    def forget_table(self, job: str, before: TableState) -> None:
        """Remove its state and ledger, if they are still those of `before`: else Fenced. Its rows stay."""

    def skip(self, job: str, one: Skipped) -> None:
        """Leave a transaction out. One that is known is left as it is."""

    def skipped(self, job: str) -> list[Skipped]:
        """In their order, also those that apply has passed."""

    def unskip(self, job: str, sequence: int) -> bool: ...

    def forget_conflicts(self, job: str, upto: int) -> int:
        """Remove those with numbers up to `upto`; how many they were."""

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        """Entries of the job's trace (`state/trace.py`): those that are there stay, those with lesser ids than `oldest` go.
        False: the job has no state there yet. Raises TargetBusy at once where somebody locks the table."""

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        """Entries in their order, with ids from `first` on."""

    def drop(self, job: str) -> None: ...

    def close(self) -> None: ...
