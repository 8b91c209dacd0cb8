"""Schemas in front of keys and values, as Kafka Connect's JsonConverter writes them where `schemas.enable` is true."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from anabranch.rows.messages.debezium.sources import schema_of
from anabranch.rows.messages.debezium.values import told
from anabranch.rows.messages.json_text import compact
from anabranch.rows.net import TargetTable

BLOCK = "event.block"


def before_payload(schema: Mapping[str, object]) -> str:
    """Return the text in front of a payload; a brace ends it."""
    return f'{{"schema":{compact(schema)},"payload":'


@lru_cache(maxsize=4096)
def key_schema(table: TargetTable, topic: str, decimal: str) -> str:
    """Return what stands in front of a key of a table."""
    return before_payload(key_struct(table, topic, decimal))


def key_struct(table: TargetTable, topic: str, decimal: str) -> dict[str, object]:
    """Return the schema of a key of a table; without fields where the table has none."""
    fields = [_column(table, name, decimal) for name in table.key]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{topic}.Key"}


@lru_cache(maxsize=4096)
def value_schema(table: TargetTable, topic: str, decimal: str, connector: str) -> str:
    """Return what stands in front of a value of a table."""
    return before_payload(value_struct(table, topic, decimal, connector))


def value_struct(table: TargetTable, topic: str, decimal: str, connector: str) -> dict[str, object]:
    """Return the schema of a value of a table."""
    columns = [_column(table, name, decimal) for name in table.columns]
    row = {"type": "struct", "fields": columns, "optional": True, "name": f"{topic}.Value"}
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        dict(schema_of(connector)),
        _block(),
        {"type": "string", "optional": False, "field": "op"},
        *({"type": "int64", "optional": True, "field": name} for name in ("ts_ms", "ts_us", "ts_ns")),
    ]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{topic}.Envelope", "version": 2}


def _column(table: TargetTable, name: str, decimal: str) -> dict[str, object]:
    """Every column but those of the key may be null: definitions of the target's table say nothing about it."""
    schema = dict(told(table.type_of(name), decimal).schema)
    return {"type": schema.pop("type"), "optional": name not in table.key, **schema, "field": name}


def _block() -> dict[str, object]:
    fields = [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ]
    return {
        "type": "struct",
        "fields": fields,
        "optional": True,
        "name": BLOCK,
        "version": 1,
        "field": "transaction",
    }


def _struct(name: str, *fields: dict[str, object]) -> dict[str, object]:
    full = f"io.debezium.connector.common.{name}"
    return {"type": "struct", "fields": list(fields), "optional": False, "name": full, "version": 1}


def _member(type: str, field: str, is_optional: bool = False, **more: object) -> dict[str, object]:
    return {"type": type, "optional": is_optional, **more, "field": field}


_COLLECTION = {
    "type": "struct",
    "fields": [_member("string", "data_collection"), _member("int64", "event_count")],
    "optional": False,
    "name": "event.collection",
    "version": 1,
}
TRANSACTION_KEY = before_payload(_struct("TransactionMetadataKey", _member("string", "id")))
TRANSACTION_VALUE = before_payload(
    _struct(
        "TransactionMetadataValue",
        _member("string", "status"),
        _member("string", "id"),
        _member("int64", "event_count", True),
        _member("array", "data_collections", True, items=_COLLECTION),
        _member("int64", "ts_ms"),
    )
)
