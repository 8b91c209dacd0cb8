"""The folder as a source: the connector, which hands out the others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from anabranch.connectors.folder.files import Folder
from anabranch.connectors.folder.source.capture import FolderLog
from anabranch.connectors.folder.source.catalog import FolderCatalog, FolderDialect
from anabranch.connectors.folder.source.options import FolderOptions
from anabranch.connectors.folder.source.positions import FolderOrder
from anabranch.connectors.folder.source.preflight import FolderChecks
from anabranch.connectors.folder.source.snapshot import FolderSnapshot

from anabranch.contracts import Checks, LogOptions, LogReader, SnapshotReader, SourceCatalog, SourceConnector
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId


@dataclass
class FolderSource:
    """Values and nothing else, so that it travels to tasks."""

    endpoint: Endpoint
    options: FolderOptions
    order = FolderOrder()
    dialect = FolderDialect()

    def log(self, options: LogOptions) -> LogReader:
        return FolderLog(Folder(self.endpoint), self.options)

    def catalog(self) -> SourceCatalog:
        return FolderCatalog(Folder(self.endpoint))

    def snapshot(self, expected: str = "") -> SnapshotReader:
        return FolderSnapshot(Folder(self.endpoint), expected)

    def checks(self) -> Checks:
        return FolderChecks(Folder(self.endpoint))

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> None:
        """Rows say all that they mean."""

    def witness(self) -> AbstractContextManager[str]:
        """No target is a folder."""
        return nullcontext("")


def connector(endpoint: Endpoint, options: FolderOptions) -> SourceConnector:
    return FolderSource(endpoint, options)
