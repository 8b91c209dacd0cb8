"""PostgreSQL as a target. The driver is imported when a target is made, not with this module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.abc import Checks, Loader, Stager, TargetReader, TargetStore, TypeMap, ValueRules, Writer
from anabranch.connectors.postgresql.typemap import PostgresTypes
from anabranch.model.endpoint import Endpoint

if TYPE_CHECKING:
    from anabranch.abc import TargetConnector


@dataclass
class PostgresTarget:
    """A PostgreSQL database in the role of target: the endpoint and nothing else, so it pickles."""

    endpoint: Endpoint
    types: TypeMap = field(default_factory=PostgresTypes, compare=False)

    def store(self) -> TargetStore:
        from anabranch.connectors.postgresql.store import PostgresStore

        return PostgresStore(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        from anabranch.connectors.postgresql.apply import PostgresWriter

        return PostgresWriter(self.endpoint, rules, bypass_constraints)

    def stager(self, rules: ValueRules) -> Stager:
        from anabranch.connectors.postgresql.stage import PostgresStager

        return PostgresStager(self.endpoint, rules)

    def loader(self, rules: ValueRules) -> Loader:
        from anabranch.connectors.postgresql.load import PostgresLoader

        return PostgresLoader(self.endpoint, rules)

    def reader(self, rules: ValueRules) -> TargetReader:
        from anabranch.connectors.postgresql.verify import PostgresReader

        return PostgresReader(self.endpoint)

    def checks(self) -> Checks:
        from anabranch.connectors.postgresql.preflight import PostgresChecks

        return PostgresChecks(self.endpoint)


def target(endpoint: Endpoint) -> TargetConnector:
    """Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresTarget(endpoint)
