"""Values in Avro's binary form, made of the JSON that Kafka Connect's JsonConverter has for them.

https://avro.apache.org/docs/1.12.0/specification/#binary-encoding. An encoder is made once for a schema, as functions inside
functions: nothing is looked up for each value. A value that does not fit its schema is refused, never cut.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

from anabranch.rows.messages.avro.schemas import Schema, members, null_comes_first

Encoder = Callable[[Any, bytearray], None]  # a value of JSON, and what it is added to

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class DoesNotFit(ValueError):
    """A value is not of its schema."""


def encoder(schema: Schema) -> Encoder:
    """Return what writes a value of this schema. It raises DoesNotFit."""
    own = _own(schema)
    if not schema.get("optional"):
        return own
    null, there = (b"\x00", b"\x02") if null_comes_first(schema) else (b"\x02", b"\x00")

    def write(value: Any, into: bytearray) -> None:
        if value is None:
            into += null
        else:
            into += there
            own(value, into)

    return write


def _own(schema: Schema) -> Encoder:
    kind = schema["type"]
    if kind == "struct":
        return _struct(schema)
    if kind == "array":
        return _array(encoder(schema["items"]))
    return _whole(_BITS[kind]) if kind in _BITS else _SIMPLE[kind]


def _struct(schema: Schema) -> Encoder:
    fields = [(one["field"], encoder(one)) for one in members(schema)]

    def write(value: Any, into: bytearray) -> None:
        if not isinstance(value, dict):
            raise DoesNotFit(f"no object for {schema['name']}")
        for name, field in fields:
            try:
                field(value.get(name), into)
            except DoesNotFit as error:
                raise DoesNotFit(f"{name}: {error}") from None

    return write


def _array(item: Encoder) -> Encoder:
    def write(value: Any, into: bytearray) -> None:
        if not isinstance(value, list):
            raise DoesNotFit("an array with bounds of its own, which Avro does not have")
        if value:
            _long(len(value), into)
            for one in value:
                item(one, into)
        into += b"\x00"

    return write


def _whole(bits: int) -> Encoder:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(value: Any, into: bytearray) -> None:
        if type(value) is not int or not low <= value <= high:
            raise DoesNotFit(f"no whole number of {bits} bits")
        _long(value, into)

    return write


def _long(value: int, into: bytearray) -> None:
    """Write 7 bits to a byte, the sign in the lowest one (zigzag)."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    while rest > 0x7F:
        into.append(rest & 0x7F | 0x80)
        rest >>= 7
    into.append(rest)


def _bytes(value: bytes, into: bytearray) -> None:
    _long(len(value), into)
    into += value


def _string(value: Any, into: bytearray) -> None:
    if not isinstance(value, str):
        raise DoesNotFit("an array of several dimensions" if isinstance(value, list) else "no text")
    _bytes(value.encode(), into)


def _base64(value: Any, into: bytearray) -> None:
    if not isinstance(value, str):
        raise DoesNotFit("no bytes")
    _bytes(base64.b64decode(value), into)


def _boolean(value: Any, into: bytearray) -> None:
    if not isinstance(value, bool):
        raise DoesNotFit("neither true nor false")
    into.append(value)


def _floating(form: struct.Struct) -> Encoder:
    def write(value: Any, into: bytearray) -> None:
        if isinstance(value, (bool, list, dict)) or value is None:
            raise DoesNotFit("no number")
        into += form.pack(float(value))  # "NaN", "Infinity" and "-Infinity" among them

    return write


_SIMPLE: dict[str, Encoder] = {
    "string": _string,
    "bytes": _base64,
    "boolean": _boolean,
    "float": _floating(_FLOAT),
    "double": _floating(_DOUBLE),
}
