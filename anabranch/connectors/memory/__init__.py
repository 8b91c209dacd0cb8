"""The reference twin: a database inside this process, in both roles, for tests of what databases have in common.

It does what the contracts say and nothing more, slowly and plainly: text forms in dictionaries, one lock. Databases are
named by the endpoint's `database` and live as long as the process (`database.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from anabranch.abc import (
    Checks,
    Dialect,
    LogOptions,
    LogOrder,
    LogReader,
    SnapshotReader,
    SourceCatalog,
    SourceConnector,
    Stager,
    TargetConnector,
    TargetReader,
    TargetStore,
    TypeMap,
    ValueRules,
    Writer,
)
from anabranch.abc import Loader as LoaderContract
from anabranch.connectors.memory.apply import MemoryStager, MemoryWriter
from anabranch.connectors.memory.capture import MemoryLog, MemoryOrder
from anabranch.connectors.memory.catalog import MemoryCatalog, MemoryDialect
from anabranch.connectors.memory.database import database
from anabranch.connectors.memory.load import MemoryLoader
from anabranch.connectors.memory.preflight import MemoryChecks
from anabranch.connectors.memory.snapshot import MemorySnapshot
from anabranch.connectors.memory.store import MemoryStore
from anabranch.connectors.memory.typemap import MemoryTypes
from anabranch.connectors.memory.verify import MemoryReader
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import SetUpStep


class MemorySource:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.order: LogOrder = MemoryOrder()
        self.dialect: Dialect = MemoryDialect()

    def leftovers(self, name: str, remove: bool) -> list[str]:
        return []

    def missing(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        return []

    def astray(self, options: LogOptions, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        return {}

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> None:
        return None

    def carry_out(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        pass

    def log(self, options: LogOptions) -> LogReader:
        return MemoryLog(database(self.endpoint.database))

    def catalog(self) -> SourceCatalog:
        return MemoryCatalog(database(self.endpoint.database))

    def snapshot(self, expected: str = "") -> SnapshotReader:
        return MemorySnapshot(self.endpoint.database, expected)

    def checks(self) -> Checks:
        return MemoryChecks(self.endpoint.database)

    def witness(self) -> AbstractContextManager[str]:
        return nullcontext("")


class MemoryTarget:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.types: TypeMap = MemoryTypes()

    def store(self) -> TargetStore:
        return MemoryStore(database(self.endpoint.database))

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        return MemoryWriter(database(self.endpoint.database), rules)

    def stager(self, rules: ValueRules) -> Stager:
        return MemoryStager(database(self.endpoint.database))

    def loader(self, rules: ValueRules) -> LoaderContract:
        return MemoryLoader(database(self.endpoint.database))

    def reader(self, rules: ValueRules) -> TargetReader:
        return MemoryReader(database(self.endpoint.database))

    def checks(self) -> Checks:
        return MemoryChecks(self.endpoint.database)


def source(endpoint: Endpoint) -> SourceConnector:
    return MemorySource(endpoint)


def target(endpoint: Endpoint) -> TargetConnector:
    return MemoryTarget(endpoint)
