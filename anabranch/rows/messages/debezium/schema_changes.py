"""Messages that tell how a table is defined from a transaction on, as Debezium's connectors write them to the topic that is
named by their prefix.

https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-schema-change-topic. docs/reference/
kafka-messages.md lists what is told otherwise on purpose. What does not live here: which changes are told (an Appender).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import Committed
from anabranch.rows.messages.debezium.schemas import before_payload
from anabranch.rows.messages.debezium.sources import schema_of as source_schema
from anabranch.rows.messages.debezium.sources import source_of, table_parts, transaction_parts
from anabranch.rows.messages.format import Messages, Piece, Settings, together
from anabranch.rows.messages.json_text import compact

_SIZES = re.compile(r"(.*?)\((\d+)(?:, ?(-?\d+))?\)(.*)", re.DOTALL)
_SHOUTS = ("mysql", "mariadb")  # Debezium writes their types in capitals, and a column's character set
# Numbers of java.sql.Types, as Debezium has them of a MySQL; what is not here is OTHER.
_OTHER = 1111
_BY_NAME = {
    "char": 1, "character": 1, "enum": 1, "set": 1, "binary": -2, "varbinary": -3, "tinyblob": 2004, "blob": 2004,
    "mediumblob": 2004, "longblob": 2004, "longtext": 12, "tinyint": 5,
}  # fmt: skip
_BY_KIND = {
    Kind.BOOLEAN: 16, Kind.INT8: 5, Kind.UINT8: 5, Kind.INT16: 5, Kind.UINT16: 5, Kind.INT32: 4, Kind.UINT32: 4,
    Kind.INT64: -5, Kind.UINT64: -5, Kind.DECIMAL: 3, Kind.FLOAT32: 6, Kind.FLOAT64: 8, Kind.TEXT: 12, Kind.BINARY: -2,
    Kind.BIT: -7, Kind.ENUM: 1, Kind.SET: 1, Kind.DATE: 91, Kind.TIME: 92, Kind.DURATION: 92, Kind.TIMESTAMP: 93,
    Kind.INSTANT: 2014, Kind.YEAR: 4,
}  # fmt: skip


def schema_change(
    settings: Settings,
    topic: str,
    schema: TableSchema,
    statement: str,
    at: Committed,
    now: Callable[[], int] = time.time_ns,
) -> Messages:
    """Return the one message that a table is defined as `schema` from the transaction `at` on. `statement`: the source's, ""
    where its log has none. `now`: nanoseconds since 1970."""
    connector, names = settings.source, _Names(schema.id, settings)
    key = compact({"databaseName": names.database})
    front, (database, table) = transaction_parts(connector, settings.job, at), names.parts
    source = f"{{{front.front},{database},{front.times},{table},{front.place}}}"
    rest = {
        "ts_ms": now() // 1_000_000,
        "databaseName": names.database,
        "schemaName": names.schema,
        "ddl": statement or None,
        "tableChanges": [{"type": "ALTER", "id": names.id, "table": _table(schema, connector)}],
    }
    value = f'{{"source":{source},{compact(rest)[1:]}'
    if settings.schema:
        key = f"{before_payload(_key_schema(connector))}{key}}}"
        value = f"{before_payload(_value_schema(connector))}{value}}}"
    texts = pa.array([key], pa.large_string()), pa.array([value], pa.large_string())
    sequence, ordinal, place = np.array([at.sequence], np.int64), np.zeros(1, np.int64), np.zeros(1, np.int8)
    return together([Piece(topic, None, *texts, sequence, ordinal, place)], [at])


class _Names:
    """The names of a table in messages: of its database, and of its schema where the source has such."""

    def __init__(self, table: TableId, settings: Settings) -> None:
        self.parts = table_parts(settings.source, table, settings.database)
        self.database, members = source_of(settings.source).names(table, settings.database)
        self.schema: str | None = members.get("schema")
        named = filter(None, (self.database, self.schema, members["table"]))
        self.id = ".".join('"' + one.replace('"', '""') + '"' for one in named)


def _table(schema: TableSchema, connector: str) -> Mapping[str, object]:
    columns = [_column(one, place, connector) for place, one in enumerate(schema.columns, 1)]
    keys = list(schema.primary_key)
    return {"defaultCharsetName": None, "primaryKeyColumnNames": keys, "columns": columns, "comment": None}


def _column(column: Column, place: int, connector: str) -> Mapping[str, object]:
    """Return what is told of a column; `place`: among those of the table, from 1 on."""
    name, length, scale = _type(column)
    values = column.type.values if column.type is not None else ()
    name = name.upper() if connector in _SHOUTS else name
    return {
        "name": column.name,
        "jdbcType": _jdbc_type(column),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": column.charset or None if connector in _SHOUTS else None,
        "length": length,
        "scale": scale,
        "position": place,
        "optional": column.nullable,
        "autoIncremented": column.auto_increment,
        "generated": column.generated or column.auto_increment,
        "comment": None,
        "defaultValueExpression": None if column.default_is_expression else column.default,
        "enumValues": ["'" + one.replace("'", "''") + "'" for one in values] or None,
    }


def _type(column: Column) -> tuple[str, int | None, int | None]:
    """Return a type's name as the source spells it, without what stands in parentheses: length and scale."""
    kind = column.type.kind if column.type is not None else None
    if column.type is not None and kind in (Kind.ENUM, Kind.SET) and column.native.partition("(")[2]:
        return column.native.partition("(")[0], 1 if kind is Kind.ENUM else 2 * len(column.type.values) - 1, None
    found = _SIZES.fullmatch(column.native)
    if found is None:
        return column.native, None, None
    return found[1] + found[4], int(found[2]), None if found[3] is None else int(found[3])


def _jdbc_type(column: Column) -> int:
    word = re.split(r"[ (]", column.native, maxsplit=1)[0].lower()
    known = {"character": 12} if column.native.startswith("character varying") else _BY_NAME
    return known.get(word) or (_BY_KIND.get(column.type.kind, _OTHER) if column.type is not None else _OTHER)


# --- schemas ----------------------------------------------------------------------------------------------------------


def _field(type: str, field: str, is_optional: bool = True, **more: object) -> Mapping[str, object]:
    return {"type": type, **more, "optional": is_optional, "field": field}


def _struct(name: str, *fields: Mapping[str, object], is_optional: bool = False) -> Mapping[str, object]:
    return {"type": "struct", "fields": list(fields), "optional": is_optional, "name": name, "version": 1}


_STRING = {"type": "string", "optional": False}
_COLUMN = _struct(
    "io.debezium.connector.schema.Column",
    _field("string", "name", False),
    _field("int32", "jdbcType", False),
    _field("int32", "nativeType"),
    _field("string", "typeName", False),
    _field("string", "typeExpression"),
    _field("string", "charsetName"),
    _field("int32", "length"),
    _field("int32", "scale"),
    _field("int32", "position", False),
    _field("boolean", "optional"),
    _field("boolean", "autoIncremented"),
    _field("boolean", "generated"),
    _field("string", "comment"),
    _field("string", "defaultValueExpression"),
    _field("array", "enumValues", items=_STRING),
)
_TABLE = _struct(
    "io.debezium.connector.schema.Table",
    _field("string", "defaultCharsetName"),
    _field("array", "primaryKeyColumnNames", items=_STRING),
    _field("array", "columns", False, items=_COLUMN),
    _field("string", "comment"),
    is_optional=True,
)
_CHANGE = _struct(
    "io.debezium.connector.schema.Change",
    _field("string", "type", False),
    _field("string", "id", False),
    {**_TABLE, "field": "table"},
)


def _key_schema(connector: str) -> Mapping[str, object]:
    return _struct(f"io.debezium.connector.{connector}.SchemaChangeKey", _field("string", "databaseName", False))


def _value_schema(connector: str) -> Mapping[str, object]:
    return _struct(
        f"io.debezium.connector.{connector}.SchemaChangeValue",
        source_schema(connector),
        _field("int64", "ts_ms", False),
        _field("string", "databaseName"),
        _field("string", "schemaName"),
        _field("string", "ddl"),
        _field("array", "tableChanges", False, items=_CHANGE),
    )
