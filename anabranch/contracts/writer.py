"""Contracts of applying changes to a target: the Writer that every row target has, and abilities that it may have besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.errors import TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.rows.altered import AlteredTable
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import Age, FoundRow, NotedConflict
    from anabranch.rows.dropped import DroppedTable
    from anabranch.rows.net import Cascade, CascadeRule, ChangeShape, RowChange, StagedNet, TableNet, TargetTable
    from anabranch.rows.small import SmallTransactions, Values

Needed = Callable[[TableId], tuple[TableSchema, TableSchema] | None]
"""Tells of a source table the definition by which it is followed, and the one that it has now; None where its columns need no
types, or the source has no such table."""


class Conflict(Exception):
    """A Writer found the target other than expected: wrong count, unique or foreign-key violation, value refused. The
    engine rolls back and goes the slow way; in the slow way it becomes RowRefused with the row's key. `is_taken`: another row
    has values that have to be unique."""

    def __init__(
        self, table: TableId, what: str, key: Mapping[str, str | None] | None = None, is_taken: bool = False
    ) -> None:
        super().__init__(f"{table}: {what}")
        self.table, self.what, self.key, self.is_taken = table, what, dict(key or {}), is_taken


class TookTooLong(TargetUnavailable):
    """An Appender's epoch was given up by the target since it took longer than one transaction may; nothing of it is there."""


class Begun(StrEnum):
    """The result of `Writer.begin`: the epoch is open, it was applied already, or it has to be planned anew."""

    OPEN = "open"
    APPLIED = "applied"
    REPLAN = "replan"


class Emptying(StrEnum):
    """The way in which a table is emptied that the source has truncated: `[apply] truncate` of the job file."""

    TRUNCATE = "truncate"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Enforced:
    """The target's own rules that act on the rows that a Writer writes: its foreign keys, its triggers."""

    keys: bool
    triggers: bool

    def __bool__(self) -> bool:
        return self.keys or self.triggers


class EpochWriter(Protocol):
    """Carries out epochs over the one committing connection of a job's apply process, whatever an epoch does.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def claim(self, job: str, owner: str) -> Checkpoint:
        """End the previous owner's sessions, put `owner` into the checkpoint row, return it. StateError without one."""

    def enforced(self) -> Enforced:
        """Say what acts on what this writer writes. Decided when it first claims, by what its user may do, and kept: where a
        right goes meanwhile, the next connection raises TargetError."""

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        """Open the transaction; first statement: compare-and-set of the checkpoint from `now` to `then`.

        Returns OPEN, or after rolling back APPLIED (the row is already at `then`) or REPLAN (elsewhere). Raises Fenced for
        another owner.

        `origin`: the database's own log says that the transaction comes from there, for a reader of that log that leaves it
        out (LogOptions.leave_out); so it does of what follows in this session, PipelinedWriter's among it, until the next
        `begin`. "": it was made there. Raises TargetError where that cannot be said, or takes a right that a job's user
        has not (decision 203)."""

    def commit(self) -> None:
        """Commit the epoch. Raises TargetUnavailable when the outcome is unknown: `begin` again tells by the row."""

    def rollback(self) -> None:
        """End the epoch without a trace; nothing happens where none is open."""

    def close(self) -> None: ...


class Writer(EpochWriter, Protocol):
    """Brings rows of a target to the state that the source's have.

    Where foreign keys act on what it writes (`Enforced.keys`) the caller gives the changes in an order that they accept
    (K7). Keys that can wait are asked when the epoch commits. What a key would change or remove by itself for a change
    that the source's keys did not follow (`RowChange.keys_off`, a truncate) is a Conflict, not done.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def merge(self, net: TableNet) -> list[dict[str, str | None]]:
        """Carry out a net change inside the transaction. Returns keys to re-read (only if not net.checked). Raises
        Conflict."""

    def truncate(self, tables: Sequence[TargetTable], how: Emptying) -> None:
        """Empty the tables that one statement of the source emptied, at once. Raises Conflict."""


@runtime_checkable
class EpochState(Protocol):
    """The part of a Writer that keeps the job's state, with the epoch's commit: states of tables, conflicts, rows set aside."""

    def save_table(self, job: str, state: TableState) -> None:
        """Write a table's state; one without schema keeps the one that is there."""

    def forget_table(self, job: str, table: TableId) -> None:
        """Remove a table's state, unless a load of it has begun meanwhile."""

    def note(self, job: str, conflict: NotedConflict) -> None:
        """Note a row that differed, and what was decided (Journal.conflicts)."""

    def note_ddl(self, job: str, change: DdlChange) -> None:
        """Note what became of a transaction of the source that alters a table (Journal.ddl_changes), in place of what is noted
        of the same transaction and table, whose number stays."""

    def set_aside(self, job: str, change: AsideChange) -> int:
        """Set a change aside (AsideStore.set_aside). Returns its number."""

    def settle_aside(self, job: str, before: TableState, numbers: Sequence[int], discarded: bool) -> None:
        """End the waiting of changes of a table: mark them as discarded, or remove them.

        Raises Fenced where the table's state, generation and facts are not those of `before`, or one of them did not wait;
        nobody else changes its state until the transaction ends."""


@runtime_checkable
class RowWriter(Protocol):
    """Lets a Writer carry out single rows, for what a net change cannot tell: which row it was, and what is there instead."""

    def alone(self, at_once: bool = False) -> AbstractContextManager[None]:
        """Keep what is done inside only if the block ends well; else the epoch stands where it was before, and goes on.
        `at_once`: constraints that are asked at commit otherwise are asked at its end, too. Raises Conflict."""

    def change(self, row: RowChange) -> bool:
        """Carry out one row change alone; return whether it found a row. Raises Conflict, with the key, when it is checked and
        does not hit exactly one row, or is refused."""

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        """Return the row that has this key, which nobody else changes until the transaction ends; `age` says what it is
        compared with."""


@runtime_checkable
class Cascader(Protocol):
    """Lets a Writer do what a source's foreign keys did and its log does not show (K1)."""

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[dict[str, str | None]]:
        """Do what the source's foreign keys did, and follow further levels by `rules`. Returns the keys of the child's
        rows that it changed or removed, if `cascade.tells_keys`."""


@runtime_checkable
class StagedWriter(Protocol):
    """Lets a Writer merge what a Stager has put to the target (K10)."""

    def merge_staged(self, staged: StagedNet) -> list[dict[str, str | None]]:
        """Merge a net whose rows an executor staged: first prove counts and digest, else Conflict."""

    def sweep(self) -> None:
        """Remove what executors staged for this job and no epoch took. Not inside an epoch."""


@runtime_checkable
class PipelinedWriter(Protocol):
    """Lets a Writer carry out many source transactions without waiting for each of them; an ability that not all have."""

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        """Carry out transactions from `now` on, each in a target transaction of its own, up to the first one that is
        refused.

        The first statement of each moves the checkpoint, one epoch each. Returns where the checkpoint is then; raises
        Fenced for another owner. What was committed is certain to survive only once a later epoch has been committed by
        `commit`.
        """


class ApplierSession(Protocol):
    """One of several sessions of an owner that carry out small source transactions at once. Not for two threads."""

    def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        """Open a transaction and carry out the changes of one source transaction, in their order, each of which has to hit one
        row. Returns False, with all of it undone, where one does not, or is refused, or has waited too long for a lock: a
        short time only, since whoever has the lock may be waiting for this one to commit (K22). Raises TargetUnavailable where
        the line is lost."""

    def commit(self, now: Checkpoint, then: Checkpoint) -> bool:
        """Move the checkpoint as the last statement, and commit. Returns False where it is not at `now`, or the target refuses
        the commit; `rollback` then ends the transaction. A commit whose answer is lost raises TargetUnavailable. It is certain
        to survive as PipelinedWriter says."""

    def commit_ahead(self, now: Checkpoint, at: Position) -> bool:
        """Note as the last statement that the transaction at this place is applied (NotesApplied), and commit. The note is made
        only while the checkpoint stands at `now`, and nobody moves or claims that until the commit has ended; it is made once.
        Returns False and raises as `commit`."""

    def rollback(self) -> None:
        """Undo what is open, if anything is."""


@runtime_checkable
class ParallelWriter(Protocol):
    """Lets a Writer have several sessions that carry out source transactions at once; an ability that not all have."""

    def appliers(self, number: int, tables: Sequence[TargetTable]) -> Sequence[ApplierSession]:
        """Return so many sessions of the claimed owner, with nothing open, for changes of these tables; outside of any epoch.
        Fewer where the target gives no more connections. None where it gives less than two, where one session has to do, or
        where the target would do something by itself on these changes that hangs on their order and that no lock of a row
        tells. Whoever claims the job ends them; `close` closes them, too."""


@runtime_checkable
class ForgetsApplied(Protocol):
    """Lets a Writer remove notes of transactions that were applied beyond the checkpoint (NotesApplied)."""

    def forget_applied(self, job: str, upto: int) -> int:
        """Remove the notes up to a sequence, in the open epoch. Returns how many there were."""


@runtime_checkable
class EmptiesApart(Protocol):
    """Lets a Writer empty tables by a statement that commits by itself (K17); an ability that not all have."""

    def empty_apart(self, now: Checkpoint, tables: Sequence[TargetTable]) -> None:
        """Empty the tables of a source transaction that does nothing else, outside of any epoch, while the checkpoint stands
        at `now`. To do it again changes nothing more.

        The transaction's epoch follows and empties them as ever (`Writer.truncate`); so this does nothing for tables that it
        cannot empty, or where the checkpoint is elsewhere. Raises Fenced for another owner, TargetBusy for tables in use."""


@runtime_checkable
class AltersTables(Protocol):
    """Lets a Writer change the definitions of tables that it writes; an ability that not all have."""

    @property
    def alters_apart(self) -> bool:
        """True where such a statement commits by itself (K17): it is then carried out between two epochs, before the epoch of
        its transaction, and may be carried out again."""

    def refuse_standing(self, altered: AlteredTable) -> None:
        """Raise Conflict if the target's table is not as it has to be before the steps. Outside of any epoch, before the first
        attempt; nothing happens where `alters_apart` is False, since `alter` refuses itself then."""

    def alter(self, now: Checkpoint, altered: AlteredTable) -> Sequence[str]:
        """Carry out the steps, inside the open epoch; where `alters_apart`, outside of any, while the checkpoint stands at
        `now`: then what is there tells how far an attempt before has come, and the rest is done. Indexes that go, or get
        another name, come before the steps: those that a load, or a build behind an epoch, has made. Returns what of them the
        target refuses, or does not have; indexes that come are not its affair.

        Raises Conflict or TargetError where a step cannot be carried out with the values that the source has in rows that
        are there, TargetBusy for a table in use, Fenced for another owner."""

    def keeps_up_with(self, altered: AlteredTable) -> bool:
        """Return whether epochs may go on behind these steps, once they are committed, without `close` before: the Writer then
        knows nothing of the table as it was. False wherever that is not certain."""


@runtime_checkable
class DropsTables(Protocol):
    """Lets a Writer remove tables that the source has dropped, or keep them under other names; an ability that not all have."""

    @property
    def drops_apart(self) -> bool:
        """True where such a statement commits by itself (K17), as AltersTables.alters_apart."""

    def kept_name(self, table: TableId, suffix: str) -> TableId:
        """Return a table's name with this at its end, cut to the length that the target takes."""

    def refuse_dropping(self, dropped: Sequence[DroppedTable]) -> None:
        """Raise Conflict if one of them may not go: it is no plain table, has columns that nobody of this job writes, a table
        that is not among them refers to it by a foreign key, or its next name is taken; of one that goes on, if there is none.
        Outside of any epoch, before the first attempt; nothing happens where `drops_apart` is False, since `drop_tables`
        refuses itself then."""

    def drop_tables(self, now: Checkpoint, dropped: Sequence[DroppedTable]) -> None:
        """Drop the tables, or give them their next names, inside the open epoch; where `drops_apart`, outside of any, while the
        checkpoint stands at `now`: then what is there tells how far an attempt before has come. What is not there is gone.

        Nothing else goes with them but what is theirs. Raises Conflict as `refuse_dropping`, and where the server refuses it
        for what depends on one; TargetError, TargetBusy for a table in use, Fenced for another owner."""

    def forget_dropped(self, job: str, table: TableId) -> None:
        """Remove the state of a table of the source, its ledger and what is set aside of it, in the open epoch."""


class Stager(Protocol):
    """Does the part of a Writer's work that executors may do: puts net changes to the target, each attempt apart (K10)."""

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        """Put each net into a place of its own that no other attempt uses, durably, and say what must be found there."""

    def close(self) -> None: ...


@runtime_checkable
class LabelWriter(Protocol):
    """Lets a Writer add labels to the target's types; an ability that not all have."""

    def follow_labels(self, needed: Needed) -> None:
        """Add labels to the target's types from here on, where a change has a value that the target does not know.

        The change then raises TargetBusy, to be tried again. Where the source renamed labels it raises Redefined; in
        any other case the Conflict stays what it was.
        """
