"""An empty database at a MySQL or MariaDB target, in which tables of a source are made and built: `Place`; definitions to make
there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from anabranch.connectors.mysql.target.session import connect
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.structures import read_table
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from rigs.endpoints import endpoint_of

RULES = ValueRules()
NUMBER = LogicalType(Kind.INT32)
TEXT, WORD = LogicalType(Kind.TEXT, native="text"), LogicalType(Kind.TEXT, length=40)


class Place:
    """An empty database at a target, and tables of ours in it."""

    def __init__(self, database: Database) -> None:
        self.database, self.job = database, database.name
        self.endpoint = replace(endpoint_of(database), database="")
        self.tables = MysqlTables(self.endpoint, RULES, database.server.name)
        with closing(MysqlStore(self.endpoint)) as store:
            store.prepare()

    def table(self, schema: TableSchema, **more: Any) -> TargetTable:
        columns = [column for column in schema.columns if column.type]
        names = tuple(column.name for column in columns)
        types = tuple(column.type for column in columns if column.type)
        target = TableId(self.database.name, schema.id.name)
        return replace(TargetTable(schema.id, target, names, types, schema.primary_key, names), **more)

    def create(self, *schemas: TableSchema) -> None:
        for schema in schemas:
            self.tables.create_table(schema, self.table(schema), RULES, False)

    def build(self, *schemas: TableSchema) -> list[str]:
        made = {schema.id: self.table(schema) for schema in schemas}
        return [p for s in schemas for p in self.tables.build(self.job, s, made[s.id], made.get)]

    def existing(self, name: str) -> Any:
        with closing(connect(self.endpoint, "test", autocommit=True)) as connection:
            return read_table(connection, TableId(self.database.name, name))

    def shown(self, name: str) -> str:
        return str(self.database.query(f"SHOW CREATE TABLE `{name}`")[0][1])

    def close(self) -> None:
        self.tables.close()
        with closing(MysqlStore(self.endpoint)) as store:
            store.jobs.drop(self.job)


def table(name: str, *columns: Column, key: Sequence[str] = ("id",), **more: Any) -> TableSchema:
    return TableSchema(TableId("shop", name), columns, tuple(key), **more)


def number(name: str = "id", **more: Any) -> Column:
    return Column(name, NUMBER, "int", **{"nullable": False, **more})


CUSTOMERS = table(
    "customers", number(), Column("name", WORD, "varchar(40)"), indexes=(Index("by_name", ("name",), True),)
)
ORDERS = table(
    "orders",
    number(),
    number("customer", nullable=True),
    indexes=(Index("by_customer", ("customer",)),),
    foreign_keys=(ForeignKey("customer_of", ("customer",), CUSTOMERS.id, ("id",), Action.SET_NULL),),
)
