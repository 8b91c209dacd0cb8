"""Messages about changed definitions: members, types and schemas as Debezium has them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import Committed
from anabranch.rows.messages.debezium.schema_changes import schema_change
from anabranch.rows.messages.debezium.told import DebeziumTold
from anabranch.rows.messages.format import Message, Settings
from anabranch.rows.net import TargetTable

NOW = 1_700_000_001_234_567_890
AT = Committed(7, "bin.1:120", 1_700_000_000_500_000, "g-1:6")
SETTINGS = Settings("j", "mysql", "", lambda table: "t")
COLUMN = Column("id", LogicalType(Kind.INT32), "int(11)", nullable=False, auto_increment=True)
SCHEMA = TableSchema(TableId("shop", "a"), (COLUMN,), ("id",))


def made(of: TableSchema = SCHEMA, statement: str = "ALTER …", **settings: Any) -> Message:
    told = schema_change(replace(SETTINGS, **settings), "j", of, statement, AT, lambda: NOW)
    (one,) = told.each()
    return one


def test_the_members_are_those_of_debezium_in_their_order() -> None:
    one = made()
    assert one.topic == "j" and one.key == b'{"databaseName":"shop"}' and one.table is None
    assert one.headers[0] == ("anabranch.position", b"7@bin.1:120")
    assert one.value is not None
    assert one.value.decode() == (
        '{"source":{"version":"0.1.0","connector":"mysql","name":"j","ts_ms":1700000000500,"snapshot":"false","db":"shop",'
        '"sequence":null,"ts_us":1700000000500000,"ts_ns":1700000000500000000,"table":"a","server_id":0,"gtid":"g-1:6",'
        '"file":"bin.1","pos":120,"row":0,"thread":null,"query":null},"ts_ms":1700000001234,"databaseName":"shop",'
        '"schemaName":null,"ddl":"ALTER …","tableChanges":[{"type":"ALTER","id":"\\"shop\\".\\"a\\"","table":'
        '{"defaultCharsetName":null,"primaryKeyColumnNames":["id"],"columns":[{"name":"id","jdbcType":4,"nativeType":null,'
        '"typeName":"INT","typeExpression":"INT","charsetName":null,"length":11,"scale":null,"position":1,"optional":false,'
        '"autoIncremented":true,"generated":true,"comment":null,"defaultValueExpression":null,"enumValues":null}],'
        '"comment":null}}]}'
    )


def test_a_postgresql_has_schema_and_database_and_no_statement() -> None:
    one = made(statement="", source="postgresql", database="app")
    assert one.value is not None
    found = json.loads(one.value)
    assert (found["databaseName"], found["schemaName"], found["ddl"]) == ("app", "shop", None)
    assert found["tableChanges"][0]["id"] == '"app"."shop"."a"' and one.key == b'{"databaseName":"app"}'


# Name, length, scale, number of java.sql.Types: of MySQL as Debezium 3.6.1 tells them.
@pytest.mark.parametrize(
    ("connector", "native", "type", "told"),
    [
        ("mysql", "int unsigned", LogicalType(Kind.UINT32), ("INT UNSIGNED", None, None, 4)),
        ("mysql", "varchar(20)", LogicalType(Kind.TEXT, length=20), ("VARCHAR", 20, None, 12)),
        ("mysql", "char(5)", LogicalType(Kind.TEXT, length=5), ("CHAR", 5, None, 1)),
        ("mysql", "decimal(5,1) unsigned", LogicalType(Kind.DECIMAL), ("DECIMAL UNSIGNED", 5, 1, 3)),
        ("mysql", "smallint(5) unsigned zerofill", LogicalType(Kind.UINT16), ("SMALLINT UNSIGNED ZEROFILL", 5, None, 5)),
        ("mysql", "datetime(3)", LogicalType(Kind.TIMESTAMP), ("DATETIME", 3, None, 93)),
        ("mysql", "timestamp(6)", LogicalType(Kind.INSTANT), ("TIMESTAMP", 6, None, 2014)),
        ("mysql", "enum('a','b)(')", LogicalType(Kind.ENUM, values=("a", "b)(")), ("ENUM", 1, None, 1)),
        ("mysql", "set('p','q')", LogicalType(Kind.SET, values=("p", "q")), ("SET", 3, None, 1)),
        ("mysql", "json", LogicalType(Kind.JSON), ("JSON", None, None, 1111)),
        ("mysql", "blob", LogicalType(Kind.BINARY), ("BLOB", None, None, 2004)),
        ("mysql", "point", None, ("POINT", None, None, 1111)),
        ("mysql", "year", LogicalType(Kind.YEAR), ("YEAR", None, None, 4)),
        ("postgresql", "numeric(10,-2)", LogicalType(Kind.DECIMAL), ("numeric", 10, -2, 3)),
        ("postgresql", "character varying(7)", LogicalType(Kind.TEXT), ("character varying", 7, None, 12)),
        ("postgresql", "character(7)", LogicalType(Kind.TEXT), ("character", 7, None, 1)),
        ("postgresql", "time(3) without time zone", LogicalType(Kind.TIME), ("time without time zone", 3, None, 92)),
        ("postgresql", "feel", LogicalType(Kind.ENUM, values=("a",)), ("feel", None, None, 1)),
    ],
)  # fmt: skip
def test_a_type_has_the_sources_name(connector: str, native: str, type: LogicalType | None, told: Any) -> None:
    one = made(replace(SCHEMA, columns=(Column("c", type, native),)), source=connector)
    assert one.value is not None
    (column,) = json.loads(one.value)["tableChanges"][0]["table"]["columns"]
    assert tuple(column[name] for name in ("typeName", "length", "scale", "jdbcType")) == told


def test_values_and_defaults_are_told() -> None:
    columns = (
        Column("e", LogicalType(Kind.ENUM, values=("a", "it's")), "enum('a','it''s')", has_default=True, default="a"),
        Column("d", LogicalType(Kind.TEXT), "text", default="uuid()", default_is_expression=True, charset="latin1"),
    )
    one = made(replace(SCHEMA, columns=columns))
    assert one.value is not None
    first, second = json.loads(one.value)["tableChanges"][0]["table"]["columns"]
    assert (first["enumValues"], first["defaultValueExpression"]) == (["'a'", "'it''s'"], "a")
    assert (second["charsetName"], second["defaultValueExpression"], second["position"]) == ("latin1", None, 2)


def test_schemas_stand_in_front() -> None:
    one = made(schema=True)
    assert one.key is not None and one.value is not None
    key, value = json.loads(one.key), json.loads(one.value)
    assert key["schema"]["name"] == "io.debezium.connector.mysql.SchemaChangeKey" and key["payload"] == {
        "databaseName": "shop"
    }
    assert [field["field"] for field in value["schema"]["fields"]] == list(value["payload"])
    change = value["schema"]["fields"][-1]["items"]
    (told,) = value["payload"]["tableChanges"]
    assert [field["field"] for field in change["fields"]] == list(told)
    table = change["fields"][-1]
    assert (table["optional"], [field["field"] for field in table["fields"]]) == (True, list(told["table"]))
    column = table["fields"][2]["items"]
    assert [field["field"] for field in column["fields"]] == list(told["table"]["columns"][0])


def test_a_table_is_read_back_without_it() -> None:
    table = TargetTable(
        TableId("shop", "a"), TableId("shop", "a"), ("id",), (LogicalType(Kind.INT32),), ("id",), ("id",)
    )
    for schema in (False, True):
        one = made(schema=schema)
        assert one.value is not None and not list(DebeziumTold(table, "string").told(one.key, one.value, 7))
