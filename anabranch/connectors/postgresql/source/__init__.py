"""PostgreSQL as a source: the descriptor. The driver is imported when a connector is asked for, not before."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.connectors.postgresql.source.options import USUAL, PostgresSourceOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from anabranch.connectors.postgresql.source.added_columns import SeenFile
    from anabranch.connectors.postgresql.source.retyped_columns import Looks
    from anabranch.contracts import (
        Acting,
        Checks,
        Counter,
        Dialect,
        Drift,
        LogOptions,
        LogOrder,
        LogReader,
        Shadow,
        SnapshotReader,
        SourceCatalog,
        SourceConnector,
        SourceFence,
        ValueGuard,
    )
    from anabranch.model.column_changes import Follows
    from anabranch.model.datatype import LogicalType
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.recipe import Asked, EndRecipe
    from anabranch.model.schema import TableSchema
    from anabranch.model.steps import SetUpStep


@dataclass
class PostgresSource:
    """A PostgreSQL database in the role of source."""

    endpoint: Endpoint
    options: PostgresSourceOptions
    files: dict[int, SeenFile] = field(default_factory=dict)  # by oid: as they were looked at here
    looks: Looks | None = None  # likewise at their columns

    @cached_property
    def order(self) -> LogOrder:
        from anabranch.connectors.postgresql.source.positions import WalOrder

        return WalOrder()

    @cached_property
    def dialect(self) -> Dialect:
        from anabranch.connectors.postgresql.source.statements import PostgresDialect

        return PostgresDialect()

    def remains(self, name: str, remove: bool) -> list[str]:
        from anabranch.connectors.postgresql.source.set_up import remains

        return remains(self.endpoint, name, remove)

    def steps(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        from anabranch.connectors.postgresql.source.set_up import steps_for

        return steps_for(self.endpoint, options, self.options, tables, begins)

    def drift(
        self, options: LogOptions, tables: Mapping[TableId, TableSchema], follows: Follows
    ) -> dict[TableId, Drift]:
        from anabranch.connectors.postgresql.source.retyped_columns import Looks
        from anabranch.connectors.postgresql.source.set_up import drift

        self.looks = self.looks or Looks()
        return drift(self.endpoint, options, self.options.decoder, tables, self.files, follows, self.looks)

    def replaced(self, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        from anabranch.connectors.postgresql.source.connection import open_session
        from anabranch.connectors.postgresql.source.errors import translated
        from anabranch.connectors.postgresql.source.replaced_columns import replaced

        with open_session(self.endpoint) as connection, translated("look at the numbers of columns"):
            return replaced(connection, tables)

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> ValueGuard | None:
        from anabranch.connectors.postgresql.source.large_object_guard import LargeObjectGuard
        from anabranch.connectors.postgresql.source.large_objects import NUMBERS

        return None if self.options.large_objects == NUMBERS else LargeObjectGuard(self.endpoint, dropped)

    def run(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        from anabranch.connectors.postgresql.source.set_up import run_steps

        run_steps(self.endpoint, steps, patience, stop)

    def log(self, options: LogOptions) -> LogReader:
        from anabranch.connectors.postgresql.source.capture import WalReader

        return WalReader(self.endpoint, options, self.options)

    def catalog(self) -> SourceCatalog:
        from anabranch.connectors.postgresql.source.catalog import PostgresCatalog

        return PostgresCatalog(self.endpoint, self.options, self.files)

    def snapshot(self, expected: str = "") -> SnapshotReader:
        from anabranch.connectors.postgresql.source.snapshot import PostgresSnapshot

        return PostgresSnapshot(self.endpoint, expected, self.options)

    def spelled(self, native: str) -> LogicalType | None:
        from anabranch.connectors.postgresql.source.typemap import spelled

        return spelled(native)

    def checks(self) -> Checks:
        from anabranch.connectors.postgresql.source.preflight import PostgresSourceChecks

        return PostgresSourceChecks(self.endpoint, self.options)

    def longest(self, table: TableSchema, columns: Sequence[str]) -> Mapping[str, int] | None:
        from anabranch.connectors.postgresql.source.lengths import longest

        return longest(self.endpoint, table, columns)

    def fence(self, name: str) -> SourceFence:
        from anabranch.connectors.postgresql.source.fence import PostgresFence

        return PostgresFence(self.endpoint, name)

    def shadow(self, schema: str, job: str) -> Shadow:
        from anabranch.connectors.postgresql.source.shadow import PostgresShadow

        return PostgresShadow(self.endpoint, schema, job)

    def counters(self, tables: Mapping[TableId, TableSchema]) -> list[Counter]:
        from anabranch.connectors.postgresql.source.counters import counters

        return counters(self.endpoint, tables)

    def acting(self, tables: Sequence[TableId]) -> Acting:
        from anabranch.connectors.postgresql.acting import acting
        from anabranch.connectors.postgresql.source.connection import open_session
        from anabranch.connectors.postgresql.source.errors import translated

        with open_session(self.endpoint) as connection, translated("read triggers and constraints of the source"):
            return acting(connection, tables)

    def loose_keys(self, tables: Mapping[TableId, TableSchema]) -> dict[tuple[TableId, str], str]:
        from anabranch.connectors.postgresql.source.loose_keys import loose_keys

        return loose_keys(self.endpoint, tables)

    def witness(self) -> AbstractContextManager[str]:
        from anabranch.connectors.postgresql.source.witness import witness

        return witness(self.endpoint)


def connector(endpoint: Endpoint, options: PostgresSourceOptions = USUAL) -> SourceConnector:
    """Return the source connector. Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresSource(endpoint, options)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a PostgreSQL before it is a source."""
    from anabranch.connectors.postgresql.source.recipe import recipe_of

    return recipe_of(asked)
