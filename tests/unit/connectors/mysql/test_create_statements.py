"""CREATE TABLE as people write it: does it make just the table that the catalogue has?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import CreatingDialect
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

INT, TEXT, CLOCK = LogicalType(Kind.INT32), LogicalType(Kind.TEXT), LogicalType(Kind.TIMESTAMP)
UTF8 = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
COLUMNS = (
    Column("id", INT, "int unsigned", nullable=False, auto_increment=True),
    Column("v", TEXT, "varchar(20)", nullable=False, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    Column("d", LogicalType(Kind.DECIMAL, precision=10, scale=0), "decimal(10,0)"),
    Column(
        "e", TEXT, "enum('a','b')", charset="utf8mb4", collation="utf8mb4_0900_ai_ci", has_default=True, default="a"
    ),
    Column("on", INT, "tinyint(1)"),
)
BY_V = Index("v", ("v",), unique=True, prefixes=(None,))
NOW = TableSchema(TableId("shop", "item"), COLUMNS, ("id",), indexes=(BY_V,), engine="InnoDB")
OTHER = replace(NOW, id=TableId("shop", "other"))
ID = "id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT"
ALL = f"{ID}, v VARCHAR(20) NOT NULL UNIQUE, d NUMERIC, e ENUM ('a', 'b') DEFAULT 'a', `on` BOOLEAN"
KEYED = f"{ALL.replace(' PRIMARY KEY', '').replace(' UNIQUE', '')}, CONSTRAINT PRIMARY KEY USING BTREE (`ID` ASC)"


def _makes(statement: str, now: TableSchema, *known: TableSchema) -> bool:
    dialect = MysqlDialect()
    assert isinstance(dialect, CreatingDialect)
    return dialect.creates(statement, "shop", now, {table.id: table for table in known})


@pytest.mark.parametrize(
    ("statement", "makes"),
    [
        (f"CREATE TABLE item ({ALL})", True),
        (f"CREATE TABLE `shop`.`item` ({ALL}, KEY (d), CONSTRAINT c CHECK (d > 0)) ENGINE=InnoDB COMMENT 'x'", True),
        (f"CREATE TABLE IF NOT EXISTS item ({ALL})", False),
        ("CREATE TABLE /*!32312 IF NOT EXISTS*/ item LIKE other", False),
        (f"create table item ({ALL}, FOREIGN KEY (d) REFERENCES other (d)) PARTITION BY HASH (id)", True),
        (f"CREATE TABLE item ({KEYED}, CONSTRAINT u UNIQUE KEY u (v))", True),
        (f"CREATE TABLE item ({ALL.replace('UNSIGNED', 'unsigned zerofill')})", True),
        ("CREATE TABLE item LIKE other", True),
        ("CREATE TABLE item (LIKE other)", True),
        ("CREATE TABLE item LIKE unknown", False),
        (f"CREATE TABLE item ({ALL}, more INT)", False),
        (f"CREATE TABLE item ({ALL.replace('UNSIGNED ', '')})", False),
        (f"CREATE TABLE item ({ALL.replace('VARCHAR(20)', 'VARCHAR(21)')})", False),
        (f"CREATE TABLE item ({ALL.replace('NUMERIC', 'NUMERIC(10,2)')})", False),
        (f"CREATE TABLE item ({ALL.replace(' v ', ' w ')})", False),
        (f"CREATE TABLE item ({ALL.replace('BOOLEAN', 'BIGINT')})", False),
        (f"CREATE TABLE item ({ALL}) SELECT * FROM other", False),
        (f"CREATE TABLE item ({ALL}) IGNORE AS VALUES ROW(1, 'a', 1, 'a', 1)", False),
        (f"CREATE TABLE item ({ALL}) START TRANSACTION", False),
        (f"CREATE OR REPLACE TABLE item ({ALL})", False),
        ("CREATE TABLE item SELECT * FROM other", False),
        ("CREATE TABLE item (id SERIAL)", False),
        (f"CREATE TABLE item ({ALL}, x INT COMMENT 'it\\'s')", False),
        ("CREATE TABLE item (", False),
        ("CREATE TABLE", False),
        ("DROP TABLE item", False),
    ],
)
def test_a_table_is_what_the_statement_makes(statement: str, makes: bool) -> None:
    assert _makes(statement, NOW, OTHER) is makes


@pytest.mark.parametrize(
    ("written", "else_"),
    [
        ("NOT NULL UNIQUE", "UNIQUE"),
        ("NUMERIC,", "NUMERIC NOT NULL,"),
        ("DEFAULT 'a'", ""),
        ("DEFAULT 'a'", "DEFAULT 'b'"),
        ("DEFAULT 'a'", "DEFAULT (concat('a'))"),
        ("NUMERIC,", "NUMERIC DEFAULT 1,"),
        (" AUTO_INCREMENT", ""),
        (" PRIMARY KEY", " UNIQUE"),
        (" UNIQUE", ""),
        ("NUMERIC,", "NUMERIC UNIQUE,"),
        ("BOOLEAN", "BOOLEAN, UNIQUE (d, v)"),
        ("BOOLEAN", "BOOLEAN, UNIQUE ((d + 1))"),
        (" UNIQUE", ", UNIQUE (v(5))"),
        ("NUMERIC,", "NUMERIC AS (id + 1),"),
        ("NUMERIC,", "NUMERIC INVISIBLE,"),
        ("VARCHAR(20)", "VARCHAR(20) CHARACTER SET latin1"),
        ("VARCHAR(20)", "VARCHAR(20) COLLATE utf8mb4_bin"),
        ("VARCHAR(20)", "VARCHAR(20) BINARY"),
    ],
)
def test_rule_19_a_column_or_key_that_is_another_by_now_parks(written: str, else_: str) -> None:
    assert written in ALL and _makes(f"CREATE TABLE item ({ALL})", NOW, OTHER)
    assert not _makes(f"CREATE TABLE item ({ALL.replace(written, else_, 1)})", NOW, OTHER)


@pytest.mark.parametrize(
    "key",
    [
        "FOREIGN KEY (d) REFERENCES other (d) ON DELETE CASCADE",
        "CONSTRAINT f FOREIGN KEY (d) REFERENCES other (d) ON UPDATE SET NULL",
        "FOREIGN KEY (d) REFERENCES other (d) ON DELETE RESTRICT ON UPDATE CASCADE",
    ],
)
def test_rule_17_a_key_that_acted_and_is_gone_by_now_parks(key: str) -> None:
    """The catalogue does not have it any more; what it did to rows is in no log."""
    assert _makes(f"CREATE TABLE item ({ALL}, FOREIGN KEY (d) REFERENCES other (d) ON DELETE RESTRICT)", NOW, OTHER)
    assert not _makes(f"CREATE TABLE item ({ALL}, {key})", NOW, OTHER)
    inline = ALL.replace("NUMERIC", f"NUMERIC {key[key.index('REFERENCES') :]}")
    assert not _makes(f"CREATE TABLE item ({inline})", NOW, OTHER)


@pytest.mark.parametrize(
    ("options", "charset", "collation", "known", "makes"),
    [
        ("", "utf8mb4", "utf8mb4_0900_ai_ci", [OTHER], True),
        ("", "utf8mb4", "utf8mb4_0900_ai_ci", [], False),
        ("", "utf8mb4", "utf8mb4_0900_ai_ci", [replace(OTHER, id=TableId("else", "other"))], False),
        ("", "latin1", "latin1_swedish_ci", [OTHER], False),
        ("", "utf8mb4", "utf8mb4_bin", [OTHER], False),
        ("DEFAULT CHARSET=utf8mb4", "utf8mb4", "utf8mb4_0900_ai_ci", [], True),
        ("DEFAULT CHARSET=utf8mb4", "utf8mb4", "utf8mb4_bin", [], False),
        ("CHARACTER SET latin1", "latin1", "latin1_swedish_ci", [], True),
        ("CHAR SET = latin1", "utf8mb4", "utf8mb4_0900_ai_ci", [OTHER], False),
        ("CHARACTER SET latin1", "utf8mb4", "utf8mb4_0900_ai_ci", [OTHER], False),
        ("CHARSET utf8", "utf8mb3", "utf8mb3_general_ci", [], True),
        ("CHARSET utf8", "utf8", "utf8_general_ci", [], True),
        ("CHARSET koi8r", "koi8r", "koi8r_general_ci", [], False),
        ("ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin", "utf8mb4", "utf8mb4_bin", [], True),
        ("COLLATE utf8mb4_bin", "utf8mb4", "utf8mb4_bin", [], True),
        ("COLLATE utf8mb4_bin", "utf8mb4", "utf8mb4_0900_ai_ci", [OTHER], False),
    ],
)
def test_rule_19_a_text_has_the_character_set_that_is_said(
    options: str, charset: str, collation: str, known: list[TableSchema], makes: bool
) -> None:
    """For the column or the table; of what is said nowhere other tables of the schema tell."""
    columns = tuple(replace(c, charset=charset, collation=collation) if c.charset else c for c in COLUMNS)
    assert _makes(f"CREATE TABLE item ({ALL}) {options}", replace(NOW, columns=columns), *known) is makes


@pytest.mark.parametrize(
    ("written", "engine", "makes"),
    [
        ("", "InnoDB", True),
        ("ENGINE = 'innodb'", "InnoDB", True),
        ("ENGINE=HEAP", "MEMORY", True),
        ("", "MyISAM", True),
        ("ENGINE=MERGE UNION=(a, b)", "MRG_MYISAM", False),
        ("ENGINE=FEDERATED", "InnoDB", False),
        ("ENGINE=MyISAM", "InnoDB", False),
        *(("", engine, False) for engine in ("MRG_MYISAM", "FEDERATED", "CONNECT", "SPIDER", "BLACKHOLE", "S3", "")),
    ],
)
def test_a_table_of_an_engine_that_does_not_start_empty_parks(written: str, engine: str, makes: bool) -> None:
    now, like = replace(NOW, engine=engine), replace(OTHER, engine=engine)
    assert _makes(f"CREATE TABLE item ({ALL}) {written}", now, OTHER) is makes
    if not written:
        assert _makes("CREATE TABLE item LIKE other", now, like) is makes


@pytest.mark.parametrize("other", [{"primary_key": ()}, {"indexes": ()}, {"engine": "MyISAM"}])
def test_rule_19_a_table_that_has_other_keys_than_the_one_it_was_made_like_parks(other: dict[str, object]) -> None:
    assert not _makes("CREATE TABLE item LIKE other", NOW, replace(OTHER, **other))  # type: ignore[arg-type] # its fields


@pytest.mark.parametrize(
    ("written", "column", "makes"),
    [
        ("at DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", {"default": "x"}, True),
        ("at DATETIME DEFAULT NOW()", {"default": "x"}, True),
        ("at DATETIME NULL", {"default": "x"}, False),
        ("at DATETIME DEFAULT CURRENT_TIMESTAMP()", {}, False),
        (
            "at DATETIME GENERATED ALWAYS AS (`d` + 1) STORED COMMENT 'c'",
            {"expression": "(`d` + 1)", "stored": True},
            True,
        ),
        ("at DATETIME AS (d + 1) VIRTUAL", {"expression": "(`d` + 1)"}, True),
        ("at DATETIME AS (d + 1)", {"expression": "(`d` + 1)", "stored": True}, False),
        ("at DATETIME AS ((d + 1) * 2)", {"expression": "((`d` + 1) * 2)"}, True),
        ("at DATETIME AS (d + 1 * 2)", {"expression": "((`d` + 1) * 2)"}, False),
        ("at DATETIME AS (concat('x'))", {"expression": "(concat(_utf8mb4\\'x\\'))"}, False),
        ("at DATETIME AS (d + 2)", {"expression": "(`d` + 1)"}, False),
        ("at DATETIME", {"expression": "(`d` + 1)"}, False),
        ("at DATETIME INVISIBLE CHECK (at > 1) NULL", {"invisible": True}, True),
        ("at DATETIME", {"invisible": True}, False),
        ("at DATETIME FORMAT 3", {}, False),
        ("at DATETIME CHECK (at > 1) NOT ENFORCED", {}, False),
    ],
)
def test_defaults_that_are_computed_and_generated_columns(written: str, column: dict[str, object], makes: bool) -> None:
    told = {"has_default": True, "default_is_expression": "default" in column, "generated": "expression" in column}
    at = Column("at", CLOCK, "datetime", **told, **column)  # type: ignore[arg-type] # its fields
    now = replace(NOW, columns=(*COLUMNS, at))
    assert _makes(f"CREATE TABLE item ({ALL}, {written})", now, OTHER) is makes


def test_a_column_that_counts_is_not_null_also_by_another_key() -> None:
    by_id = Index("id", ("id",), unique=True, prefixes=(None,))
    now = replace(NOW, primary_key=(), indexes=(by_id, BY_V))
    assert _makes(f"CREATE TABLE item ({ALL.replace(' PRIMARY KEY', ' UNIQUE')})", now, OTHER)
    assert not _makes(f"CREATE TABLE item ({ALL})", now, OTHER)
