"""PostgreSQL as a target: the descriptor. The driver is imported when a connector is asked for, not before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.connectors.postgresql.target.options import USUAL, PostgresTargetOptions
from anabranch.databases import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.contracts import (
        Acting,
        AttunityTables,
        ChangeTables,
        Checks,
        Loader,
        RowTarget,
        Stager,
        TargetCatalog,
        TargetReader,
        TargetStore,
        TargetTables,
        Trial,
        TypeMap,
        ValueRules,
        Writer,
    )
    from anabranch.databases import Options
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.recipe import Asked, EndRecipe


@dataclass
class PostgresTarget:
    """A PostgreSQL database in the role of target: the endpoint and nothing else, so it pickles."""

    endpoint: Endpoint

    @cached_property
    def types(self) -> TypeMap:
        from anabranch.connectors.postgresql.target.typemap import PostgresTypes

        return PostgresTypes()

    def store(self) -> TargetStore:
        from anabranch.connectors.postgresql.target.store import PostgresStore

        return PostgresStore(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        from anabranch.connectors.postgresql.target.apply import PostgresWriter

        return PostgresWriter(self.endpoint, rules, bypass_constraints)

    def stager(self, rules: ValueRules) -> Stager:
        from anabranch.connectors.postgresql.target.stage import PostgresStager

        return PostgresStager(self.endpoint, rules)

    def catalog(self) -> TargetCatalog:
        from anabranch.connectors.postgresql.target.standing import PostgresCatalog

        return PostgresCatalog(self.endpoint)

    def tables(self, rules: ValueRules) -> TargetTables:
        from anabranch.connectors.postgresql.target.load import PostgresLoader

        return PostgresLoader(self.endpoint, rules)

    def loader(self, rules: ValueRules) -> Loader:
        from anabranch.connectors.postgresql.target.load import PostgresLoader

        return PostgresLoader(self.endpoint, rules)

    def reader(self, rules: ValueRules) -> TargetReader:
        from anabranch.connectors.postgresql.target.verify import PostgresReader

        return PostgresReader(self.endpoint)

    def trial(self, rules: ValueRules) -> Trial:
        from anabranch.connectors.postgresql.target.trial import PostgresTrial

        return PostgresTrial(self.endpoint, rules)

    def acting(self, tables: Sequence[TableId]) -> Acting:
        from anabranch.connectors.postgresql.acting import acting
        from anabranch.connectors.postgresql.connection import connect
        from anabranch.connectors.postgresql.errors import translated

        session = connect(self.endpoint, "anabranch-catalog", autocommit=True)
        with session as connection, translated("read triggers and constraints of the target"):
            return acting(connection, tables)

    def checks(self) -> Checks:
        from anabranch.connectors.postgresql.target.preflight import PostgresChecks

        return PostgresChecks(self.endpoint)


@dataclass
class PostgresChangeTarget(PostgresTarget):
    """A PostgreSQL database that keeps changes in schema `cdc`; whatever else is there is that of every PostgreSQL."""

    options: PostgresTargetOptions = USUAL

    def change_tables(self, rules: ValueRules) -> ChangeTables:
        from anabranch.connectors.postgresql.target.change_tables.instances import PostgresChangeTables

        return PostgresChangeTables(self.endpoint, rules)

    def attunity(self) -> AttunityTables:
        from anabranch.connectors.postgresql.target.change_tables.attunity import attunity_tables

        return attunity_tables(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        from anabranch.connectors.postgresql.target.change_tables.writer import PostgresChangeWriter

        return PostgresChangeWriter(self.endpoint, rules, bypass_constraints, self.options)

    def checks(self) -> Checks:
        from anabranch.connectors.postgresql.target.change_tables.checks import PostgresChangeChecks

        return PostgresChangeChecks(self.endpoint)


def connector(endpoint: Endpoint, options: Options = NONE) -> RowTarget:
    """Return the target connector. Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresTarget(endpoint)


def change_connector(endpoint: Endpoint, options: PostgresTargetOptions = USUAL) -> RowTarget:
    """Return the connector of a target that keeps changes. Raises ModuleNotFoundError without the driver."""
    import psycopg  # noqa: F401 - asked whether it is there

    return PostgresChangeTarget(endpoint, options)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a PostgreSQL before it is a target."""
    from anabranch.connectors.postgresql.target.recipe import recipe_of

    return recipe_of(asked)
