"""A writer that a test holds at a real PostgreSQL: three tables, one of them without a key, and rows for them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import TableNet, TargetTable
from rigs.endpoints import endpoint_of

INT, BIG = LogicalType(Kind.INT32), LogicalType(Kind.INT64)
TEXT, JSON = LogicalType(Kind.TEXT), LogicalType(Kind.JSON)
MONEY = LogicalType(Kind.DECIMAL, precision=10, scale=2)

TABLE = TargetTable(
    TableId("shop", "orders"),
    TableId("public", "Or%ders"),
    ("id", "amount", "no%te"),
    (INT, MONEY, LogicalType(Kind.TEXT, 10)),
    ("id",),
)
DDL = """
CREATE TABLE public."Or%ders" (id int PRIMARY KEY, amount numeric(10,2), "no%te" varchar(10), extra text DEFAULT 'kept')
"""
PAIR = TargetTable(TableId("shop", "pair"), TableId("public", "pair"), ("a", "b", "v"), (INT, TEXT, INT), ("b", "a"))
BAG = TargetTable(
    TableId("shop", "bag"),
    TableId("public", "bag"),
    ("n", "j", "f", "t", "raw"),
    (INT, JSON, LogicalType(Kind.FLOAT64), TEXT, LogicalType(Kind.BINARY)),
    (),
)
BAG_DDL = "CREATE TABLE public.bag (n int, j json, f float8, t text, raw bytea, extra text DEFAULT 'kept')"


def prepared(database: Any) -> Endpoint:
    """Where the tables are, with a job's state."""
    made = endpoint_of(database)
    store = PostgresStore(made)
    store.prepare()
    store.create_checkpoint("shop", Position(0, "start"), 0)
    store.close()
    database.execute(DDL, "CREATE TABLE public.pair (a int, b text, v int, PRIMARY KEY (b, a))", BAG_DDL)
    return made


class Applying:
    """A claimed writer that carries out one epoch after another."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules | None = None, bypass: bool = False) -> None:
        self.writer = PostgresWriter(endpoint, rules or ValueRules(), bypass)
        self.at = self.writer.claim("shop", "me")

    def next(self) -> Checkpoint:
        after = Position(self.at.position.sequence + 1, f"p{self.at.epoch + 1}")
        return Checkpoint(self.at.owner, self.at.epoch + 1, after, 1_000_000)

    def __enter__(self) -> PostgresWriter:
        assert self.writer.begin(self.at, self.next()) == "open"
        return self.writer

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.writer.commit()
            self.at = self.next()
        else:
            self.writer.rollback()

    def merge(self, net: TableNet) -> list[dict[str, str | None]]:
        with self as writer:
            return writer.merge(net)


def rows(*values: tuple[Any, ...], of: TargetTable = TABLE, names: tuple[str, ...] = ()) -> pa.Table:
    kinds = {
        Kind.INT32: pa.int32(),
        Kind.INT64: pa.int64(),
        Kind.DECIMAL: pa.decimal128(10, 2),
        Kind.FLOAT64: pa.float64(),
        Kind.BINARY: pa.binary(),
    }
    names = names or of.columns
    types = [kinds.get(of.type_of(name).kind, pa.string()) for name in names]
    columns = list(zip(*values, strict=True)) if values else [()] * len(names)
    return pa.table({n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)})


def keys(*ids: int) -> pa.Table:
    return rows(*((i,) for i in ids), names=("id",))


def orders(database: Any) -> list[tuple[Any, ...]]:
    found = database.query("""SELECT id, amount::text, "no%te", extra FROM public."Or%ders" ORDER BY id""")
    return [(i, a, n) if e == "kept" else (i, a, n, e) for i, a, n, e in found]


def three(applying: Applying) -> None:
    applying.merge(TableNet(TABLE, inserts=rows((1, Decimal(1), "a"), (2, None, None), (3, Decimal("3.50"), "\\N\t"))))


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    return prepared(target_database)


@pytest.fixture(params=[0, merge_rows.FEW_ROWS], ids=["staged", "few"])
def applying(endpoint: Endpoint, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Applying]:
    """Small net changes go both ways: by a staging table, and row by row."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", request.param)
    made = Applying(endpoint)
    yield made
    made.writer.close()
