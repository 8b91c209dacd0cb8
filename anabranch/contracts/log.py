"""Contracts of a source's log: reading it, comparing its places, and telling of transactions that are still open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Partition, TableSchema

if TYPE_CHECKING:
    from anabranch.rows.chunk import Barrier, Chunk
    from anabranch.rows.log_items import LogItem

Select = Callable[[TableId], TableSchema | None]


class LogReader(Protocol):
    """Reads one source's log. Used by `capture` only: one process, one thread, one connection.

    Delivery: everything committed after the start mark, once per start, in log order; nothing unknown is skipped."""

    decoder: str
    """Who turns the log into changes, for people: one of several ways to the same values."""

    def identity(self) -> str:
        """Return which server this is (text that is equal for the same server): server_uuid, or server_id and start facts."""

    def end(self) -> LogMark:
        """Return the log's present end, asked over a connection of its own. Never waits. Raises SourceUnavailable."""

    def start(self, after: LogMark, select: Select) -> None:
        """Open the log just after `after`. `select` gives the definition in force for a table, or None to leave its
        rows out; it is asked once per table until `reselect()`. Raises LogLost when the log does not reach back, was
        restored to before `after`, or belongs to a server that does not contain it (K18)."""

    def read(self, timeout: float) -> LogItem | None:
        """Return what comes next; None after `timeout` seconds without anything.

        Returns as soon as a whole transaction waits and the socket has no more, when a chunk is full (about 20,000
        images or 4 MB), or when the flush interval has passed.

        - A transaction larger than a chunk comes as fragments, with nothing else between them, or, with an end of its
          own, as LogChanges, with others between.
        - A table map that contradicts the definition in force is a PARK barrier in the chunk, and the table's rows are
          left out from there; with LogOptions.follows, and where a log names columns, it comes as LogRedefined.
        - A transaction whose first change is to a marker table (model/markers.py) has the job that its row names as its origin,
          and its rows, as those of every origin of LogOptions.leave_out, are left out where that is named (K21).
        - A transaction that is prepared comes as LogPrepared where it was prepared, its end as LogDecided, each once,
          with or without rows for us; one that is committed in one phase is an ordinary one.

        Raises SourceUnavailable (connection lost: `start` again from the last mark), UnknownLogEvent, ValueRefused,
        LogLost.
        """

    def reselect(self) -> None:
        """Ask `select` again: definitions or selection changed."""

    def confirm(self, durable: LogMark) -> None:
        """Note what the trail holds durably. A server that keeps its log for us may be told of it, and of nothing
        further (K13).

        Called often, also before `start`. Raises SourceUnavailable.
        """

    def close(self) -> None: ...


class ValueGuard(Protocol):
    """Looks at rows on their way into the trail for values that name something outside of their row which no log has. Used by
    capture, for each chunk with rows, in the order of the log."""

    def barriers(self, chunk: Chunk, select: Select) -> list[Barrier]:
        """Return a PARK barrier before the first such row of each table. Raises SourceUnavailable: the chunk is read again."""

    def close(self) -> None: ...


class LogOrder(Protocol):
    """Pure functions on marks of one source family."""

    def mark(self, resume: str) -> LogMark:
        """Return the mark that a `LogMark.resume` text belongs to."""

    def place(self, text: str, now: LogMark) -> LogMark:
        """Return the mark of a place of the log as people and tools of backups write it: a `native`, or what a set of
        transactions looks like there. `now`: a mark of that log at or behind the place. Raises ValueError, which says why."""

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        """Return whether the transaction that committed at `native` (its end position) is contained in the state at
        `mark`.

        Along one server's log no True follows a False, except where `mark` is a set of GTIDs.
        """

    def server(self, mark: LogMark) -> str:
        """Return which server the mark was read at: equal for marks of one server, whoever has read them."""

    def is_set(self, mark: LogMark) -> bool:
        """Return whether the mark is a set of transactions only. Then `includes` needs `gtid`, and a True may follow a
        False.
        """

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        """Return, as text, what the log had at `begun` that the set of transactions `mark` does not have; "" where it has all.
        Raises ValueError where `begun` does not say which transactions those are. Called where `is_set` only."""

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int | None:
        """Log bytes from the position `native` to a later mark of the same server. `sizes`: SourceCatalog.log_sizes. None
        where they are needed and do not say it."""


class UncommittedOrder(Protocol):
    """The further methods of the LogOrder of such a log."""

    def since(self, mark: LogMark, low: LogMark) -> LogMark:
        """Return the state of the log at `mark`, from which reading begins at `low`, a place at or before it.

        `includes` is asked of `mark`'s part of it. `since(mark, mark)` is `mark`.
        """


@runtime_checkable
class RedefinedReader(Protocol):
    """The further members of a LogReader that gives LogRedefined."""

    @property
    def tells_columns(self) -> bool:
        """Return whether it does as it is set up: not every decoder has the names and types of columns."""

    def expect_former(self, former: Mapping[TableId, Sequence[TableSchema]], at: str) -> None:
        """Note, before a `start`, tables that the next transaction alters, which is committed `at` (LogRedefined.native; "":
        none is), with the definitions that its rows may come by until the first by the one in force. A column is known by
        its number: of one that goes they give nothing, of one that comes they have the constant default, or NULL."""


@runtime_checkable
class PartedReader(Protocol):
    """The further method of a LogReader whose log tells which partition rows of a divided table are of."""

    def parts(self) -> list[tuple[TableId, Partition]]:
        """Return partitions of tables that are followed, with rows before what `read` gives next, once each in a connection: of
        none that came with a transaction which was rolled back. They may be gone by now."""


@runtime_checkable
class UncommittedReader(Protocol):
    """The further methods of a LogReader whose start does not send open transactions again by itself.

    Delivery: `start(since(mark, low), …)` gives what lies behind `low` once, in the log's order, also what ended or was
    said at or before `mark`: the caller tells by `LogOrder.includes`.
    """

    order: UncommittedOrder

    def keep(self, kept: Mapping[str, LogMark]) -> None:
        """Leave out, from the next `start` on, rows under these ids up to these marks: they are kept already.

        An id may have been used before, in what is read again: those rows need not come either.
        """
