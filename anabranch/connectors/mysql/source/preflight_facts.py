"""Facts that the checks of a source share: the server as it answers, and how a finding is worded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pymysql

from anabranch.connectors.mysql.connection import ask, family, version
from anabranch.connectors.mysql.source.options import MysqlSourceOptions
from anabranch.connectors.mysql.source.snapshot import has_useful_gtids
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema

SHOWN = 8  # names in one message


@dataclass(frozen=True)
class Live:
    """The facts that the checks share."""

    connection: pymysql.Connection
    scheme: str
    options: MysqlSourceOptions
    family: str
    version: tuple[int, int, int]
    variables: Mapping[str, str]
    context: PreflightContext
    endpoint: Endpoint

    @classmethod
    def of(
        cls,
        connection: pymysql.Connection,
        scheme: str,
        options: MysqlSourceOptions,
        context: PreflightContext,
        endpoint: Endpoint,
    ) -> Live:
        rows = ask(connection, "SHOW GLOBAL VARIABLES")
        values = {str(name).lower(): str(value) for name, value in rows}
        return cls(connection, scheme, options, family(connection), version(connection), values, context, endpoint)

    @property
    def lock(self) -> str:
        return self.context.user_choices.get("load.lock", "none") or "none"

    @property
    def has_gtids(self) -> bool:
        return self.family == "mariadb" or self.variables.get("gtid_mode") == "ON"

    @property
    def is_exact(self) -> bool:
        """True if the server, or a lock, tells where a snapshot lies in the log (K2)."""
        return self.family == "mariadb" or self.lock != "none"

    @property
    def needs_watermark(self) -> bool:
        is_told = self.family == "mariadb" or has_useful_gtids(self.connection, self.variables)
        return not is_told and self.lock == "none"

    def tables(self, where: Callable[[TableSchema], bool]) -> list[TableSchema]:
        return [schema for _, schema in sorted(self.context.tables.items()) if where(schema)]


def names_of(tables: Iterable[TableSchema]) -> tuple[str, ...]:
    return tuple(str(table.id) for table in tables)


def some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.OK, message)


def warning(check: str, message: str, hint: str = "") -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.WARNING, message, hint)


def failed(check: str, message: str, hint: str, table: str = "") -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.FAILED, message, hint, table)
