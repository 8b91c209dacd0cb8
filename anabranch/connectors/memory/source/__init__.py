"""The twin as a source: the descriptor."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from anabranch.connectors.memory.database import database
from anabranch.connectors.memory.preflight import MemoryChecks
from anabranch.connectors.memory.source.capture import MemoryLog, MemoryOrder
from anabranch.connectors.memory.source.catalog import MemoryCatalog, MemoryDialect
from anabranch.connectors.memory.source.snapshot import MemorySnapshot
from anabranch.contracts import (
    Checks,
    Dialect,
    LogOptions,
    LogOrder,
    LogReader,
    SnapshotReader,
    SourceCatalog,
    SourceConnector,
)
from anabranch.databases import NONE, Options
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId


class MemorySource:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.order: LogOrder = MemoryOrder()
        self.dialect: Dialect = MemoryDialect()

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> None:
        return None

    def log(self, options: LogOptions) -> LogReader:
        return MemoryLog(database(self.endpoint.database), options.leave_out)

    def catalog(self) -> SourceCatalog:
        return MemoryCatalog(database(self.endpoint.database))

    def snapshot(self, expected: str = "") -> SnapshotReader:
        return MemorySnapshot(self.endpoint.database, expected)

    def checks(self) -> Checks:
        return MemoryChecks(self.endpoint.database)

    def witness(self) -> AbstractContextManager[str]:
        return nullcontext("")


def connector(endpoint: Endpoint, options: Options = NONE) -> SourceConnector:
    return MemorySource(endpoint)
