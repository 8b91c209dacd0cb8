"""Types as Debezium tells them: for each logical type the JSON of its values and the schema that Kafka Connect has for it.

`docs/reference/kafka-messages.md` has the table with the reasons. What does not live here: dates and moments (clocks.py),
objects of rows (rows/messages/images.py).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.json_arrays import ARRAY, as_array, is_array
from anabranch.rows.lines import texts
from anabranch.rows.messages.base64_text import base64_texts, of_whole, unscaled
from anabranch.rows.messages.debezium import clocks
from anabranch.rows.messages.json_text import enclosed, floats, literal, quoted

UNAVAILABLE = "__debezium_unavailable_value"
DIGITS_OF_64_BITS = 20
MOST_DIGITS = 76  # that `precise` has room for
NOT_PRECISE = 'decimal = "string" tells it'
Cell = Callable[[LogicalType, Any], Any]


@dataclass(frozen=True)
class Told:
    """One type: `schema` is Kafka Connect's, without name of a field; `cell` makes the JSON texts of a column; `absent` is
    the JSON that stands for a value which the log does not have, "" where none can."""

    schema: Mapping[str, object]
    cell: Cell
    absent: str = ""


def _schema(
    type: str, name: str = "", parameters: Mapping[str, str] | None = None, **more: object
) -> dict[str, object]:
    found: dict[str, object] = {"type": type}
    if name:
        found |= {"name": name, "version": 1}
    if parameters:
        found["parameters"] = dict(parameters)
    return found | more


# --- cells ------------------------------------------------------------------------------------------------------------


def _number(type: LogicalType, array: Any) -> Any:
    return texts(type, array)


def _float(type: LogicalType, array: Any) -> Any:
    if type.printed:
        double = pa.float32() if type.kind is Kind.FLOAT32 else pa.float64()
        return floats(pc.cast(array, double))
    return floats(array)


def _text(type: LogicalType, array: Any) -> Any:
    return quoted(texts(type, array))


def _boolean(type: LogicalType, array: Any) -> Any:
    return pc.if_else(pc.equal(texts(type, array), "t"), "true", "false")


def _of(make: Callable[[LogicalType, Any], Any]) -> Cell:
    """Return the cell of numbers that are made of a column."""
    return lambda type, array: pc.cast(make(type, array), pa.string())


def _word(make: Callable[[LogicalType, Any], Any]) -> Cell:
    """Return the cell of texts that are made of a column, and need no escapes."""
    return lambda type, array: enclosed(make(type, array))


def _milliseconds(make: Callable[[LogicalType, Any], Any]) -> Callable[[LogicalType, Any], Any]:
    return lambda type, array: clocks.divided(make(type, array), 1000)


def _bytes(type: LogicalType, array: Any) -> Any:
    if type.printed:
        array = pa.array([None if one is None else bytes.fromhex(one[2:]) for one in array.to_pylist()], pa.binary())
    return enclosed(base64_texts(array))


def _bit(type: LogicalType, array: Any) -> Any:
    """Write a single bit as a boolean."""
    if type.printed:
        return pc.if_else(pc.equal(array, "1"), "true", "false")
    return pc.if_else(pc.equal(array, pa.scalar(1, pa.uint64())), "true", "false")


def _each(array: Any, write: Callable[[Any], str]) -> Any:
    """Write value by value."""
    return pa.array([None if one is None else write(one) for one in array.to_pylist()], pa.string())


def _bits(type: LogicalType, array: Any) -> Any:
    """Write bits as bytes, the lowest one first, as many as the bits need."""

    def write(one: str | int) -> str:
        size, number = (len(one), int(one or "0", 2)) if isinstance(one, str) else (type.length or 64, one)
        return f'"{base64.b64encode(number.to_bytes((size + 7) // 8, "little")).decode()}"'

    return _each(array, write)


def digits_of(type: LogicalType) -> int:
    """Return the digits of a decimal, 0 where they are not declared: one of a negative scale is told with all in front of the
    point."""
    return type.precision - min(type.scale, 0)


def why_not_precise(type: LogicalType) -> str:
    """Return why no value of a type can be told with `precise`, "" where they can."""
    if type.kind is Kind.DECIMAL and type.precision and digits_of(type) > MOST_DIGITS:
        return f'{type} has more than the {MOST_DIGITS} digits that decimal = "precise" tells'
    return ""


def _precise(type: LogicalType, array: Any) -> Any:
    """Write the digits as bytes; the scale is the type's."""
    if why := why_not_precise(type):
        raise RowRefused(why, hint=NOT_PRECISE)
    if pa.types.is_integer(array.type):
        array = pc.cast(array, pa.decimal128(DIGITS_OF_64_BITS, 0))
    elif type.printed:
        kind = pa.decimal128 if digits_of(type) <= 38 else pa.decimal256
        try:
            array = pc.cast(array, kind(digits_of(type), max(type.scale, 0)))
        except pa.ArrowInvalid as error:
            raise RowRefused(
                f"{type} has a value that is no number of its digits: {error}", hint=NOT_PRECISE
            ) from error
    return enclosed(base64_texts(unscaled(array)))


def _variable(type: LogicalType, array: Any) -> Any:
    """Write numbers without declared digits, each with a scale of its own."""
    return _each(array, _scaled)


def _scaled(text: str) -> str:
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int):
        raise RowRefused(f"{text} is no number", hint=NOT_PRECISE)
    whole = int("".join(map(str, digits)) + "0" * max(exponent, 0)) * (-1 if sign else 1)
    return f'{{"scale":{max(-exponent, 0)},"value":"{base64.b64encode(of_whole(whole)).decode()}"}}'


def _geometry(type: LogicalType, array: Any) -> Any:
    return _each(array, _shape)


def _shape(value: bytes) -> str:
    """Return {wkb, srid} of a value that has its reference system inside (EWKB)."""
    order = "little" if value[0] else "big"
    type = int.from_bytes(value[1:5], order)  # type: ignore[arg-type]  # order is one of two words
    if not type & 0x20000000:
        return f'{{"wkb":"{base64.b64encode(value).decode()}","srid":null}}'
    srid = int.from_bytes(value[5:9], order)  # type: ignore[arg-type]  # order is one of two words
    plain = value[:1] + (type & ~0x20000000).to_bytes(4, order) + value[9:]  # type: ignore[arg-type]  # order is one of two words
    return f'{{"wkb":"{base64.b64encode(plain).decode()}","srid":{srid or "null"}}}'


def _vector(type: LogicalType, array: Any) -> Any:
    return _each(array, lambda one: f"[{','.join(floats(pa.array(np.frombuffer(one, '<f4'))).to_pylist())}]")


def _array(type: LogicalType, array: Any) -> Any:
    """Write numbers and booleans as JSON's own, all other elements as they are printed: decimals, too."""
    element = type.native.removesuffix(ARRAY)
    if element.partition("(")[0] == "numeric":
        type = replace(type, native="text[]", delimiter=",")
    return _each(array, lambda one: as_array(type, one))


# --- types ------------------------------------------------------------------------------------------------------------

_STRING = Told(_schema("string"), _text, literal(UNAVAILABLE))
_INTEGERS = {
    Kind.INT8: "int16",
    Kind.UINT8: "int16",
    Kind.INT16: "int16",
    Kind.UINT16: "int32",
    Kind.INT32: "int32",
    Kind.UINT32: "int64",
    Kind.INT64: "int64",
}
_BYTES_ABSENT = literal(base64.b64encode(UNAVAILABLE.encode()).decode())
_GEOMETRY_FIELDS = [
    {"type": "bytes", "optional": False, "field": "wkb"},
    {"type": "int32", "optional": True, "field": "srid"},
]
_VARIABLE_FIELDS = [
    {"type": "int32", "optional": False, "field": "scale"},
    {"type": "bytes", "optional": False, "field": "value"},
]
_SIMPLE: Mapping[Kind, Told] = {
    **{kind: Told(_schema(name), _number) for kind, name in _INTEGERS.items()},
    Kind.FLOAT32: Told(_schema("float"), _float),
    Kind.FLOAT64: Told(_schema("double"), _float),
    Kind.BOOLEAN: Told(_schema("boolean"), _boolean),
    Kind.TEXT: _STRING,
    Kind.BINARY: Told(_schema("bytes"), _bytes, _BYTES_ABSENT),
    Kind.DATE: Told(_schema("int32", "io.debezium.time.Date"), _of(clocks.days)),
    Kind.INSTANT: Told(_schema("string", "io.debezium.time.ZonedTimestamp"), _word(clocks.instants)),
    Kind.DURATION: Told(_schema("int64", "io.debezium.time.MicroTime"), _of(clocks.clock)),
    Kind.INTERVAL: Told(_schema("string", "io.debezium.time.Interval"), _word(clocks.spans)),
    Kind.YEAR: Told(_schema("int32", "io.debezium.time.Year"), _number),
    Kind.JSON: Told(_schema("string", "io.debezium.data.Json"), _text, literal(UNAVAILABLE)),
    Kind.UUID: Told(_schema("string", "io.debezium.data.Uuid"), _text),
    Kind.INET: _STRING,
    Kind.GEOMETRY: Told(_schema("struct", "io.debezium.data.geometry.Geometry", fields=_GEOMETRY_FIELDS), _geometry),
    Kind.VECTOR: Told(
        _schema("array", "io.debezium.data.FloatVector", items={"type": "float", "optional": False}), _vector
    ),
    Kind.NATIVE: _STRING,
}
_NAMED: Mapping[str, Told] = {
    "oid": Told(_schema("int64"), _number),
    "time with time zone": Told(_schema("string", "io.debezium.time.ZonedTime"), _word(clocks.zoned_clocks)),
    "xml": Told(_schema("string", "io.debezium.data.Xml"), _text, literal(UNAVAILABLE)),
    "ltree": Told(_schema("string", "io.debezium.data.Ltree"), _text, literal(UNAVAILABLE)),
    "tsvector": Told(_schema("string", "io.debezium.data.Tsvector"), _text, literal(UNAVAILABLE)),
}
_ELEMENTS = {"smallint": "int16", "integer": "int32", "bigint": "int64", "oid": "int64", "real": "float",
             "double precision": "double", "boolean": "boolean"}  # fmt: skip
_BIT_VARYING = "bit varying"


def told(type: LogicalType, decimal: str) -> Told:
    """Return how values of a type are told; `decimal` is `string` or `precise`."""
    if type.kind in (Kind.DECIMAL, Kind.UINT64):
        return _decimal(type, decimal)
    if type.kind in (Kind.ENUM, Kind.SET):
        name = "io.debezium.data.Enum" if type.kind is Kind.ENUM else "io.debezium.data.EnumSet"
        return Told(_schema("string", name, {"allowed": ",".join(type.values)}), _text)
    if type.kind is Kind.BIT or _bare(type) == _BIT_VARYING:
        return _bit_type(type)
    if type.kind is Kind.TIME:
        if type.fraction <= 3:
            return Told(_schema("int32", "io.debezium.time.Time"), _of(_milliseconds(clocks.clock)))
        return Told(_schema("int64", "io.debezium.time.MicroTime"), _of(clocks.clock))
    if type.kind is Kind.TIMESTAMP:
        if type.fraction <= 3:
            return Told(_schema("int64", "io.debezium.time.Timestamp"), _of(_milliseconds(clocks.microseconds)))
        return Told(_schema("int64", "io.debezium.time.MicroTimestamp"), _of(clocks.microseconds))
    if type.kind is Kind.NATIVE and is_array(type):
        element = _ELEMENTS.get(type.native.removesuffix(ARRAY).partition("(")[0], "string")
        return Told(_schema("array", items={"type": element, "optional": True}), _array)
    return _NAMED.get(_bare(type)) or _SIMPLE[type.kind]


def _bare(type: LogicalType) -> str:
    head, _, tail = type.native.partition("(")
    return head + tail.partition(")")[2] if type.kind is Kind.NATIVE else ""


def _decimal(type: LogicalType, decimal: str) -> Told:
    if decimal == "string":
        return Told(_schema("string"), _word(texts))
    if type.kind is Kind.DECIMAL and not type.precision:
        name = "io.debezium.data.VariableScaleDecimal"
        return Told(_schema("struct", name, fields=_VARIABLE_FIELDS), _variable)
    parameters = {"scale": str(max(type.scale, 0))}
    if digits := DIGITS_OF_64_BITS if type.kind is Kind.UINT64 else digits_of(type):
        parameters["connect.decimal.precision"] = str(digits)
    return Told(_schema("bytes", "org.apache.kafka.connect.data.Decimal", parameters), _precise)


def _bit_type(type: LogicalType) -> Told:
    if type.kind is Kind.BIT and (type.length or 1) == 1:
        return Told(_schema("boolean"), _bit)
    sizes = type.native.partition("(")[2].partition(")")[0] if type.kind is Kind.NATIVE else str(type.length)
    return Told(_schema("bytes", "io.debezium.data.Bits", {"length": sizes or str((1 << 31) - 1)}), _bits)
