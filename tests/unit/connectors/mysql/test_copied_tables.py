"""Copies that tools make of a table: what they come in as, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import CopyingDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
COLUMNS = (
    Column("id", INT, "int", nullable=False, auto_increment=True),
    Column("v", TEXT, "varchar(20)", has_default=True, charset="utf8mb4"),
    Column("e", TEXT, "enum('a','B')", nullable=False, charset="utf8mb4"),
)
UNIQUE = Index("u", ("e", "v"), unique=True, prefixes=(None, 10))
THEN = TableSchema(TableId("shop", "item"), COLUMNS, ("id",), version=3, engine="InnoDB")
N = Column("n", INT, "int", has_default=True, default="5")
NOW = replace(THEN, columns=(*COLUMNS, N))
SHOWN = "`id` int NOT NULL AUTO_INCREMENT,\n  `v` varchar(20) DEFAULT NULL,\n  `e` enum('a','B') NOT NULL"
KEYS = "PRIMARY KEY (`id`),\n  KEY `by_v` (`v`)"


def dialect() -> CopyingDialect:
    made = MysqlDialect()
    assert isinstance(made, CopyingDialect)
    return made


@pytest.mark.parametrize(
    ("statement", "is_copy"),
    [
        ("create /* gh-ost */ table `shop`.`_item_gho` like `shop`.`item`", True),
        ("CREATE TABLE _item_gho (LIKE item)", True),
        ("CREATE TABLE _item_gho LIKE other", False),
        ("CREATE TABLE IF NOT EXISTS _item_gho LIKE item", False),
        ("CREATE OR REPLACE TABLE _item_gho LIKE item", False),
        (f"CREATE TABLE `shop`.`_item_new` (\n  {SHOWN},\n  {KEYS}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", True),
        (f"CREATE TABLE _item_new ({SHOWN}, `n` int, {KEYS}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN.replace('varchar(20)', 'varchar(9)')}, {KEYS}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN.replace('DEFAULT NULL', 'NOT NULL')}, {KEYS}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN.replace('B', 'b')}, {KEYS}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}) engine innobase", True),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}) ENGINE=MyISAM", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS})", False),  # the server's usual one, which may be any
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}, UNIQUE KEY u (`e`,`v`(10) DESC) USING BTREE) ENGINE=InnoDB", True),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}, CONSTRAINT u UNIQUE (e)) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}, UNIQUE KEY u (`e`,`v`(9))) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}, UNIQUE KEY u ((lower(`v`)))) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN.replace('DEFAULT NULL', 'UNIQUE')}, {KEYS}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS.replace('`id`', '`e`')}) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}, CHECK (id > 0)) ENGINE=InnoDB", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}) ENGINE=InnoDB START TRANSACTION", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}) ENGINE=InnoDB SELECT * FROM item", False),
        (f"CREATE TABLE _item_new ({SHOWN}, {KEYS}) ENGINE=InnoDB PARTITION BY HASH (id)", False),
        ("CREATE TABLE _item_new SELECT * FROM item", False),
        ("CREATE TABLE", False),
        ("DROP TABLE item", False),
    ],
)
def test_a_copy_has_the_definition_of_its_table(statement: str, is_copy: bool) -> None:
    assert dialect().copies(statement, "shop", replace(THEN, indexes=(UNIQUE,))) is is_copy


@pytest.mark.parametrize(
    ("clauses", "kinds"),
    [
        ("ADD COLUMN n INT DEFAULT 5", {ColumnChange.ADD}),
        (
            "ADD COLUMN n INT DEFAULT 5, ADD INDEX by_n (n), DROP KEY by_v, ALGORITHM=INPLACE",
            {ColumnChange.ADD, ColumnChange.INDEXES},
        ),
        ("ADD INDEX by_id (id, v(3) DESC)", {ColumnChange.INDEXES}),
        ("ADD INDEX ((UPPER(v)))", set()),
        ("DROP COLUMN v", {ColumnChange.DROP}),
        ("ENGINE=InnoDB", set()),
        ("FORCE, ROW_FORMAT=DYNAMIC", set()),
        ("AUTO_INCREMENT=17", set()),
        ("ADD FULLTEXT KEY (v), COMMENT 'UNIQUE'", set()),
        # a row that the copy does not take is left out without a word
        ("ADD UNIQUE KEY (v)", None),
        ("ADD COLUMN n INT DEFAULT 5, ADD UNIQUE (v)", None),
        ("ADD CONSTRAINT CHECK (id > 0)", None),
        ("PARTITION BY HASH (id)", None),
        ("ENGINE=InnoDB PARTITION BY HASH (id)", None),
        ("DROP PRIMARY KEY", None),
        ("DROP INDEX `primary`", None),
        ("DROP KEY IF EXISTS `PRIMARY`", None),
        ("DROP KEY IF EXISTS by_v", set()),
        ("ADD COLUMN n INT DEFAULT 5 UNIQUE", None),
        # or is changed by it
        ("ENGINE=MEMORY", None),
        ("CONVERT TO CHARACTER SET latin1", None),
        ("CHARACTER SET latin1", None),
        ("MODIFY id SMALLINT", None),
        # one that a tool may take for two others
        ("CHANGE v w VARCHAR(20)", None),
        ("RENAME COLUMN v TO w", None),
        ("DROP", None),
        ("", None),
    ],
)
def test_a_copy_is_altered(clauses: str, kinds: set[ColumnChange] | None) -> None:
    found = dialect().copy_altered(f"alter /* gh-ost */ table _item_gho {clauses}", "shop", THEN, NOW)
    assert (None if found is None else found.kinds) == kinds


@pytest.mark.parametrize(
    ("then", "clauses", "kinds"),
    [
        (THEN, "DROP KEY u", {ColumnChange.UNIQUE_KEYS}),
        (THEN, "DROP INDEX IF EXISTS u, ADD KEY u (v)", {ColumnChange.INDEXES, ColumnChange.UNIQUE_KEYS}),
        (replace(THEN, primary_key=()), "DROP KEY u", None),  # rows are told apart by it
        (replace(THEN, primary_key=()), "ADD KEY by_v (v)", {ColumnChange.INDEXES}),
        (THEN, "DROP KEY f", None),  # whether the target has it is not known
        (THEN, "DROP KEY words", set()),
        (THEN, "RENAME INDEX u TO w", None),
    ],
)
def test_unique_keys_of_a_copy_only_go(then: TableSchema, clauses: str, kinds: set[ColumnChange] | None) -> None:
    over = Index("f", (), unique=True, parts=("lower(`v`)",))
    then = replace(then, indexes=(UNIQUE, over, Index("words", ("v",), kind="fulltext")))
    found = dialect().copy_altered(f"ALTER TABLE _item_gho {clauses}", "shop", then, then)
    assert (None if found is None else found.kinds) == kinds


def test_a_check_that_a_mariadb_gives_to_json_is_none_of_the_table() -> None:
    shown = (
        "CREATE TABLE _item_new (`id` int NOT NULL, `j` longtext DEFAULT NULL CHECK (json_valid(`j`))) ENGINE=InnoDB"
    )
    column = Column("j", LogicalType(Kind.JSON), "longtext", has_default=True, charset="utf8mb4")
    then = replace(THEN, columns=(COLUMNS[0], column))
    assert dialect().copies(shown, "shop", then)
    assert not dialect().copies(shown, "shop", replace(then, columns=(COLUMNS[0], replace(column, type=TEXT))))
