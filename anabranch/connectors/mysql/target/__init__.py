"""MySQL as a target: the descriptor. The driver is imported when a role is asked for, not before."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.target.options import UNLOGGED, USUAL, MysqlTargetOptions

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
    from anabranch.model.checks import CheckResult
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.recipe import Asked, EndRecipe

FAMILY = "mysql"


class MysqlTarget:
    """RowTarget of the family: MariaDB's differs by `family` only, the roles ask the server what it is. Picklable."""

    def __init__(self, endpoint: Endpoint, options: MysqlTargetOptions, family: str = FAMILY) -> None:
        unlogged = () if options.sql_log_bin else (UNLOGGED,)
        self.endpoint = replace(endpoint, options=(*endpoint.options, *unlogged))
        self.options, self.family = options, family

    @cached_property
    def types(self) -> TypeMap:
        from anabranch.connectors.mysql.target.typemap import MysqlTypes

        return MysqlTypes(self.family)

    def store(self) -> TargetStore:
        from anabranch.connectors.mysql.target.store import MysqlStore

        return MysqlStore(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        from anabranch.connectors.mysql.target.apply import MysqlWriter

        return MysqlWriter(self.endpoint, rules, bypass_constraints, self.options)

    def stager(self, rules: ValueRules) -> Stager:
        from anabranch.connectors.mysql.target.stage import MysqlStager

        return MysqlStager(self.endpoint, rules)

    def catalog(self) -> TargetCatalog:
        from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog

        return MysqlTargetCatalog(self.endpoint)

    def tables(self, rules: ValueRules) -> TargetTables:
        from anabranch.connectors.mysql.target.tables import MysqlTables

        return MysqlTables(self.endpoint, rules, self.family)

    def loader(self, rules: ValueRules) -> Loader:
        from anabranch.connectors.mysql.target.load import MysqlLoader

        return MysqlLoader(self.endpoint, rules)

    def reader(self, rules: ValueRules) -> TargetReader:
        from anabranch.connectors.mysql.target.verify import MysqlTargetReader

        return MysqlTargetReader(self.endpoint)

    def trial(self, rules: ValueRules) -> Trial:
        from anabranch.connectors.mysql.target.trial import MysqlTrial

        return MysqlTrial(self.endpoint, rules)

    def passes_fence(self) -> list[CheckResult]:
        from anabranch.connectors.mysql.target.passing import passes_fence

        return passes_fence(self.endpoint)

    def acting(self, tables: Sequence[TableId]) -> Acting:
        from contextlib import closing

        from anabranch.connectors.mysql.acting import acting
        from anabranch.connectors.mysql.target.errors import translated
        from anabranch.connectors.mysql.target.session import connect

        session = closing(connect(self.endpoint, "anabranch-catalog", autocommit=True))
        with session as connection, translated("read the triggers of the target"):
            return acting(connection, tables)

    def checks(self) -> Checks:
        from anabranch.connectors.mysql.target.preflight import MysqlTargetChecks

        return MysqlTargetChecks(self.endpoint, self.family, self.options)


class MysqlChangeTarget(MysqlTarget):
    """A MySQL or MariaDB that keeps changes in database `cdc`; whatever else is there is that of every one of them."""

    def change_tables(self, rules: ValueRules) -> ChangeTables:
        from anabranch.connectors.mysql.target.change_tables.instances import MysqlChangeTables

        return MysqlChangeTables(self.endpoint, rules)

    def attunity(self) -> AttunityTables:
        from anabranch.connectors.mysql.target.change_tables.attunity import attunity_tables

        return attunity_tables(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        from anabranch.connectors.mysql.target.change_tables.writer import MysqlChangeWriter

        return MysqlChangeWriter(self.endpoint, rules, bypass_constraints, self.options)

    def checks(self) -> Checks:
        from anabranch.connectors.mysql.target.change_tables.checks import MysqlChangeChecks

        return MysqlChangeChecks(self.endpoint, self.family, self.options)


def connector(endpoint: Endpoint, options: MysqlTargetOptions = USUAL) -> RowTarget:
    """Return the target connector. Raises ModuleNotFoundError without the driver."""
    import pymysql  # noqa: F401 - asked whether it is there

    return MysqlTarget(endpoint, options)


def change_connector(endpoint: Endpoint, options: MysqlTargetOptions = USUAL) -> RowTarget:
    """Return the connector of a target that keeps changes. Raises ModuleNotFoundError without the driver."""
    import pymysql  # noqa: F401 - asked whether it is there

    return MysqlChangeTarget(endpoint, options)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a MySQL before it is a target."""
    from anabranch.connectors.mysql.target.recipe import recipe_of

    return recipe_of("mysql", asked)
