"""What jobs build at a MySQL or MariaDB, as a reader of its log takes it, without a server: keys that act, and defaults."""

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
