"""Which existing column types hold every value of a type that would be made."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.target.fits import takes

HOLDS = [
    ("int(11)", "int"), ("bigint", "int"), ("bigint", "int unsigned"), ("smallint", "tinyint unsigned"),
    ("decimal(10,0)", "int"), ("decimal(20,0)", "bigint unsigned"), ("decimal(12,2)", "decimal(10,2)"),
    ("varchar(40)", "varchar(40)"), ("text", "varchar(40)"), ("longtext", "text"), ("varchar(40)", "char(40)"),
    ("varbinary(20)", "varbinary(20)"), ("blob", "varbinary(20)"), ("binary(16)", "binary(16)"),
    ("datetime(6)", "datetime(3)"), ("double", "float"), ("double", "double"), ("longtext", "json"), ("json", "json"),
    ("bit(10)", "bit(8)"), ("enum('a','b','c')", "enum('a','b')"), ("date", "date"), ("tinyint(1)", "tinyint(1)"),
    ("longtext /* mariadb-5.3 */", "longtext"),
]  # fmt: skip
LACKS = [
    ("int", "bigint"), ("int unsigned", "int"), ("int", "int unsigned"), ("bigint", "bigint unsigned"),
    ("decimal(9,0)", "int"), ("decimal(12,3)", "decimal(12,2)"), ("varchar(39)", "varchar(40)"), ("char(40)", "varchar(40)"),
    ("tinytext", "varchar(100)"), ("varbinary(40)", "varchar(10)"), ("binary(20)", "varbinary(10)"),
    ("binary(20)", "binary(16)"), ("bit(8)", "bit(10)"),
    ("datetime", "datetime(6)"), ("timestamp(6)", "datetime(6)"), ("float", "double"), ("float(7,2)", "float"),
    ("varchar(100)", "json"), ("enum('b','a')", "enum('a','b')"), ("int", "date"), ("text", "blob"), ("point", "geometry"),
]  # fmt: skip


@pytest.mark.parametrize(("existing", "wanted"), HOLDS)
def test_mysql_column_that_holds_every_value(existing: str, wanted: str) -> None:
    assert takes(existing, wanted)


@pytest.mark.parametrize(("existing", "wanted"), LACKS)
def test_mysql_column_that_may_refuse_one(existing: str, wanted: str) -> None:
    assert not takes(existing, wanted)
