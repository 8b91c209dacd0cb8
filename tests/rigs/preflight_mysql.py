"""Preflight of a MySQL or MariaDB target, its results by check; a server's setting and a user for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from anabranch.connectors.mysql.target.preflight import MysqlTargetChecks
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

Make = Callable[[Server], Database]
INT, BIG, WORD = LogicalType(Kind.INT32), LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=40)
ID, NAME = Column("id", INT, "int", nullable=False), Column("name", WORD, "varchar(40)", charset="utf8mb4")
BINARY = "utf8mb4_0900_bin"
FoundBy = dict[str, list[CheckResult]]


def table(*columns: Column, name: str = "orders", key: tuple[str, ...] = ("id",), **more: object) -> TableSchema:
    made = TableSchema(TableId("shop", name), columns or (ID, NAME), key, engine="InnoDB")
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def target_of(schema: TableSchema, place: str, computes: bool = False) -> TargetTable:
    """`computes`: generated columns are computed at the target."""
    computed = tuple((column.name, column.name) for column in schema.columns if computes and column.generated)
    written = [column for column in schema.columns if (column.name, column.name) not in computed]
    names, types = tuple(column.name for column in written), tuple(column.type for column in written if column.type)
    return TargetTable(schema.id, TableId(place, schema.id.name), names, types, schema.primary_key, names, computed)


def checked(
    database: Database,
    *schemas: TableSchema,
    endpoint: Endpoint | None = None,
    family: str = "",
    place: str = "",
    computes: bool = False,
    **choices: str,
) -> FoundBy:
    """Results by check; choices like load__existing="empty"."""
    tables = {one.id: one for one in schemas or (table(),)}
    targets = {id: target_of(one, place or database.name, computes) for id, one in tables.items()}
    named = {name.replace("__", "."): value for name, value in choices.items()}
    context = PreflightContext("job", named, tables, targets)
    return by_check(database, context, endpoint, family)


def by_check(
    database: Database, context: PreflightContext, endpoint: Endpoint | None = None, family: str = ""
) -> FoundBy:
    found: FoundBy = {}
    checks = MysqlTargetChecks(endpoint or endpoint_of(database), family or database.server.name)
    with closing(checks):
        for result in checks.run(context):
            found.setdefault(result.check.removeprefix("target."), []).append(result)
    return found


def one(found: FoundBy, check: str) -> CheckResult:
    assert check in found, sorted(found)
    (result,) = found[check]
    return result


def wrong(found: FoundBy) -> list[CheckResult]:
    return [result for results in found.values() for result in results if result.verdict != "ok"]


@contextmanager
def setting(server: Server, name: str, value: str) -> Iterator[None]:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        (before,) = cursor.fetchone()
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


@contextmanager
def user_with(database: Database, *grants: str) -> Iterator[Endpoint]:
    name = database.name[-16:]
    database.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'")
    try:
        database.execute(*(f"GRANT {grant} TO {name}@'%'" for grant in grants))
        yield replace(endpoint_of(database), user=name, password="pw", database="")
    finally:
        database.execute(f"DROP USER {name}@'%'")
