"""The twin as a target: the descriptor."""

from __future__ import annotations

from anabranch.connectors.memory.database import database
from anabranch.connectors.memory.preflight import MemoryChecks
from anabranch.connectors.memory.target.appender import MemoryAppender
from anabranch.connectors.memory.target.apply import MemoryWriter
from anabranch.connectors.memory.target.load import MemoryLoader
from anabranch.connectors.memory.target.stage import MemoryStager
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.connectors.memory.target.typemap import MemoryTypes
from anabranch.connectors.memory.target.verify import MemoryReader
from anabranch.contracts import (
    Appender,
    Checks,
    RowTarget,
    Stager,
    TargetCatalog,
    TargetReader,
    TargetStore,
    TargetTables,
    TypeMap,
    ValueRules,
    Writer,
)
from anabranch.contracts import Loader as LoaderContract
from anabranch.databases import NONE, Options
from anabranch.model.endpoint import Endpoint


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

    def catalog(self) -> TargetCatalog:
        return MemoryLoader(database(self.endpoint.database))

    def tables(self, rules: ValueRules) -> TargetTables:
        return MemoryLoader(database(self.endpoint.database))

    def loader(self, rules: ValueRules) -> LoaderContract:
        return MemoryLoader(database(self.endpoint.database))

    def appender(self, rules: ValueRules) -> Appender:
        return MemoryAppender(database(self.endpoint.database), rules)

    def reader(self, rules: ValueRules) -> TargetReader:
        return MemoryReader(database(self.endpoint.database))

    def checks(self) -> Checks:
        return MemoryChecks(self.endpoint.database)


def connector(endpoint: Endpoint, options: Options = NONE) -> RowTarget:
    return MemoryTarget(endpoint)
