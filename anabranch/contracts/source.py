"""The contract of a database in the role of source: it hands out the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from anabranch.contracts.checks import Checks
from anabranch.contracts.log import LogOrder, LogReader, ValueGuard
from anabranch.contracts.snapshot import SnapshotReader
from anabranch.contracts.source_catalog import Dialect, SourceCatalog
from anabranch.contracts.values import LogOptions
from anabranch.model.column_changes import Follows
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Partition, TableSchema
from anabranch.model.steps import SetUpStep


class SourceConnector(Protocol):
    """A database in the role of source. Cheap to make; nothing connects before a method is called.

    What capture needs at the source beforehand is an ability: SourceSetUp."""

    @property
    def order(self) -> LogOrder: ...

    @property
    def dialect(self) -> Dialect: ...

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> ValueGuard | None:
        """Return the guard of values; None where rows say all that they mean, or the job's rules (LogOptions.rules) let
        them arrive as they are.

        `dropped`: columns of a table that the job leaves out.
        """

    def log(self, options: LogOptions) -> LogReader: ...

    def catalog(self) -> SourceCatalog: ...

    def snapshot(self, expected: str = "") -> SnapshotReader:
        """Return a reader of rows. `expected`: the LogReader.identity that capture follows; every connection to another
        server is refused (K29).
        """

    def checks(self) -> Checks: ...

    def witness(self) -> AbstractContextManager[str]:
        """Hold something by whose text the checks of a target can tell whether they ask the very database that this
        source is.

        URLs do not decide that. "" where no target can be the source.
        """


@runtime_checkable
class SourceRemains(Protocol):
    """Finds and removes what a job leaves at a source; an ability of those where it leaves anything."""

    def remains(self, name: str, remove: bool) -> list[str]:
        """Return what the job of this LogOptions.name may have left at the source (a watermark table, a slot), one line each;
        removed if asked."""


@dataclass(frozen=True, slots=True)
class RowsWent:
    """A table goes on without the rows that went with partitions. `schema`: its definition in force; `gone`: those of its
    partitions that went."""

    schema: TableSchema
    gone: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Divided:
    """A table that goes on has other partitions by now, and no rows came or went with them. `schema`: its definition in force,
    with these."""

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A table goes on with other foreign keys that only refuse. `schema`: its definition in force, with these. `has_come`: it
    has got some, which hold behind the place of now; otherwise it has lost some, which are asked of no row any more."""

    schema: TableSchema
    has_come: bool


@dataclass(frozen=True, slots=True)
class Undecided:
    """A table of which this look does not tell whether it fits, and why: it goes on meanwhile, and a later one tells.
    `has_failed`: the look could not be taken, so that the later one has to begin where this one did."""

    reason: str
    has_failed: bool = False


Drift = str | RowsWent | Divided | Rekeyed | Undecided
"""A finding of SourceSetUp.drift about a table."""


@runtime_checkable
class SourceSetUp(SourceRemains, Protocol):
    """Prepares a source for capture and says whether it still is; an ability of those that have to be prepared."""

    def steps(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        """Return what has to run at the source before capture may follow these tables, in its order: nothing where it has.
        Only a log that `begins` gets what its place depends on. Without tables, and of a log that has begun: what a start may
        add by itself, since it hides nothing that has happened."""

    def run(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Run steps of `steps`, each by itself. Raises SourceError at the first that is refused, SourceUnavailable for one
        that others are in the way of for so many seconds (infinity: for ever), or until `stop` says so."""

    def drift(
        self, options: LogOptions, tables: Mapping[TableId, TableSchema], follows: Follows
    ) -> dict[TableId, Drift]:
        """Return the tables, of these, that the log does not tell of, or not as they were, by what the source says now, and
        why: for a log that has no statements that say so. What a table `follows` is left to rows that will tell, or, where rows
        went with a partition and that is followed, told as such. Partitions that it has got are told as well: from then on
        they are known, and missed once they go."""


@runtime_checkable
class SourceReplacedColumns(Protocol):
    """Knows columns by more than their names; an ability of those whose log tells changes by the names in rows alone."""

    def replaced(self, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        """Return the tables, of these, that have lost a column whose name another one has by now, and why they cannot go on
        where the log has been read that far and has told nothing. Raises SourceUnavailable."""


@runtime_checkable
class SourceLengths(Protocol):
    """Measures values for targets whose keys have room for some length only; an ability of those whose texts have none."""

    def longest(self, table: TableSchema, columns: Sequence[str]) -> Mapping[str, int] | None:
        """Return the most characters, of binary values bytes, that a value of each column has now; 0 where there is none.
        None where that would take long, or the user may not read the table."""


@runtime_checkable
class SpelledTypes(Protocol):
    """Reads types as statements spell them, before a column of them is there; an ability of most."""

    def spelled(self, native: str) -> LogicalType | None:
        """Return the logical type that a column made as `native` will have; None where that is not known from the word."""


def longest_of(source: SourceConnector, table: TableSchema, columns: Sequence[str]) -> Mapping[str, int] | None:
    """Return what SourceLengths.longest returns; None where a source does not measure."""
    return source.longest(table, columns) if isinstance(source, SourceLengths) else None


def steps_of(
    source: SourceConnector, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool
) -> list[SetUpStep]:
    """Return what SourceSetUp.steps returns; nothing where a source needs no set-up."""
    return source.steps(options, tables, begins) if isinstance(source, SourceSetUp) else []


def remains_of(source: SourceConnector, name: str, remove: bool) -> list[str]:
    """Return what SourceRemains.remains returns; nothing where a job leaves nothing at its source."""
    return source.remains(name, remove) if isinstance(source, SourceRemains) else []


def drift_of(
    source: SourceConnector, options: LogOptions, follows: Follows, tables: Mapping[TableId, TableSchema]
) -> dict[TableId, Drift]:
    """Return what SourceSetUp.drift returns; nothing where the source's own log tells of it."""
    return source.drift(options, tables, follows) if isinstance(source, SourceSetUp) else {}


def replaced_of(source: SourceConnector, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
    """Return what SourceReplacedColumns.replaced returns; nothing where a log tells of it."""
    return source.replaced(tables) if tables and isinstance(source, SourceReplacedColumns) else {}
