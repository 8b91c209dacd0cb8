"""Definitions behind an ALTER TABLE that adds columns: what the statement says and the catalogue has by now, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import AlteringDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID = Column("id", INT, "int", nullable=False)
V = Column("v", TEXT, "varchar(20)", has_default=True, charset="utf8mb4")
THEN = TableSchema(TableId("shop", "item"), (ID, V), ("id",), version=3, engine="InnoDB")


def int_column(name: str, default: str | None = None, nullable: bool = True, native: str = "int") -> Column:
    return Column(name, INT, native, nullable, has_default=nullable or default is not None, default=default)


N = int_column("n", "5", nullable=False)
NOTE = Column("note", TEXT, "text", has_default=True, charset="utf8mb4", comment="new")
NOW = replace(THEN, columns=(N, ID, NOTE, V, int_column("x")), version=1)


def behind(clauses: str, now: TableSchema = NOW) -> list[str] | None:
    dialect = MysqlDialect()
    assert isinstance(dialect, AlteringDialect)
    found = dialect.altered(f"ALTER TABLE shop.item {clauses}", "", THEN, now)
    assert found is None or (found.schema.version, found.schema.primary_key) == (THEN.version, THEN.primary_key)
    assert found is None or found.kinds == {ColumnChange.ADD}
    return [column.name for column in found.schema.columns] if found else None


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        ("ADD COLUMN n INT NOT NULL DEFAULT 5", ["id", "v", "n"]),
        ("ADD `n` INTEGER(11) DEFAULT '5' NOT NULL", ["id", "v", "n"]),
        ("ADD COLUMN N int(9) signed NOT NULL DEFAULT +5 FIRST", ["n", "id", "v"]),
        ("ADD note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a, (b' AFTER `ID`", ["id", "note", "v"]),
        ("ADD COLUMN x INT, ADD COLUMN n INT NOT NULL DEFAULT 5 AFTER x, ALGORITHM=INSTANT, LOCK = NONE",
         ["id", "v", "x", "n"]),
        ("ADD (x INT NULL DEFAULT NULL, n INT NOT NULL DEFAULT 5)", ["id", "v", "x", "n"]),
        ("/*!80000 ADD x INT */", ["id", "v", "x"]),
        ("ADD x INT;", ["id", "v", "x"]),
    ],
)  # fmt: skip
def test_columns_stand_where_the_statement_says(clauses: str, columns: list[str]) -> None:
    assert behind(clauses) == columns


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD COLUMN gone INT",  # the catalogue has it no longer
        "ADD COLUMN v INT",  # it was there before: nothing the log could have
        "ADD COLUMN n INT NOT NULL",  # the catalogue has a default: another statement came
        "ADD COLUMN n INT DEFAULT 5",  # and here it said NULL
        "ADD COLUMN x INT DEFAULT 1",
        "ADD COLUMN x BIGINT",
        "ADD COLUMN x INT UNSIGNED",
        "ADD COLUMN x INT ZEROFILL",
        "ADD COLUMN n INT NOT NULL DEFAULT 6",
        "ADD COLUMN n INT NOT NULL DEFAULT 4.7",
        "ADD COLUMN n INT NOT NULL DEFAULT 0x5",
        "ADD COLUMN note TEXT CHARACTER SET latin1",
        "ADD COLUMN note VARCHAR(20)",
        "ADD COLUMN x INT COMMENT 'a\\', ADD COLUMN n INT COMMENT ''",
        "ADD COLUMN x INT DEFAULT (1)",
        "ADD COLUMN x INT DEFAULT CURRENT_TIMESTAMP",
        "ADD COLUMN x INT DEFAULT 1e3",
        "ADD COLUMN x INT UNIQUE",
        "ADD COLUMN x INT PRIMARY KEY",
        "ADD COLUMN x INT REFERENCES other (id)",
        "ADD COLUMN x INT GENERATED ALWAYS AS (id + 1)",
        "ADD COLUMN x INT AFTER nowhere",
        "ADD COLUMN x INT, DROP COLUMN v",
        "ADD COLUMN x INT, ADD INDEX (x)",
        "ADD COLUMN IF NOT EXISTS x INT",
        "ADD COLUMN x",
        "ADD",
        "ADD COLUMN x INT COMMENT",
        "ALGORITHM=INPLACE",
        "",
    ],
)
def test_what_is_not_certain_is_nothing(clauses: str) -> None:
    assert behind(clauses) is None


def test_what_rows_that_are_there_get_has_to_be_known() -> None:
    """NOT NULL without a default: the server takes what it has for nothing. Values that it computes are its own."""
    for column in (
        int_column("x", nullable=False),
        replace(int_column("x"), auto_increment=True),
        replace(int_column("x"), default="now()", default_is_expression=True),
        replace(int_column("x"), generated=True),
        replace(int_column("x"), invisible=True),
        replace(int_column("x"), type=None, refusal="not known"),
    ):
        clause = "ADD x INT" + (" NOT NULL" if not column.nullable else "")
        assert behind(clause, replace(NOW, columns=(*THEN.columns, column))) is None


def test_a_table_that_keeps_its_history_goes_another_way() -> None:
    then = replace(THEN, row_end="row_end")
    assert MysqlDialect().altered("ALTER TABLE shop.item ADD x INT", "", then, NOW) is None
    assert MysqlDialect().altered("CREATE INDEX x ON shop.item (x)", "", THEN, NOW) is None
    assert MysqlDialect().altered("ALTER IGNORE TABLE shop.item ADD x INT", "", THEN, NOW) is None


@pytest.mark.parametrize(
    ("clause", "native", "default", "is_known"),
    [
        ("DECIMAL", "decimal(10,0)", None, True),
        ("NUMERIC(9, 2) UNSIGNED DEFAULT 1.50", "decimal(9,2) unsigned", "1.50", True),
        ("DECIMAL(9,2) DEFAULT 1.5", "decimal(9,3)", "1.500", False),
        ("ENUM('a','b''c') DEFAULT 'a'", "enum('a','b''c')", "a", True),
        ("ENUM('b','a')", "enum('a','b')", None, False),
        ("CHAR DEFAULT ''", "char(1)", "", True),
        ("VARCHAR(20) DEFAULT 'x'", "varchar(20)", "x", True),
        ("VARCHAR(20) DEFAULT 'x'", "varchar(20)", "y", False),
        ("VARCHAR(20) CHARSET utf8mb4 COLLATE = utf8mb4_bin", "varchar(20)", None, True),
        ("BOOL DEFAULT TRUE", "tinyint(1)", "1", True),
        ("DATETIME(3)", "datetime", None, False),
        ("DATE DEFAULT '2024-2-29'", "date", "2024-02-29", False),
        ("YEAR DEFAULT 2024", "year", "2024", True),
        ("YEAR DEFAULT 2024", "year(4)", "2024", True),
        ("YEAR DEFAULT 70", "year", "1970", False),
        ("BIT(3)", "bit(3)", None, True),
        ("BIT(3) DEFAULT 5", "bit(3)", "000", False),  # b'000' has been set since
        ("TIMESTAMP DEFAULT '2024-01-01 00:00:00'", "timestamp", "2024-01-01 00:00:00.000000+00", False),
        ("DATETIME DEFAULT '2024-01-01 00:00:00'", "datetime", "2024-01-01 00:00:00.000000", True),
        ("VARCHAR(20) DEFAULT 'a\\b'", "varchar(20)", "a\\b", False),
        ("ENUM('a\\b')", "enum('a\\b')", None, False),
    ],
)
def test_types_and_defaults_are_those_of_the_catalogue(
    clause: str, native: str, default: str | None, is_known: bool
) -> None:
    from anabranch.connectors.mysql.source.typemap import NativeType, logical_type

    kind, _, rest = native.partition("(")
    sizes = [int(size) for size in rest.split(")")[0].split(",") if size.isdigit()]
    precision, scale = [*sizes, 0, 0][:2]
    type = logical_type(NativeType(kind, native, "utf8mb4", length=precision or None, precision=precision, scale=scale))
    is_text = kind in ("char", "varchar", "enum")
    column = Column("x", type, native, has_default=True, default=default, charset="utf8mb4" if is_text else "")
    found = behind(f"ADD x {clause}", replace(NOW, columns=(*THEN.columns, column)))
    assert found == (["id", "v", "x"] if is_known else None)


def test_a_text_without_a_character_set_is_known_by_the_others_of_its_table() -> None:
    then = replace(THEN, columns=(ID,))
    dialect = MysqlDialect()
    json = Column("j", LogicalType(Kind.TEXT), "longtext", has_default=True, charset="utf8mb4")
    now = replace(NOW, columns=(*NOW.columns, json))
    assert dialect.altered("ALTER TABLE shop.item ADD j JSON", "", then, now) is not None
    assert dialect.altered("ALTER TABLE shop.item ADD note TEXT", "", then, NOW) is None
    found = dialect.altered("ALTER TABLE shop.item ADD note TEXT CHARACTER SET utf8mb4", "", then, NOW)
    assert found is not None and found.schema.columns == (ID, NOTE)
