"""PostgreSQL, in both roles: the descriptor. The driver is imported when a role is asked for, not with this module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from anabranch.abc import (
        Checks,
        Dialect,
        Loader,
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
        ValueGuard,
        ValueRules,
        Writer,
    )
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.model.steps import SetUpStep


@dataclass
class PostgresSource:
    """A PostgreSQL database in the role of source."""

    endpoint: Endpoint

    @cached_property
    def order(self) -> LogOrder:
        from anabranch.connectors.postgresql.positions import WalOrder

        return WalOrder()

    @cached_property
    def dialect(self) -> Dialect:
        from anabranch.connectors.postgresql.statements import PostgresDialect

        return PostgresDialect()

    def leftovers(self, name: str, remove: bool) -> list[str]:
        from anabranch.connectors.postgresql.set_up import leftovers

        return leftovers(self.endpoint, name, remove)

    def missing(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        from anabranch.connectors.postgresql.set_up import missing

        return missing(self.endpoint, options, tables, begins)

    def astray(self, options: LogOptions, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        from anabranch.connectors.postgresql.set_up import astray

        return astray(self.endpoint, options, tables)

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> ValueGuard | None:
        from anabranch.connectors.postgresql.large_object_guard import LargeObjectGuard
        from anabranch.connectors.postgresql.large_objects import NUMBERS

        return None if options.rules.large_objects == NUMBERS else LargeObjectGuard(self.endpoint, dropped)

    def carry_out(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        from anabranch.connectors.postgresql.set_up import carry_out

        carry_out(self.endpoint, steps, patience, stop)

    def log(self, options: LogOptions) -> LogReader:
        from anabranch.connectors.postgresql.capture import WalReader

        return WalReader(self.endpoint, options)

    def catalog(self) -> SourceCatalog:
        from anabranch.connectors.postgresql.source_catalog import PostgresCatalog

        return PostgresCatalog(self.endpoint)

    def snapshot(self, expected: str = "") -> SnapshotReader:
        from anabranch.connectors.postgresql.snapshot import PostgresSnapshot

        return PostgresSnapshot(self.endpoint, expected)

    def checks(self) -> Checks:
        from anabranch.connectors.postgresql.source_checks import PostgresSourceChecks

        return PostgresSourceChecks(self.endpoint)

    def witness(self) -> AbstractContextManager[str]:
        from anabranch.connectors.postgresql.witness import witness

        return witness(self.endpoint)


@dataclass
class PostgresTarget:
    """A PostgreSQL database in the role of target: the endpoint and nothing else, so it pickles."""

    endpoint: Endpoint

    @cached_property
    def types(self) -> TypeMap:
        from anabranch.connectors.postgresql.typemap import PostgresTypes

        return PostgresTypes()

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


def source(endpoint: Endpoint) -> SourceConnector:
    """Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresSource(endpoint)


def target(endpoint: Endpoint) -> TargetConnector:
    """Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresTarget(endpoint)
