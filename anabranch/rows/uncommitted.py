"""Items of a log that has uncommitted work in it: changes as they are made, transactions interleaved (K6).

MySQL and MariaDB log a transaction when it ends, or is prepared (`contracts.LogPrepared`), so their readers give none
of these. PostgreSQL's give them for large transactions, beside whole ones. Capture decides what happens until the end
is known (`capture/uncommitted.py`): memory, then disk.

There are two kinds of logs. One is read again from where reading began, so that the reader must be told what is kept
(`UncommittedReader`). The other sends everything that is open at a start again from its beginning, so that nothing has
to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk


@dataclass(frozen=True, slots=True)
class LogChanges:
    """Rows of the open transaction `xid`, from the place `low` in the log, just before the first of them, to `mark`, just
    behind the last. Parts of others may lie in between, and come before or after it. `chunk` is a FRAGMENT, with `ordinal`s
    that rise within it. Nothing of it counts before its LogEnded; its barriers neither: what a transaction does to a table,
    also that its rows cannot be read from there on (PARK), is over where it is rolled back. `left_out`: tables whose rows in
    it were left out, which a table that joins waits for; none where `start` gives what is open again."""

    xid: str
    chunk: Chunk
    low: LogMark
    mark: LogMark
    left_out: tuple[TableId, ...] = ()


@dataclass(frozen=True, slots=True)
class LogTakenBack:
    """The open transaction `xid` went back to a savepoint: what was given of it from ordinal `first` on, rows and barriers,
    never happened. Its `ordinal`s rise from its beginning on, over all parts; one that was taken back is not used again. Only
    from logs that give again what is open at a start: elsewhere ordinals would not be the same after one."""

    xid: str
    first: int
    mark: LogMark


@dataclass(frozen=True, slots=True)
class LogEnded:
    """The transaction `xid` was committed, here and under this id, or rolled back; `mark` is just behind it. It comes for
    every transaction of which there were LogChanges, also for those without rows for us where the log says it. Not committed
    means too that what was given of it so far does not count, and comes again from its beginning. `origin`: where it was made
    first, None where that is the source itself."""

    xid: str
    is_committed: bool
    mark: LogMark
    gtid: str | None = None
    origin: str | None = None
