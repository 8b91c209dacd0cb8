"""Defaults in PostgreSQL's words, as far as they mean the same here: constants, the time, a new UUID.

A default that is wrong gives other values: what is not in the table below is told, and not made.
https://www.postgresql.org/docs/current/functions-datetime.html
What does not live here: conditions (`other_words.py`), SQL of this target (`defaults.py`).
"""

from __future__ import annotations

import re

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.model.term import Term
from anabranch.rows.json_texts import as_json, is_json

DIALECT = "postgresql"  # TableSchema.dialect
NUMBERS = frozenset((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64))
_STRING = re.compile(r"'((?:[^']|'')*)'(?:::[\w\s\".()\[\]]+)?")
_NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w\s().,]+)?|'(-?\d+(?:\.\d+)?)'::[\w\s().,]+")
_NOW = re.compile(r"now\(\)|CURRENT_TIMESTAMP(?:\((\d)\))?|LOCALTIMESTAMP(?:\((\d)\))?|transaction_timestamp\(\)")
_TODAY = ("CURRENT_DATE", "('now'::text)::date", "now()::date", "(now())::date")
_UUID = ("gen_random_uuid()", "uuid_generate_v4()", "public.uuid_generate_v4()", "public.gen_random_uuid()")


def default(column: Column, type: LogicalType, schema: TableSchema) -> Term | None:
    """Return what the default of a column means, None where only the source can evaluate it."""
    told = (column.default or "").strip()
    if type.kind is Kind.BOOLEAN:
        return Term("text", text=told[0]) if told in ("true", "false") else None
    if type.kind in NUMBERS:
        found = _NUMBER.fullmatch(told)
        return Term("text", text=found[1] or found[2]) if found else None
    if told in _UUID:
        return Term("uuid") if type.kind in (Kind.UUID, Kind.TEXT) else None
    if told in _TODAY:
        return Term("today") if type.kind is Kind.DATE else None
    if type.kind in (Kind.TIMESTAMP, Kind.INSTANT) and (now := _NOW.fullmatch(told)):
        return Term("now", text=now[1] or now[2] or str(min(type.fraction, 6)))
    is_text = type.kind in (Kind.TEXT, Kind.ENUM, Kind.DATE, Kind.JSON) or _is_as_printed(type, told, schema)
    if is_text and (constant := _STRING.fullmatch(told)):
        text = constant[1].replace("''", "'")
        return Term("text", text=as_json(type, text) if is_json(type) else text)
    return None


def _is_as_printed(type: LogicalType, told: str, schema: TableSchema) -> bool:
    """Return whether a constant is written as its value is printed: a label, and an array without elements."""
    is_label = any(need.kind == "enum" and need.name == type.native for need in schema.needs)
    return type.carried is Kind.NATIVE and (is_label or (type.native.endswith("[]") and told.startswith("'{}'")))
