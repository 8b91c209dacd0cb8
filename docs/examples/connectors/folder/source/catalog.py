"""SourceCatalog and Dialect of the folder: definitions are in a file, one statement there is."""

from __future__ import annotations

from collections.abc import Callable, Collection

from anabranch.connectors.folder.files import Folder
from anabranch.connectors.folder.source.positions import mark

from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.rows.log_items import StatementFacts, StatementKind


class FolderCatalog:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.log, self.transactions = FolderLogFacts(), NothingOpen()

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        return {table: schema for table, schema in self._folder.tables().items() if wanted(table)}

    def names(self) -> dict[TableId, str]:
        return dict.fromkeys(self._folder.tables(), "")

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        return dict.fromkeys(set(tables) - self.names().keys(), "")

    def mark(self) -> LogMark:
        return mark(self._folder.identity(), self._folder.end())

    def writers(self) -> list[SourceWriter]:
        """Nobody replicates to a folder."""
        return []

    def close(self) -> None:
        """Nothing is open."""


class FolderLogFacts:
    def logs_whole_rows(self) -> bool:
        return True

    def logs_cascades(self) -> bool:
        """Say yes: there are no foreign keys."""
        return True

    def log_sizes(self) -> dict[str, int]:
        return {}

    def held(self, name: str) -> None:
        """Return nothing: nothing is kept for a job."""


class NothingOpen:
    """A file is a whole transaction: nothing is prepared, nothing is open."""

    def prepared(self) -> frozenset[str]:
        return frozenset()

    def in_progress(self) -> frozenset[str]:
        return frozenset()

    def who_has(self, transactions: Collection[str]) -> list[str]:
        return []

    def unseen(self, before: LogMark) -> frozenset[str]:
        return frozenset()


class FolderDialect:
    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        verb, _, table = sql.partition(" ")
        if verb == "TRUNCATE":
            return StatementFacts(StatementKind.TRUNCATE, (TableId.parse(table),))
        return StatementFacts(StatementKind.UNKNOWN)

    def shown(self, sql: str) -> str:
        return sql
