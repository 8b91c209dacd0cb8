"""MySQL as a source: the descriptor. The driver is imported when a role is asked for, not before."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.source.options import USUAL, MysqlSourceOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from anabranch.connectors.mysql.source.load import MysqlSnapshot
    from anabranch.connectors.mysql.source.statements import MysqlDialect
    from anabranch.contracts import (
        Acting,
        Checks,
        Counter,
        LogOptions,
        LogOrder,
        LogReader,
        Shadow,
        SourceCatalog,
        SourceConnector,
        SourceFence,
    )
    from anabranch.model.datatype import LogicalType
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.ids import TableId
    from anabranch.model.recipe import Asked, EndRecipe
    from anabranch.model.schema import TableSchema

FAMILY = "mysql"


class MysqlSource:
    """SourceConnector of the family: MariaDB's differs by `family` only, the roles ask the server what it is.

    There is no SourceSetUp: settings and grants are an administrator's, and preflight lists them."""

    order: LogOrder

    def __init__(self, endpoint: Endpoint, options: MysqlSourceOptions, family: str = FAMILY) -> None:
        """Set up the connector. Raises ModuleNotFoundError without the driver."""
        import pymysql  # noqa: F401 - asked whether it is there

        from anabranch.connectors.mysql.source.positions import BinlogOrder

        self.endpoint, self.options, self.family = endpoint, options, family
        self.order = BinlogOrder()
        self._folds_names = False  # as long as no server was asked

    @cached_property
    def dialect(self) -> MysqlDialect:
        from anabranch.connectors.mysql.source.statements import MysqlDialect

        dialect = MysqlDialect()
        dialect.folds_names, dialect.family = self._folds_names, self.family
        return dialect

    def remains(self, name: str, remove: bool) -> list[str]:
        from anabranch.connectors.mysql.source.watermark import remains

        return remains(self.endpoint, remove)

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> None:
        return None

    def log(self, options: LogOptions) -> LogReader:
        from anabranch.connectors.mysql.source.capture import BinlogReader

        return BinlogReader(self.endpoint, options, self.options)

    def catalog(self) -> SourceCatalog:
        from anabranch.connectors.mysql.source.catalog import MysqlCatalog

        catalog = MysqlCatalog(self.endpoint)
        self._folds_names = catalog.folds_names
        if "dialect" in vars(self):
            self.dialect.folds_names = catalog.folds_names
        return catalog

    def snapshot(self, expected: str = "") -> MysqlSnapshot:
        from anabranch.connectors.mysql.source.computed import ComputingSnapshot

        return ComputingSnapshot(self.endpoint, expected)

    def spelled(self, native: str) -> LogicalType | None:
        from anabranch.connectors.mysql.source.typemap import spelled

        return spelled(native, self.family)

    def checks(self) -> Checks:
        from anabranch.connectors.mysql.source.preflight import MysqlChecks

        return MysqlChecks(self.endpoint, self.family, self.options)

    def fence(self, name: str) -> SourceFence:
        from anabranch.connectors.mysql.source.fence import MysqlFence

        return MysqlFence(self.endpoint)

    def shadow(self, schema: str, job: str) -> Shadow:
        from anabranch.connectors.mysql.source.shadow import MysqlShadow

        return MysqlShadow(self.endpoint, schema, job)

    def counters(self, tables: Mapping[TableId, TableSchema]) -> list[Counter]:
        from anabranch.connectors.mysql.source.counters import counters

        return counters(self.endpoint, tables)

    def acting(self, tables: Sequence[TableId]) -> Acting:
        from contextlib import closing

        from anabranch.connectors.mysql.acting import acting
        from anabranch.connectors.mysql.connection import connect
        from anabranch.connectors.mysql.errors import translated

        with closing(connect(self.endpoint)) as connection, translated():
            return acting(connection, tables)

    def loose_keys(self, tables: Mapping[TableId, TableSchema]) -> dict[tuple[TableId, str], str]:
        from anabranch.connectors.mysql.collations import loose_keys

        return loose_keys(tables)

    def witness(self) -> AbstractContextManager[str]:
        from anabranch.connectors.mysql.source.witness import witness

        return witness(self.endpoint)


def connector(endpoint: Endpoint, options: MysqlSourceOptions = USUAL) -> SourceConnector:
    return MysqlSource(endpoint, options)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a MySQL before it is a source."""
    from anabranch.connectors.mysql.source.recipe import recipe_of

    return recipe_of("mysql", asked)
