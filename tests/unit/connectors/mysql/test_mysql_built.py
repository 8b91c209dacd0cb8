"""Reads statements by which jobs build keys and defaults at a MySQL or MariaDB, and checks what is behind each. No server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.connectors.mysql.target.planned import PlannedKey
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema

INT = LogicalType(Kind.INT64)
CHILD, PARENT = TableId("shop", "chi`ld"), TableId("shop", "parent")
KEY = ForeignKey("k", ("a", "b"), PARENT, ("x", "y"), Action.CASCADE, Action.SET_NULL)
OTHER = ForeignKey("other", ("a",), PARENT, ("x",), Action.CASCADE)
ADD = PlannedKey(
    "k", CHILD, ("A", "b"), PARENT, ("x", "y"), " ON DELETE CASCADE ON UPDATE SET NULL"
).add  # as a job writes it


def table(*keys: ForeignKey, **b: object) -> TableSchema:
    columns = (Column("id", INT, "bigint", nullable=False), Column("a", INT, "bigint"), Column("b", INT, "bigint"))
    columns = (*columns[:2], replace(columns[2], **b))  # type: ignore[arg-type]  # any of a column's facts
    return TableSchema(CHILD, columns, ("id",), foreign_keys=keys)


def built(sql: str, then: TableSchema, now: TableSchema) -> TableSchema | None:
    found = MysqlDialect().built(sql, "shop", then, now)
    assert found is None or (found.untold.built and not found.kinds)
    return found.schema if found else None


def test_rule_21_a_key_comes_as_the_statement_says_whatever_the_catalogue_has_by_now() -> None:
    assert built(f"{ADD} /* anabranch:job */", table(OTHER), table()) == table(OTHER, KEY)
    assert built(ADD, table(KEY, OTHER), table()) == table(KEY, OTHER), "it is known"
    assert built(ADD.replace("CASCADE ON", "SET NULL ON"), table(KEY), table(KEY)) is None, "another one has its name"


def test_rule_21_a_key_goes_by_its_name() -> None:
    drop = "ALTER TABLE `shop`.`chi``ld` DROP FOREIGN KEY `K` /* anabranch:job */"
    assert built(drop, table(KEY, OTHER), table(KEY, OTHER)) == table(OTHER)
    assert built(drop, table(OTHER), table(OTHER)) is None


def test_rule_21_a_default_comes_as_the_catalogue_has_it() -> None:
    sql = "ALTER TABLE `shop`.`chi``ld` ALTER `b` SET DEFAULT (1 + 1) /* anabranch:job */"
    now = table(has_default=True, default=None, default_is_expression=True)
    assert built(sql, table(), now) == now
    assert built(sql, table(), table()) == table(), "it is late: rows do not ask for it"
    assert built(sql, table(), table(nullable=False)) is None, "more of the column is another than that"


@pytest.mark.parametrize(
    ("text", "now", "default"),
    [
        ("1", "2", "1"),
        ("1", None, "1"),  # the catalogue is late
        ("(1)", "1", "1"),  # as a MariaDB shows it
        ("(1)", "2", None),  # a MySQL would have an expression here: not certain
        ("(1 + 1)", "2", None),
        ("NULL", "2", None),
        ("'1'", "2", "2"),  # what the server makes of such a constant is not certain
        ("1.5", "2", "2"),
    ],
)
def test_rule_21_a_later_default_of_the_catalogue_is_left_to_its_own_statement(
    text: str, now: str | None, default: str | None
) -> None:
    """Take the constant that the statement says, and keep the former default where it says an expression."""
    later = table(has_default=True, default=now)
    sql = f"ALTER TABLE `shop`.`chi``ld` ALTER `b` SET DEFAULT {text} /* anabranch:job */"
    found = built(sql, table(), later)
    assert found is not None
    assert found == table(has_default=default is not None or text == "NULL", default=default)


@pytest.mark.parametrize(
    ("text", "now", "default"), [("'a'", "b", "a"), ("'a '", "b", "b"), ("'a\\\\b'", "b", "b"), ("1", "b", "b")]
)
def test_rule_21_a_text_for_default_is_what_the_statement_says(text: str, now: str, default: str) -> None:
    facts = {"type": LogicalType(Kind.TEXT), "native": "varchar(9)", "has_default": True}
    sql = f"ALTER TABLE `shop`.`chi``ld` ALTER `b` SET DEFAULT {text} /* anabranch:job */"
    then = table(**facts, default="z")
    assert built(sql, then, table(**facts, default=now)) == table(**facts, default=default)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE `shop`.`chi``ld` ADD COLUMN c int",
        f"{ADD}, ADD COLUMN c int",
        ADD.replace(" ON UPDATE SET NULL", " ON UPDATE SET DEFAULT"),
        ADD.replace(" ON UPDATE SET NULL", " ON UPDATE"),
        ADD.replace("(`A`, `b`)", "(`A`, `nobody`)"),
        ADD.replace("(`A`, `b`)", "(`A`(3), `b`)"),
        ADD.replace("CONSTRAINT `k` ", ""),
        ADD.replace(" REFERENCES `shop`.`parent`", ""),
        f"{ADD} NOT ENFORCED",
        ADD[:60],
        "ALTER TABLE `shop`.`chi``ld` DROP FOREIGN KEY `k`, ALGORITHM = INPLACE",
        "ALTER TABLE `shop`.`chi``ld` DROP FOREIGN KEY",
        "ALTER TABLE `shop`.`chi``ld` ALTER `nobody` SET DEFAULT 1",
        "CREATE INDEX i ON `shop`.`chi``ld` (a)",
        "DROP TABLE `shop`.`chi``ld`",
        "ALTER TABLE `shop`.`chi``ld` COMMENT 'it\\'s', DROP FOREIGN KEY `k`",
        "",
    ],
)  # fmt: skip
def test_rule_21_no_other_statement_is_taken_for_one(sql: str) -> None:
    assert built(sql, table(KEY) if "DROP" in sql else table(), table()) is None
