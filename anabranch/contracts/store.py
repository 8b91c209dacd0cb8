"""Contracts of the state of jobs at a target: jobs and checkpoints, the states of tables. What was noted: `journal`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from anabranch.contracts.fence import CutoverStore
from anabranch.contracts.journal import AsideStore, Journal
from anabranch.contracts.verified import VerifiedStore
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState


class JobStore(Protocol):
    """Keeps what a job is, and its checkpoint."""

    def job(self, job: str) -> dict[str, str] | None:
        """Return what `save_job` was given last; None where the target has no such job."""

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        """Keep the job as last run, without secrets: uuid, source identity, definition as JSON. Raises StateError where the
        row is of another target of the same job."""

    def checkpoint(self, job: str) -> Checkpoint | None: ...

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        """Add the first row of a job, at the position where apply will start; an existing row is left as it is."""

    def taken_off(self, job: str) -> Sequence[str]:
        """Return the statements that put back the keys which loads of the job took off and which are not back, in order."""

    def drop(self, job: str) -> None:
        """Remove all that the job has at the target beside replicated tables; with the last job what `prepare` made."""


@runtime_checkable
class NotesApplied(Protocol):
    """Keeps notes of transactions that are applied beyond the checkpoint (`[apply] commit_order = "relaxed"`); an ability that
    not all have. Sessions make them (ApplierSession.commit_ahead), epochs remove them (ForgetsApplied)."""

    def applied(self, job: str) -> Mapping[int, str]:
        """Return the sequences that are noted, with their native positions. Notes up to the checkpoint say nothing."""

    def begin_notes(self) -> None:
        """Let releases that do not know these notes refuse the state at the target from here on: they would apply again what
        is noted. Cheap to repeat. Raises TargetError where the lock of a note at the checkpoint keeps nobody out: in a cluster
        whose servers ask for rows that were written, and for no locks."""


class TableStates(Protocol):
    """Keeps the states of a job's tables. Every change is a compare-and-set: the caller says what it has seen before."""

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        """Return the states of all tables at one moment. Cheap to repeat: callers poll. With `whole=False` their definitions
        may be missing."""

    def table(self, job: str, table: TableId) -> TableState | None: ...

    def others(self, job: str) -> frozenset[TableId]:
        """Return the target tables of all other jobs."""

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        """Write a state, if the table's state, generation and facts are still those of `before` (None: there is no row).
        Otherwise raises Fenced: somebody else has come first. One without schema keeps the one that is there."""

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        """Write several states, each with its `before`, as `save_table`: all of them, or none and Fenced."""

    def forget_table(self, job: str, before: TableState) -> None:
        """Remove its state, its ledger and what is set aside of it, if they are still those of `before`: else Fenced. Its
        rows stay."""


class TargetStore(Protocol):
    """Hands out the parts of the state at a target, all of them over one connection, which is opened on first use.

    The state is versioned, and every key starts with the job (K31).

    Delivery: what a call of any part wrote is committed when it returns."""

    @property
    def jobs(self) -> JobStore: ...

    @property
    def states(self) -> TableStates: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def asides(self) -> AsideStore: ...

    @property
    def cutovers(self) -> CutoverStore: ...

    @property
    def verifications(self) -> VerifiedStore: ...

    def exists(self) -> bool:
        """Say whether there is any state of any job. Reads only."""

    def prepare(self) -> None:
        """Create the place of the state, or bring it to this release; StateError when a newer release made it."""

    def close(self) -> None: ...
