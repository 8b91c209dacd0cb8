"""Which secondary indexes PostgreSQL gets, and how."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.indexes import plan_index, plan_indexes
from anabranch.connectors.postgresql.target.planned import Planned
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable

COLUMNS = (
    Column("id", LogicalType(Kind.INT32), "int", nullable=False),
    Column("name", LogicalType(Kind.TEXT, 50), "varchar(50)"),
    Column("body", LogicalType(Kind.TEXT), "text"),
    Column("born", LogicalType(Kind.DATE), "date"),
    Column("a", LogicalType(Kind.TEXT, 600), "varchar(600)"),
    Column("b", LogicalType(Kind.TEXT, 600), "varchar(600)"),
    Column("raw", LogicalType(Kind.BINARY, 3000), "varbinary(3000)"),
    Column("size", LogicalType(Kind.ENUM, values=("S", "L")), "enum('S','L')"),
)
ORDERS = TableSchema(TableId("shop", "orders"), COLUMNS, ("id",))
NAMES = tuple(c.name for c in COLUMNS)
TARGET = TargetTable(
    ORDERS.id,
    TableId("public", 'or"ders'),
    tuple("full name" if name == "name" else name for name in NAMES),
    tuple(c.type for c in COLUMNS if c.type),
    ("id",),
    NAMES,
)


def test_long_index_names_stay_apart() -> None:
    one, two = (plan_index(Index("i" * 70 + c, ("name",)), ORDERS, TARGET) for c in "ab")
    assert one.name != two.name
    assert len(one.name.encode()) <= 63 and len(ddl.shortened("ü" * 60).encode()) <= 63


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (Index("i", ("body",), kind="FULLTEXT"), "kind FULLTEXT"),
        (Index("i", ("gone",)), "gone of shop.orders is not a replicated column"),
        (Index("i", ("body",), prefixes=(700,)), "longer than the 2704 bytes"),
        (Index("i", ("born",), prefixes=(3,), unique=True), "the first 3 of born"),
    ],
)
def test_indexes_that_are_not_carried(index: Index, reason: str) -> None:
    with pytest.raises(NotCarried, match=reason):
        plan_index(index, ORDERS, TARGET)


def test_index_over_a_prefix_of_a_short_column_takes_all_of_it() -> None:
    planned = plan_index(Index("by_name", ("name", "id"), prefixes=(10, None), kind="BTREE"), ORDERS, TARGET)
    assert planned.sql_index(TARGET.target, planned.name) == (
        'CREATE INDEX CONCURRENTLY "or""ders_by_name" ON "public"."or""ders" ("full name", "id")'
    )


def test_the_beginning_of_a_value_whose_type_the_job_chooses() -> None:
    chosen = replace(TARGET, types=tuple(replace(type, target="uuid") for type in TARGET.types))
    with pytest.raises(NotCarried, match="the job chooses uuid"):
        plan_index(Index("i", ("name",), True, (5,)), ORDERS, chosen)


def parts(*columns: str, schema: TableSchema = ORDERS, **more: object) -> str:
    table = replace(TARGET, types=tuple(c.type for c in schema.columns if c.type))
    planned = plan_index(Index("i", columns, **more), schema, table)
    return planned.sql_index(TARGET.target, "i").partition(" ON ")[2].partition(" (")[2].removesuffix(")")


def test_prefixes_and_directions() -> None:
    assert parts("body", prefixes=(20,)) == '"left"("body", 20)'
    assert parts("id", "name", unique=True, prefixes=(None, 5)) == '"id", "left"("full name", 5)'
    assert parts("name", "id", prefixes=(5, None), descending=(True, False)) == '"full name" DESC, "id"'
    assert parts("id", "body", prefixes=(None, 9), descending=(False, True)) == '"id", "left"("body", 9) DESC'


def test_a_row_of_an_index_fits_a_page_whatever_its_values() -> None:
    assert parts("a", "b", prefixes=(10, 10)) == '"left"("a", 10), "b"'
    assert parts("raw", "a", prefixes=(100, 10)) == 'substring("raw" FROM 1 FOR 100), "a"'
    assert parts("a", "born", "size", "id") == '"a", "born", "size", "id"'
    for columns in (("a", "b"), ("body",), ("raw",), ("a", "raw")):
        for unique in (False, True):
            with pytest.raises(NotCarried, match="longer than the 2704 bytes"):
                parts(*columns, unique=unique, kind="hash")
    with pytest.raises(NotCarried, match="longer than the 2704 bytes"):
        parts("a", "b", prefixes=(10, None), schema=of_length(674))
    assert parts("a", schema=of_length(673)) == '"a"'
    with pytest.raises(NotCarried):
        parts("a", schema=of_length(674))
    short = replace(ORDERS, columns=tuple(replace(c, character_bytes=1) for c in COLUMNS))
    assert parts("a", "b", schema=short) == '"a", "b"'


def of_length(length: int) -> TableSchema:
    texts = LogicalType(Kind.TEXT, length)
    return replace(ORDERS, columns=tuple(replace(c, type=texts) if c.name in "ab" else c for c in COLUMNS))


def served(*indexes: Index, keys: tuple[ForeignKey, ...] = ()) -> list[str]:
    found = plan_indexes(replace(ORDERS, indexes=indexes, foreign_keys=keys), TARGET)
    return [planned.served_by for _, planned in found if isinstance(planned, Planned)]


def test_of_indexes_that_serve_the_same_one_is_built() -> None:
    plain, again, unique = Index("x", ("name",)), Index("y", ("name",)), Index("u", ("name",), True)
    assert served(plain, again, Index("k", ("id",), True)) == ["", "x", "the primary key"]
    assert served(plain, unique) == ["", ""] and served(unique, plain) == ["", "u"]
    assert served(Index("d", ("name",), descending=(True,)), plain) == ["", ""]
    assert served(Index("p", ("body",), prefixes=(9,)), Index("q", ("body",), prefixes=(9,))) == ["", "p"]
    key = ForeignKey("f", ("name",), TableId("shop", "p"), ("code",), Action.CASCADE)
    assert served(unique, plain, again, keys=(key,)) == ["", "", "x"]
