"""Lists of raw values become Arrow arrays, one mapping per logical kind.

Raw values are what a log reader produces: int for integers, BIT and YEAR; unscaled int for DECIMAL; float; UTF-8 bytes
for kinds whose Arrow type is that of text, and for all that is printed; bytes for BINARY, GEOMETRY and VECTOR; days since
1970 for DATE; microseconds (since 1970 for TIMESTAMP and INSTANT) for the times; None for NULL or absent. The text form
itself is the business of `lines.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType

_TEXT = pa.string()
_ARROW: dict[Kind, Any] = {
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.UINT8: pa.uint8(),
    Kind.UINT16: pa.uint16(),
    Kind.UINT32: pa.uint32(),
    Kind.UINT64: pa.uint64(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.TEXT: _TEXT,
    Kind.BINARY: pa.binary(),
    Kind.BIT: pa.uint64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.INSTANT: pa.timestamp("us", "UTC"),
    Kind.DURATION: pa.int64(),
    Kind.YEAR: pa.int16(),
    Kind.ENUM: _TEXT,
    Kind.SET: _TEXT,
    Kind.JSON: _TEXT,
    Kind.UUID: _TEXT,
    Kind.INET: _TEXT,
    Kind.GEOMETRY: pa.binary(),
    Kind.VECTOR: pa.binary(),
    Kind.BOOLEAN: _TEXT,
    Kind.TIME: _TEXT,
    Kind.INTERVAL: _TEXT,
    Kind.NATIVE: _TEXT,
}


def arrow_type(type: LogicalType | None) -> pa.DataType:
    """Return the Arrow type of a logical type in the trail; null for a column that is refused."""
    if type is None:
        return pa.null()
    if type.carried is Kind.DECIMAL:
        return (pa.decimal128 if type.precision <= 38 else pa.decimal256)(type.precision, type.scale)
    return _ARROW[type.carried]


def array(type: LogicalType | None, values: Sequence[Any]) -> pa.Array:
    """Return an Arrow array of raw values. Raises ValueError with the index of the first value that does not fit."""
    if type is None:
        return pa.nulls(len(values))
    try:
        return _array(type, values)
    except (ValueError, OverflowError) as error:
        raise ValueError(_first_misfit(type, values) or str(error)) from error


def _array(type: LogicalType, values: Sequence[Any]) -> pa.Array:
    if type.carried is Kind.DECIMAL:
        return _decimals(arrow_type(type), values)
    arrow = _ARROW[type.carried]
    if arrow is _TEXT:
        return pa.array(values, pa.binary()).cast(_TEXT)  # twice as fast as asking for text; the cast checks UTF-8
    return pa.array(values, arrow)


def _decimals(type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Convert unscaled ints to the two's complement words that Arrow stores. Most fit 64 bits; numpy extends their sign."""
    words = type.bit_width // 64
    try:
        narrow = pa.array(values, pa.int64())
    except (pa.ArrowInvalid, OverflowError):
        return _wide_decimals(type, values)
    wide = np.empty((len(values), words), np.int64)
    low = np.frombuffer(narrow.buffers()[1] or b"", np.int64, len(values))
    wide[:, 0] = low
    wide[:, 1:] = (low >> 63)[:, None]
    return pa.Array.from_buffers(type, len(values), [narrow.buffers()[0], pa.py_buffer(wide)], narrow.null_count)


def _wide_decimals(type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    width = type.bit_width // 8
    data = b"".join([(value or 0).to_bytes(width, "little", signed=True) for value in values])
    valid = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(type, len(values), [valid.buffers()[1], pa.py_buffer(data)])


def _first_misfit(type: LogicalType, values: Sequence[Any]) -> str:
    for index, value in enumerate(values):
        try:
            _array(type, [value])
        except (ValueError, OverflowError) as error:
            return f"value {index} is no {type}: {error}"
    return ""
