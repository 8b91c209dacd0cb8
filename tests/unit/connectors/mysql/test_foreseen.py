"""Foresee a table behind a statement that nobody has run: capture would read the statement in the same way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.schema_changes import changes

WORD = Column("word", LogicalType(Kind.TEXT, length=9), "varchar(9)", charset="latin1", collation="latin1_swedish_ci")
THEN = TableSchema(
    TableId("shop", "orders"), (Column("id", LogicalType(Kind.INT32), "int", nullable=False), WORD), ("id",)
)
# Clauses behind ALTER TABLE orders -> what differs then
FORESEEN = {
    "ADD n INT DEFAULT 5": ["+ column n: int NULL DEFAULT '5'"],
    "ADD COLUMN n BIGINT(20) UNSIGNED NOT NULL DEFAULT '7' FIRST": [
        "+ column n: bigint(20) unsigned NOT NULL DEFAULT '7'"
    ],
    "ADD (p DECIMAL DEFAULT 1.5, q NUMERIC(9,2) DEFAULT -2)": [
        "+ column p: decimal(10,0) NULL DEFAULT '2'",
        "+ column q: decimal(9,2) NULL DEFAULT '-2.00'",
    ],
    "ADD t TEXT, ALGORITHM=INSTANT": ["+ column t: text COLLATE latin1_swedish_ci NULL"],
    "ADD c CHAR CHARACTER SET utf8mb4": ["+ column c: char(1) NULL"],
    "ADD e ENUM('a','it''s') NOT NULL DEFAULT 'a'": [
        "+ column e: enum('a','it''s') COLLATE latin1_swedish_ci NOT NULL DEFAULT 'a'"
    ],
    "ADD k INT COMMENT 'Its own'": ["+ column k: int NULL COMMENT 'Its own'"],
    "ADD d DATE DEFAULT '2024-02-29' AFTER id": ["+ column d: date NULL DEFAULT '2024-02-29'"],
}
NOT_FORESEEN = (
    "ADD n INT, ADD FULLTEXT KEY k (n)",
    "ADD n INT DEFAULT (1 + 1)",
    "ADD n INT AS (id) STORED",
    "ORDER BY id",
    "ADD",
)


@pytest.mark.parametrize(("clauses", "expected"), FORESEEN.items(), ids=str)
def test_a_statement_tells_its_columns(clauses: str, expected: list[str]) -> None:
    sql, dialect = f"ALTER TABLE orders {clauses}", MysqlDialect()
    foreseen = dialect.foreseen(sql, "shop", THEN)
    assert foreseen is not None
    assert list(map(str, changes(THEN, foreseen))) == expected


def test_a_comment_alone_lets_the_table_go_on_as_it_will() -> None:
    sql, dialect = "ALTER TABLE orders MODIFY word VARCHAR(9) NULL COMMENT 'new'", MysqlDialect()
    then = replace(THEN, columns=(THEN.columns[0], replace(WORD, has_default=True)))
    foreseen = dialect.foreseen(sql, "shop", then)
    assert foreseen is not None
    altered = dialect.altered(sql, "shop", then, foreseen)
    assert (
        altered is not None and altered.kinds == {ColumnChange.COMMENTS} and altered.schema.columns[1].comment == "new"
    )


@pytest.mark.parametrize(
    "clauses",
    ["ADD n INT DEFAULT 5", "ADD t TEXT", "ADD e ENUM('a','b') FIRST, ADD d DATE AFTER id", "ADD n INT, ADD KEY (n)"],
)
def test_what_capture_makes_of_it_is_made_of_what_is_foreseen(clauses: str) -> None:
    sql, dialect = f"ALTER TABLE orders {clauses}", MysqlDialect()
    foreseen = dialect.foreseen(sql, "shop", THEN)
    assert foreseen is not None
    altered = dialect.altered(sql, "shop", THEN, foreseen)
    assert altered is not None
    assert {column.name: column for column in altered.schema.columns} == {c.name: c for c in foreseen.columns}


@pytest.mark.parametrize("clauses", NOT_FORESEEN)
def test_what_is_not_read_is_not_guessed(clauses: str) -> None:
    sql, dialect = f"ALTER TABLE orders {clauses}", MysqlDialect()
    foreseen = dialect.foreseen(sql, "shop", THEN)
    assert foreseen is None or dialect.altered(sql, "shop", THEN, foreseen) is None


def test_json_of_a_mariadb_is_a_text_that_is_checked() -> None:
    dialect = MysqlDialect()
    dialect.family = "mariadb"
    foreseen = dialect.foreseen("ALTER TABLE orders ADD j JSON", "shop", THEN)
    assert foreseen is not None
    column = foreseen.column("j")
    assert (column.native, column.charset) == ("longtext", "utf8mb4") and column.type == LogicalType(Kind.JSON)
