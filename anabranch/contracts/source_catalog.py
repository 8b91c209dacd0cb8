"""Contracts of a source's catalogue: definitions, what it tells of its log and its transactions, and the statements it logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.column_changes import Altered
from anabranch.model.ids import TableId
from anabranch.model.position import HeldLog, LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter

if TYPE_CHECKING:
    from anabranch.rows.log_items import LogRedefined, StatementFacts


class SourceCatalog(Protocol):
    """Reads definitions, and hands out what else the source's catalogue tells. One connection, short queries, nothing is
    locked."""

    @property
    def log(self) -> LogFacts: ...

    @property
    def transactions(self) -> OpenTransactions: ...

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        """Return base tables that `wanted` accepts, as they are now (version 1); system schemas never.

        Raises SourceError for one of which this user does not see everything; with `whole=False` it comes as it is
        seen, for `Checks` to say so.
        """

    def names(self) -> dict[TableId, str]:
        """Return all tables that `tables` would find now, by their names alone, each with why the log does not have its
        rows ("": it has).

        One cheap query, asked again and again.
        """

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        """Return the names, of these, that certainly have no table any more, with what each is now ("": dropped or
        renamed).

        A name that a view has by now counts, a table that this user may not see does not. Raises SourceUnavailable.
        """

    def writers(self) -> list[SourceWriter]:
        """Return replications whose target this database is, as far as this user may see them; [] where none can be."""

    def sees_writers(self) -> bool:
        """Return whether this user sees all replications whose target this database is: whoever has to know that none is there
        asks this, too. Raises SourceUnavailable."""

    def mark(self) -> LogMark:
        """Return the log's end now, for read-position / definitions / position (K19)."""

    def close(self) -> None: ...


@runtime_checkable
class ClockCatalog(Protocol):
    """Tells the time by which the source's log says when transactions were committed; an ability of a SourceCatalog."""

    def clock(self) -> int:
        """Return the time now, in microseconds since 1970 UTC. What is committed later is, but for a moment, behind it. Raises
        SourceUnavailable."""


@runtime_checkable
class NamingCatalog(Protocol):
    """Reads single tables without looking at all others; an ability of a SourceCatalog."""

    def named(self, tables: Collection[TableId]) -> dict[TableId, TableSchema]:
        """Return those of these base tables that are there, as `SourceCatalog.tables` returns and refuses them. A few tables:
        each costs queries of its own."""


@runtime_checkable
class RedefinedCatalog(Protocol):
    """Says what a table is whose rows come by other columns; an ability of a SourceCatalog whose log gives LogRedefined."""

    def behind(self, then: TableSchema, item: LogRedefined) -> Altered | str | None:
        """Return what a table is, with a definition of version `then.version`, that was `then` and whose rows come by other
        columns from some place of the log on. It may have been altered again since.

        Rows that were there at that place have the constant default of a new column, or NULL where it has none. A text says
        why this is not certain; None: the catalogue does not show that place yet. Raises SourceUnavailable, SourceError."""


class LogFacts(Protocol):
    """Says what a source's log holds and how much of it the source keeps; over the connection of its SourceCatalog."""

    def logs_whole_rows(self) -> bool:
        """Say whether images of changed rows have every column, as far as the server's own settings tell."""

    def logs_cascades(self) -> bool:
        """Say whether this server's log contains the rows that foreign-key actions change (K1)."""

    def log_sizes(self) -> Mapping[str, int]:
        """Return the log's files as the server has them now, with their bytes; none where a log has no files."""

    def held(self, name: str) -> HeldLog | None:
        """Return what the source keeps for the job of this LogOptions.name, with a warning where that is much. None where it
        keeps its log by its own rules."""


class OpenTransactions(Protocol):
    """Says which transactions of a source are still open; over the connection of its SourceCatalog."""

    def prepared(self) -> frozenset[str] | None:
        """Return transactions that are prepared and undecided now, named as LogPrepared names them; none where the log holds
        rows at their commit only. What ends is in the log before it is not listed here. None: this user may not ask."""

    def in_progress(self) -> frozenset[str]:
        """Return transactions that have begun and not ended, of which the log may lack rows of a table that was prepared for
        capture meanwhile; none where that cannot be."""

    def who_has(self, transactions: Collection[str]) -> list[str]:
        """Say, for people, whose these transactions of `in_progress` are that others have to wait for."""

    def unseen(self, before: LogMark) -> frozenset[str]:
        """Return transactions that are in the log before this mark, or may be, and that a snapshot opened now may not have
        (K2), named for people and the same at each call; none where `SnapshotReader.open` itself waits for such."""


class Dialect(Protocol):
    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        """Classify a logged statement. Never raises: what it does not understand is `unknown`."""

    def shown(self, sql: str) -> str:
        """Return the statement for logs, messages and the trail: names and structure, no values of rows, no secrets. Short."""


@runtime_checkable
class AlteringDialect(Protocol):
    """Says what a table is behind a statement that alters it; an ability of a Dialect whose log has such statements."""

    def altered(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        """Return what a table is just behind the statement that was `then` before it, with a definition of version
        `then.version`. `now`: the catalogue's, read behind the statement, perhaps behind later ones.

        None where that, or what rows that are there then have in new columns, is not certain, and for any change of a kind
        that is not one of ColumnChange. Never raises."""


@runtime_checkable
class BuiltDialect(Protocol):
    """Says what a table is behind a statement by which a job of ours builds something at its target, or takes it off; an
    ability of a Dialect whose log has such statements."""

    def built(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        """Return what a table is just behind the statement that was `then` before it. `now`: the catalogue's, read behind the
        statement, perhaps behind later ones. No row of before is another one by it, and rows behind it come as those before.

        None for any other statement, and where it is not certain. Never raises."""


@runtime_checkable
class ForeseeingCatalog(Protocol):
    """Says what a log that has no statements would tell of one that nobody has run; an ability of a SourceCatalog."""

    def named(self, sql: str) -> tuple[TableId, str] | None:
        """Return the table that an ALTER TABLE alters, its schema "" where that is not said, and the statement as people may
        see it; None for any other statement. Never raises."""

    def foreseen(self, sql: str, then: TableSchema) -> Altered | str | None:
        """Return what the log would tell: what the table `then` is behind the statement, or why the table would be parked;
        None where no column is altered. Runs nothing. Raises SourceUnavailable, and ConfigError for what is not read."""


@runtime_checkable
class CreatingDialect(Protocol):
    """Says what a statement makes that makes a table; an ability of a Dialect whose log has such statements."""

    def creates(self, sql: str, default_schema: str, now: TableSchema, known: Mapping[TableId, TableSchema]) -> bool:
        """Return whether the statement makes a table without rows, with just the columns of `now`, which the catalogue has.
        `known`: tables that it may be made like. Never raises."""


@runtime_checkable
class CopyingDialect(Protocol):
    """Says of a table that a tool changes online how it makes the copy that comes in for it; an ability of a Dialect whose log
    has such statements. None of them raises."""

    def copies(self, sql: str, default_schema: str, then: TableSchema) -> bool:
        """Return whether the statement makes an empty table that is defined as `then`, under another name."""

    def copy_altered(self, sql: str, default_schema: str, then: TableSchema, now: TableSchema) -> Altered | None:
        """Return what the table `then` is once a copy of it comes in that the statement has altered before it had rows;
        `now`: as the catalogue has it by now, under the table's name. None where that is not certain, or where some rows
        may not fit into the copy, or would be changed by it: the tools pass over what the server says of them."""


@runtime_checkable
class ForeseeingDialect(Protocol):
    """Says what a table would be behind a statement that nobody has run; an ability of an AlteringDialect."""

    def foreseen(self, sql: str, default_schema: str, then: TableSchema) -> TableSchema | None:
        """Return the table as the catalogue would show it behind the statement, as far as the statement tells: what it leaves
        to the table or the server is as in the table's other columns. None for what is not read. Never raises."""
