"""Contracts of targets that take changes and not states: a log of messages, change tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.target import TargetConnector
from anabranch.contracts.writer import Begun, Enforced
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.schema import TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.rows.appended import ChangeBatch, Committed
    from anabranch.rows.net import TargetTable


@runtime_checkable
class Appender(Protocol):
    """Appends every change of a source, in the log's order, over the one committing connection of a job's apply process.

    An epoch is `begin`, any number of `append`, `commit`. Nothing is compared with what is there and nothing is compacted: a
    row that changed three times is three changes, each with the native position and the commit time of its transaction. A
    transaction is in one epoch whole.

    `takes_emptied`: that the source has emptied a table by one statement is a change for readers, too (ChangeBatch.emptied);
    else it never comes here.

    Delivery: what an epoch appends and its checkpoint are there together or not at all, for readers of the target that read
    committed changes only; a fenced owner commits nothing. So each change is there exactly once."""

    takes_emptied: bool

    def claim(self, job: str, owner: str) -> Checkpoint:
        """End the previous owner's sessions, make `owner` the checkpoint's, return it. StateError without one. What a former
        owner appended and did not commit is gone, or never seen by a reader, when this returns."""

    def enforced(self) -> Enforced:
        """Say what acts on what is written, as Writer.enforced: nothing, where no rows are kept."""

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        """Begin an epoch: compare-and-set of the checkpoint from `now` to `then`, as Writer.begin. Raises Fenced for another
        owner. `origin`: as there."""

    def append(self, batch: ChangeBatch) -> None:
        """Add changes behind those that the epoch has. Batches come in the log's order; inside a batch the changes are ordered
        by transaction and ordinal over all its tables, whatever table they are given with.

        Raises RowRefused, with table and position, for a value that the target cannot take; TookTooLong, as `commit`, for an
        epoch that lasted too long; TargetUnavailable."""

    def end(self, table: TargetTable, at: int) -> None:
        """Note, with the epoch's commit, that nothing of the table comes behind the transaction in front of sequence `at`: a
        reader that asks for more is refused."""

    def commit(self) -> None:
        """Commit the epoch. Raises TargetUnavailable when the outcome is unknown: `begin` again tells by the checkpoint."""

    def rollback(self) -> None:
        """End the epoch without a trace for readers; nothing happens where none is open."""

    def close(self) -> None: ...


@runtime_checkable
class CleansUp(Protocol):
    """Lets changes go that have been at the target for as long as the job wants to keep them."""

    def clean_up(self, elapsed: int) -> bool:
        """Remove a piece of them, between epochs, and return whether there may be more. Readers may not ask for them any more
        before the first of them goes. Does nothing where changes are kept for ever. `elapsed`: seconds for which apply has run
        since the last call that had some. May be repeated after any error. Raises TargetUnavailable."""


class FirstRows(Protocol):
    """Writes the rows that a table had before its first change, which readers of changes get in front of it."""

    def load(
        self,
        job: str,
        before: TableState,
        after: Callable[[int], TableState],
        table: TargetTable,
        place: Committed,
        rows: Iterator[pa.Table],
    ) -> int:
        """Write all rows of a table as of one place of the source's log, and the table's state behind them (`after`, of the
        number of rows), and return that number. `rows`: blocks of them, by the target's column names.

        Rows and state are there together or not at all. Raises Fenced where the table's state is not `before` any more,
        RowRefused for a row that the target cannot take, TargetError for a table that takes longer than one transaction may,
        TargetUnavailable: then it is not known whether they are there, and the state tells."""

    def close(self) -> None: ...


@runtime_checkable
class TakesFirstRows(Protocol):
    """Lets a target of changes have the rows that were there before, too; an ability that not all have."""

    @property
    def wants_first_rows(self) -> bool:
        """True where the job file wants them of tables that begin."""

    def first_rows(self) -> FirstRows: ...


@runtime_checkable
class NotesIdle(Protocol):
    """Tells readers up to which time they have all changes, also while there are none.

    Delivery: as whatever an epoch appends; a fenced owner notes nothing."""

    @property
    def idle_seconds(self) -> int:
        """Return the shortest time between two notes; 0: none are wanted."""

    def note_idle(self, position: Position, time: int) -> None:
        """Note, with the epoch's commit, that nothing which was committed up to `time` comes behind this position. `time`: by
        the source's clock, in microseconds since 1970 UTC; does nothing where a later one is noted. Raises
        TargetUnavailable."""


class AppendTarget(TargetConnector, Protocol):
    """A target that keeps changes: there is nothing to load, to merge or to verify row by row."""

    def appender(self, rules: ValueRules) -> Appender: ...


class ChangeTables(Protocol):
    """The change tables of a database: one for each table that is followed, functions that read them, and what time each
    transaction was committed at."""

    def begin(
        self, job: str, uuid: str, tables: Sequence[tuple[TableSchema, TargetTable]], at: int, commit_time: int
    ) -> None:
        """Create what is missing, in one transaction; nothing changes where all of it is there. `at`: the sequence behind
        which the tables have every change; `commit_time` of it, in microseconds since 1970 UTC, 0 where nobody knows.

        Raises StateError where change tables of another job (`uuid`) are there, TargetError for names that are too long."""

    def close(self) -> None: ...


@runtime_checkable
class FollowsInstances(Protocol):
    """Change tables of which a source's table may have several, that come and go while the job runs."""

    def follow(self, job: str, uuid: str, tables: Sequence[tuple[TableSchema, TargetTable]]) -> None:
        """Make the change tables that are not there, and let those of the same source tables end that are not among these:
        either holds from the place of the next epoch on, which its writer notes. Nothing changes where all is as it should be;
        may be repeated after any error. One that is there keeps its columns. `tables`: those that stream, one for each
        instance.

        Raises StateError for one that has ended, or where change tables of another job (`uuid`) are there, TargetError for
        names that the database does not take."""


@runtime_checkable
class KeepsChanges(Protocol):
    """Lets a database keep changes in tables. Its Writer is an Appender; of the tables that it writes nothing is loaded, merged
    or compared."""

    def change_tables(self, rules: ValueRules) -> ChangeTables: ...
