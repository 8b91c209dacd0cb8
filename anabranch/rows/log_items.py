"""Items that a LogReader gives beside chunks of rows: statements, marks, transactions that wait for their end.

What does not live here: how they are read (`contracts.LogReader`), logs of uncommitted work (`uncommitted.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack


@dataclass(frozen=True, slots=True)
class LogStatement:
    """A statement in the log (DDL), alone: rows before it were returned by earlier reads. `schema` is the session's
    default schema; `mark` is the place just after it, `gtid` its id where there is one, `origin` where it was run first, None
    where that is the source itself. `is_inside`: it stands in a transaction with rows, and `mark` is in front of that, so that
    it may be told again."""

    sql: str
    schema: str
    mark: LogMark
    gtid: str | None = None
    origin: str | None = None
    is_inside: bool = False


@dataclass(frozen=True, slots=True)
class LogIdle:
    """Nothing for us up to `mark`: transactions of other tables, heartbeats. Lets positions move on."""

    mark: LogMark


@dataclass(frozen=True, slots=True)
class LogAbandoned:
    """The transaction whose fragments came last has no commit: the source crashed in it and took it back when it started
    again, or its log says that it was rolled back. Nothing of it counts. The log goes on at `mark`. `why`: for people, where
    it comes again."""

    mark: LogMark
    why: str = "it has no commit in the log"


@dataclass(frozen=True, slots=True)
class SourceNote:
    """`text`: in the source's own form. `ends_nulls`: a column takes NULL no longer, and no row of the transaction is before
    that."""

    text: str
    ends_nulls: bool = False


@dataclass(frozen=True, slots=True)
class LogRedefined:
    """Rows of `table` come by other `columns` (name, and type as the source spells it, in their order) than the definition in
    force has; `reason` says how they differ. `mark` is just before the transaction with the first of these rows: nothing of it
    was given, and all of it comes next, by the definition that is in force then. `native`: where it was committed; `xid`: that
    transaction, as the source names it. `note`: what the source itself has written of the statement into its log, None where
    it writes nothing."""

    table: TableId
    columns: tuple[tuple[str, str], ...]
    reason: str
    mark: LogMark
    native: str
    xid: str = ""
    note: SourceNote | None = None


@dataclass(frozen=True, slots=True)
class LogPrepared:
    """Rows of a transaction that is prepared and undecided (two-phase commit, K6). `chunk` is a FRAGMENT of it, or the LAST
    part: then it is prepared under `xid`, and the log goes on at `mark`. Nothing else comes between the parts, nothing of
    it counts before its LogDecided. Its one transaction has no position yet (""). `left_out`: tables whose rows in it
    were left out, in whole or from a PARK barrier on; of FRAGMENTs, `mark` is just before it, the others are empty."""

    chunk: Chunk
    mark: LogMark
    xid: str = ""
    left_out: tuple[TableId, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDecided:
    """The prepared transaction `xid` was committed, here and under this id, or rolled back. `mark` is just after it; `origin`:
    where it was made first, None where that is the source itself."""

    xid: str
    is_committed: bool
    mark: LogMark
    gtid: str | None = None
    origin: str | None = None


class StatementKind(StrEnum):
    """The kinds of logged statements, by what they may do to replicated tables."""

    TRUNCATE = "truncate"  # empties exactly these tables
    DROP = "drop"  # they vanish: park
    RENAME = "rename"  # they vanish under their names: park
    PARTITION = "partition"  # rows change or vanish with a partition: park
    COLUMNS = "columns"  # columns, keys or values may change, even if the definition is the same afterwards: park
    CREATE = "create"  # there is a new table
    ALTER = "alter"  # none of that by itself: compare definitions
    DATA = "data"  # a change in the format of statements: stop
    HARMLESS = "harmless"  # views, users, comments, transaction control
    UNKNOWN = "unknown"  # compare definitions, park what it names


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """The meaning of a logged statement for replicated tables, without carrying it out.

    `schema` names, beside `tables`, every table of that schema (DROP DATABASE). `engine`: a TRUNCATE of tables of this
    storage engine only, for any other it is DATA; the engine that an ALTER gives its table, which is parked if it had
    another. `dropped_keys`: names of what an ALTER drops that may be foreign keys of its table. `renames`: former and next
    names, in the order of a RENAME TABLE, or of an ALTER TABLE that does nothing else. `makes_anew`: of a DROP that is CREATE
    OR REPLACE: a new table has the name. `indexes`: it makes, drops or renames indexes or unique keys, or may do so, whatever
    else it does. `beside`: kinds of what an ALTER changes that no row asks for, as BESIDE_COLUMNS and NEVER_FOLLOWED name them.
    `gone_indexes`: names of indexes and unique keys that it drops or renames, or may do so; `gone_checks`: of checks that it
    drops, or does not enforce any more. `rows_go`: of a PARTITION: rows only go with it, and no others come.
    """

    kind: StatementKind
    tables: tuple[TableId, ...] = ()
    schema: str = ""
    engine: str = ""
    dropped_keys: tuple[str, ...] = ()
    renames: tuple[tuple[TableId, TableId], ...] = ()
    makes_anew: bool = False
    indexes: bool = False
    beside: tuple[str, ...] = ()
    gone_indexes: tuple[str, ...] = ()
    gone_checks: tuple[str, ...] = ()
    rows_go: bool = False


LogItem = (
    Chunk
    | LogStatement
    | LogIdle
    | LogAbandoned
    | LogRedefined
    | LogPrepared
    | LogDecided
    | LogChanges
    | LogTakenBack
    | LogEnded
)
"""An item of a log, as `contracts.LogReader.read` returns it."""
