"""Contracts of applying changes to a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import Age, FoundRow, NotedConflict
    from anabranch.rows.net import Cascade, CascadeRule, RowChange, StagedNet, TableNet, TargetTable
    from anabranch.rows.small import SmallTransactions

Needed = Callable[[TableId], tuple[TableSchema, TableSchema] | None]
"""Tells of a source table the definition by which it is followed, and the one that it has now; None where its columns need no
types, or the source has no such table."""


class Conflict(Exception):
    """A Writer found the target other than expected: wrong count, unique or foreign-key violation, value refused. The
    engine rolls back and goes the slow way; in the slow way it becomes RowRefused with the row's key."""

    def __init__(self, table: TableId, what: str, key: Mapping[str, str | None] | None = None) -> None:
        super().__init__(f"{table}: {what}")
        self.table, self.what, self.key = table, what, dict(key or {})


class AsideWriter(Protocol):
    """The part of a Writer that sets changes aside, inside an epoch."""

    def alone(self, at_once: bool = False) -> AbstractContextManager[None]:
        """What is done inside counts only if the block ends well; else the epoch stands where it was before, and goes on.
        `at_once`: constraints that are asked at commit otherwise are asked at its end, too. Raises Conflict."""

    def set_aside(self, job: str, change: AsideChange) -> int:
        """Into anabranch.set_aside, in the transaction. Returns its number."""

    def settle_aside(self, job: str, before: TableState, numbers: Sequence[int], discarded: bool) -> None:
        """Changes of a table wait no longer: mark them as discarded, or remove them. Raises Fenced where the table's state,
        generation and facts are not those of `before`, or one of them did not wait; nobody else changes its state until the
        transaction ends."""


class Writer(AsideWriter, Protocol):
    """Carries out epochs over the one committing connection of a job's apply process.

    Where foreign keys act on what it writes (`bypasses` is False) the caller gives the changes in an order that they accept
    (K7). Keys that can wait are asked when the epoch commits. What a key would change or remove by itself for a change
    that the source's keys did not follow (`RowChange.keys_off`, a truncate) is a Conflict, not done.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def claim(self, job: str, owner: str) -> Checkpoint:
        """End the previous owner's sessions, put `owner` into the checkpoint row, return it. StateError without one."""

    def bypasses(self) -> bool:
        """Are foreign keys and triggers off for what this writer does? Decided when it first claims, by what its user may
        do, and kept: where the right goes meanwhile, the next connection raises TargetError."""

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> str:
        """Open the transaction; first statement: compare-and-set from `now` to `then`. Returns "open", or after rolling
        back "applied" (the row is already at `then`) or "replan" (elsewhere). Raises Fenced for another owner.

        `origin`: the database's own log says that the transaction comes from there, for a reader of that log that leaves it
        out (LogOptions.leave_out); so it does of what follows in this session, PipelinedWriter's among it, until the next
        `begin`. "": it was made there. Raises TargetError where that cannot be said."""

    def merge(self, net: TableNet) -> list[dict[str, str | None]]:
        """Carry out a net change inside the transaction. Returns keys to re-read (only if not net.checked). Raises
        Conflict."""

    def merge_staged(self, staged: StagedNet) -> list[dict[str, str | None]]:
        """`merge` of a net whose rows an executor staged: first prove counts and digest (K10), else Conflict."""

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[dict[str, str | None]]:
        """Do what the source's foreign keys did, and follow further levels by `rules`. Returns the keys of the child's
        rows that it changed or removed, if `cascade.tells_keys`."""

    def change(self, row: RowChange) -> bool:
        """One row change alone: did it meet a row? Raises Conflict, with the key, when it is checked and does not hit
        exactly one row, or is refused."""

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        """The row that has this key, which nobody else changes until the transaction ends; `age` says what it is compared
        with."""

    def note(self, job: str, conflict: NotedConflict) -> None:
        """Into anabranch.conflict, in the transaction."""

    def truncate(self, tables: Sequence[TargetTable], how: str) -> None:
        """Empties the tables that one statement of the source emptied, at once. `how`: "truncate" or "delete". Raises
        Conflict."""

    def save_table(self, job: str, state: TableState) -> None:
        """As TargetStore.save_table, with the epoch's commit; a state without schema keeps the one that is there."""

    def forget_table(self, job: str, table: TableId) -> None:
        """Remove its state, with the epoch's commit, unless a load of it has begun meanwhile."""

    def commit(self) -> None:
        """Raises TargetUnavailable when the outcome is unknown: `begin` again tells by the row."""

    def sweep(self) -> None:
        """Remove what executors staged for this job and no epoch took. Not inside an epoch."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class PipelinedWriter(Protocol):
    """Lets a Writer carry out many source transactions without waiting for each of them; an ability that not all have."""

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        """From `now` on, each in a target transaction of its own whose first statement moves the checkpoint, one epoch each,
        up to the first one that is refused for any reason. Returns where the checkpoint is then; raises Fenced for another
        owner. What was committed is certain to survive only once a later epoch has been committed by `commit`."""


class Stager(Protocol):
    """The part of a Writer that executors may do: put a net change into staging tables of its own attempt (K10)."""

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        """COPY each net into staging tables named by a fresh uuid, commit, and say what must be found there."""

    def close(self) -> None: ...


@runtime_checkable
class LabelWriter(Protocol):
    """Lets a Writer add labels to the target's types; an ability that not all have."""

    def follow_labels(self, needed: Needed) -> None:
        """Add labels to the target's types from here on, where a change has a value that the target does not know.

        The change then raises TargetBusy, to be tried again. Where the source renamed labels it raises Redefined; in
        any other case the Conflict stays what it was.
        """
