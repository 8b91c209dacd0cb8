"""Preflight of a MySQL or MariaDB target whose tables are to be made: names, and sizes of rows and keys as the servers judge
them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pymysql
import pytest

from anabranch import connectors
from anabranch.connectors.mysql.target import row_sizes
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.ddl import create_table
from anabranch.connectors.mysql.target.preflight_sizes import row_size
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import connect as connect_target
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.preflight_mysql import (
    ID,
    WORD,
    Make,
    checked,
    one,
    table,
    target_of,
)

pytestmark = pytest.mark.every_server("fractions")


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Database:
    return source_database(mysql_family)


def test_mysql_target_names(database: Database) -> None:
    long = "n" * 65
    found = checked(database, table(ID, Column(long, WORD, "varchar(40)")), table(name="t" * 65))
    assert [r.verdict for r in found["names"]] == ["failed", "failed"]
    assert "columns.rename" in found["names"][0].hint and "[[rules]] include" in found["names"][1].hint


def test_mysql_target_names_that_differ_by_their_case(database: Database) -> None:
    folds = int(database.query("SELECT @@lower_case_table_names")[0][0]) != 0
    found = checked(database, table(name="orders"), table(name="Orders"))
    assert ("names" in found) == folds


def test_pitfall_61_mysql_target_columns_that_differ_by_their_case(database: Database) -> None:
    """PostgreSQL has such tables. The server refuses them, and so does preflight; nobody takes the refusal for a table."""
    schema = table(ID, Column("a", WORD, "varchar(40)"), Column("A", WORD, "varchar(40)"))
    found = checked(database, schema)
    assert [r.verdict for r in found["names"]] == ["failed"] and '{ "A" = "A_2" }' in found["names"][0].hint
    target = target_of(schema, database.name)
    made = connectors.row_target(endpoint_of(database)).tables(ValueRules())
    with closing(made) as tables, pytest.raises(TargetError, match="Duplicate column name"):
        tables.create_table(schema, target, ValueRules(), False)


def test_a_table_without_columns_is_refused(database: Database) -> None:
    """PostgreSQL has such tables, and preflight ended with an error of its own over one."""
    (found,) = checked(database, table(key=(), columns=()))["columns"]
    assert found.verdict == "failed" and "no columns" in found.message and "exclude" in found.hint


def wide(count: int, length: int) -> TableSchema:
    columns = (Column(f"c{n}", LogicalType(Kind.TEXT, length=length), f"varchar({length})") for n in range(count))
    return table(ID, *columns)


ROWS = [(4, 4000), (5, 4000), (3, 5461), (20, 800), (21, 800)]
ROWS += [(12, 63), (33, 63), (99, 20), (100, 20)]  # MariaDB keeps values of up to 255 bytes together
ROWS += [(196, 63), (197, 63), (300, 12), (150, 13), (190, 20), (191, 300), (25, 255), (31, 64), (32, 63)]


def test_mysql_target_row_size_as_the_server_judges(database: Database) -> None:
    """Either limit: a table that preflight lets pass can be made, and one that it refuses cannot."""
    for count, length in ROWS:
        schema = wide(count, length)
        refused = "row_size" in checked(database, schema)
        assert (made_at(database, schema) == 1118) == refused, (count, length)


@pytest.mark.every_server("generated columns")
def test_mysql_target_row_size_of_what_is_computed(database: Database) -> None:
    """A column that is stored takes room as all others do; one that is not counts for the first limit alone."""
    for length, count, limits in ((3000, 4, 0), (3000, 5, 1), (63, 199, 2)):
        text = LogicalType(Kind.TEXT, length=length)
        base = Column("c", text, f"varchar({length})", charset="utf8mb4", collation="utf8mb4_bin")
        for stored in (True, False):
            computed = replace(base, generated=True, computed_from=("c",), stored=stored)
            made = [replace(computed, name=f"g{n}", expression=f"concat(`c`,{n})") for n in range(count)]
            schema = table(ID, base, *made)
            refused = "row_size" in checked(database, schema, computes=True)
            assert refused == (limits == 1 or (limits == 2 and stored)), (length, count, stored)
            assert (made_at(database, schema, computes=True) == 1118) == refused, (length, count, stored)


def made_at(database: Database, schema: TableSchema, computes: bool = False) -> int:
    """The error of the server that is to make a table, 0 for none. It is gone then."""
    with closing(connect_target(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        target = target_of(schema, database.name, computes)
        statement = create_table(schema, target, ValueRules(), Release.of(connection))
    try:
        database.execute("SET SESSION innodb_strict_mode = ON", statement, f"DROP TABLE {schema.id.name}")
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


def test_mysql_target_row_size_says_which_column_to_change(database: Database) -> None:
    result = one(checked(database, wide(5, 4000)), "row_size")
    assert result.verdict == "failed" and "65,535" in result.message
    assert result.hint == '[[tables]] name = "shop.orders", columns.type = { "c0" = "text" }'


def test_mysql_target_row_size_of_small_pages() -> None:
    columns = [MadeColumn(f"c{n}", f"c{n}", "varchar(40)", True, "utf8mb4") for n in range(100)]
    assert list(row_size(target_of(table(), "d"), columns, 16_384, "mysql")) == []
    (found,) = row_size(target_of(table(), "d"), columns, 8192, "mysql")
    assert f"{row_sizes.page_room(8192):,}" in found.message and row_sizes.page_room(16_384) == 8126


def test_mysql_target_key_size_as_the_server_judges(database: Database) -> None:
    """3,072 bytes of an index row; of a column 767 before MySQL 5.7."""
    last, refusal = (768, 1071) if knows(database.server, "JSON") else (191, 1709)
    for length in (last, last + 1):
        schema = table(
            Column("id", LogicalType(Kind.TEXT, length=length), f"varchar({length})", nullable=False, charset="utf8mb4",
                   collation="utf8mb4_bin"),
        )  # fmt: skip
        found = [r for r in checked(database, schema).get("key", []) if r.verdict == "failed"]
        assert (made_at(database, schema) == refusal) == bool(found) == (length > last)
        assert all("columns.type" in one.hint for one in found)
        assert refusal != 1071 or all("3,072" in one.message for one in found)


def test_mysql_target_says_which_length_a_key_gives(database: Database) -> None:
    text = table(
        Column("id", LogicalType(Kind.TEXT, native="text"), "text", nullable=False), engine="", dialect="postgresql"
    )
    found = [r for r in checked(database, text).get("key", []) if r.verdict == "warning"]
    assert found and "the primary key" in found[0].message


def test_mysql_target_keys_where_blanks_do_not_count(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL 5.6 has no collation in which they do; of the others it is taken away."""
    schema = table(Column("id", WORD, "text", nullable=False), engine="", dialect="postgresql")
    if knows(database.server, "utf8mb4_0900_bin"):
        assert "collations" not in checked(database, schema)
        old = Release.of
        padded = frozenset(("utf8mb4_bin", "utf8mb4_general_ci"))
        monkeypatch.setattr(Release, "of", classmethod(lambda cls, c: replace(old(c), collations=padded)))
    result = one(checked(database, schema), "collations")
    assert (result.verdict, result.names) == ("warning", ("shop.orders.id",))


def test_mysql_target_types_and_what_is_not_carried(database: Database) -> None:
    place = Index("i", ("name",), kind="gist", definition="USING gist (name)")
    found = checked(database, table(indexes=(place,)))
    assert one(found, "types").verdict == "ok"
    assert one(found, "indexes").verdict == "warning" and one(found, "indexes").names == ("shop.orders.i",)


def test_mysql_target_made_columns_have_sizes(database: Database) -> None:
    """Every type that the type map makes has a size here."""
    with closing(connect_target(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        release = Release.of(connection)
    kinds = [
        LogicalType(kind, length=8, precision=10, scale=2, values=("a", "b"))
        for kind in Kind
        if kind is not Kind.VECTOR
    ]
    columns = [Column(f"c{n}", type, str(type)) for n, type in enumerate(kinds)]
    schema = table(ID, *columns)
    made = made_columns(schema, target_of(schema, database.name), ValueRules(), release)
    assert all(0 < row_sizes.row_bytes([column]) < 4000 for column in made)
    assert all(row_sizes.page_bytes(made, ("id",), family) < 8126 for family in row_sizes.APART)
