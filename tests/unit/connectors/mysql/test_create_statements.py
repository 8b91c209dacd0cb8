"""CREATE TABLE as people write it: does it make just the table that the catalogue has?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import CreatingDialect
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
COLUMNS = (
    Column("id", INT, "int unsigned", nullable=False, auto_increment=True),
    Column("v", TEXT, "varchar(20)", charset="utf8mb4"),
    Column("d", TEXT, "decimal(10,0)"),
    Column("e", TEXT, "enum('a','b')", charset="utf8mb4"),
    Column("on", INT, "tinyint(1)"),
)
NOW = TableSchema(TableId("shop", "item"), COLUMNS, ("id",), engine="InnoDB")
OTHER = replace(NOW, id=TableId("shop", "other"))
ALL = "id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20) NOT NULL, d NUMERIC, e ENUM ('a', 'b'), `on` BOOLEAN"


@pytest.mark.parametrize(
    ("statement", "makes"),
    [
        (f"CREATE TABLE item ({ALL})", True),
        (
            f"CREATE TABLE `shop`.`item` ({ALL}, KEY (v), CONSTRAINT c CHECK (d > 0)) ENGINE=InnoDB COMMENT 'x'",
            True,
        ),
        (f"CREATE TABLE IF NOT EXISTS item ({ALL})", False),
        ("CREATE TABLE /*!32312 IF NOT EXISTS*/ item LIKE other", False),
        (f"create table item ({ALL}, FOREIGN KEY (d) REFERENCES other (d)) PARTITION BY HASH (id)", True),
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
    dialect = MysqlDialect()
    assert isinstance(dialect, CreatingDialect)
    assert dialect.creates(statement, "shop", NOW, {OTHER.id: OTHER}) is makes
