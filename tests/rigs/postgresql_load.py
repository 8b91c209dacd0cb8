"""Two tables, customers and orders, and a loader for them on a real PostgreSQL: for the tests of the load and of what is
built after it."""

from __future__ import annotations

from typing import Any

from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable

JOB = "shop"
MARKS = ("low", "high")
RULES = ValueRules()

CUSTOMERS = TableSchema(
    TableId("shop", "customers"),
    (
        Column("id", LogicalType(Kind.INT32), "int", nullable=False, auto_increment=True),
        Column("name", LogicalType(Kind.TEXT, 20), "varchar(20)", nullable=False),
        Column("born", LogicalType(Kind.DATE), "date"),
        Column("extra", LogicalType(Kind.JSON), "json"),
    ),
    ("id",),
    (Index("by_name", ("name",), True), Index("by_born", ("born", "name"))),
)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),
        Column("customer", LogicalType(Kind.INT32), "int"),
    ),
    ("id",),
    (Index("by_customer", ("customer",)),),
    (ForeignKey("fk_customer", ("customer",), CUSTOMERS.id, ("id",), Action.CASCADE),),
)


def mapped(schema: TableSchema) -> TargetTable:
    types = tuple(c.type for c in schema.columns if c.type)
    names = tuple(c.name for c in schema.columns)
    return TargetTable(schema.id, TableId("dest", schema.id.name), names, types, schema.primary_key)


TABLES = {schema.id: mapped(schema) for schema in (CUSTOMERS, ORDERS)}
CUSTOMER, ORDER = TABLES[CUSTOMERS.id], TABLES[ORDERS.id]


def begin(
    loader: PostgresLoader, schema: TableSchema, chunks: int = 1, generation: int = 1, empty: bool = False
) -> None:
    table = TABLES[schema.id]
    loader.create_table(schema, table, RULES, False)
    bounds = [Bounds((str(n),), (str(n + 1),)) for n in range(chunks - 1)] + [Bounds()]
    loader.begin_generation(JOB, table, generation, bounds, empty)


def load(loader: PostgresLoader, table: TargetTable, *lines: bytes, number: int = 0, generation: int = 1) -> int:
    return loader.load_chunk(JOB, table, generation, number, MARKS, lines)


def loaded(loader: PostgresLoader, orders: bytes = b"10\t1\n") -> None:
    for schema in (CUSTOMERS, ORDERS):
        begin(loader, schema)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n2\tBob\t\\N\t\\N\n")
    load(loader, ORDER, orders)


def built(database: Any) -> list[tuple[Any, ...]]:
    return database.query(
        "SELECT indexrelid::regclass::text, indisunique, indisvalid FROM pg_index "
        "WHERE indrelid IN ('dest.customers'::regclass, 'dest.orders'::regclass) AND NOT indisprimary "
        "UNION ALL SELECT conname, true, convalidated FROM pg_constraint WHERE contype = 'f' ORDER BY 1"
    )


EXPECTED = [
    ("dest.customers_by_born", False, True),
    ("dest.customers_by_name", True, True),
    ("dest.orders_by_customer", False, True),
    ("fk_customer", True, True),
]
