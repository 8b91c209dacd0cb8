"""The contract of a database in the role of source: it hands out the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from anabranch.contracts.checks import Checks
from anabranch.contracts.log import LogOrder, LogReader, ValueGuard
from anabranch.contracts.snapshot import SnapshotReader
from anabranch.contracts.source_catalog import Dialect, SourceCatalog
from anabranch.contracts.values import LogOptions
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import SetUpStep


class SourceConnector(Protocol):
    """A database in the role of source. Cheap to make; nothing connects before a method is called."""

    @property
    def order(self) -> LogOrder: ...

    @property
    def dialect(self) -> Dialect: ...

    def leftovers(self, name: str, remove: bool) -> list[str]:
        """What the job of this LogOptions.name may have left at the source (a watermark table, a slot), one line each; removed
        if asked."""

    def missing(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        """What has to run at the source before capture may follow these tables, in its order: nothing where it has, or where
        nothing needs to be prepared. Only a log that `begins` gets what its place depends on."""

    def astray(self, options: LogOptions, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        """Names the tables, of these, that the log does not tell of, or not as they were, by what the source says
        now, and why. None where the log itself has statements that say so."""

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> ValueGuard | None:
        """`dropped`: columns of a table that the job leaves out. None where rows say all that they mean, or the job's rules
        (LogOptions.rules) let them arrive as they are."""

    def carry_out(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Run steps of `missing`, each by itself. Raises SourceError at the first that is refused, SourceUnavailable for one
        that others are in the way of for so many seconds (infinity: for ever), or until `stop` says so."""

    def log(self, options: LogOptions) -> LogReader: ...

    def catalog(self) -> SourceCatalog: ...

    def snapshot(self, expected: str = "") -> SnapshotReader:
        """`expected`: the LogReader.identity that capture follows; every connection to another server is refused (K29)."""

    def checks(self) -> Checks: ...

    def witness(self) -> AbstractContextManager[str]:
        """While it is open, the checks of a target can tell by its text whether they ask the very database that this source
        is, whatever the URLs say. "" where no target can be."""
