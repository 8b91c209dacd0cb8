"""Lists of raw values become Arrow arrays, one mapping per logical kind; and text becomes a raw value.

Raw values are what a log reader produces: int for integers, BIT and YEAR; unscaled int for DECIMAL; float; UTF-8 bytes
for TEXT, ENUM, SET, JSON, UUID, INET and NATIVE; bytes for BINARY, GEOMETRY and VECTOR; days since 1970 for DATE; microseconds
(since 1970 for TIMESTAMP and INSTANT) for the times; None for NULL or absent. The text form itself is the business of
`lines.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND

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
    Kind.NATIVE: _TEXT,
}


def arrow_type(type: LogicalType | None) -> pa.DataType:
    """The Arrow type of a logical type in the trail; null for a column that is refused."""
    if type is None:
        return pa.null()
    if type.kind is Kind.DECIMAL:
        return (pa.decimal128 if type.precision <= 38 else pa.decimal256)(type.precision, type.scale)
    return _ARROW[type.kind]


def array(type: LogicalType | None, values: Sequence[Any]) -> pa.Array:
    """An Arrow array of raw values. Raises ValueError with the index of the first value that does not fit."""
    if type is None:
        return pa.nulls(len(values))
    try:
        return _array(type, values)
    except (ValueError, OverflowError) as error:
        raise ValueError(_first_misfit(type, values) or str(error)) from error


def _array(type: LogicalType, values: Sequence[Any]) -> pa.Array:
    if type.kind is Kind.DECIMAL:
        return _decimals(arrow_type(type), values)
    arrow = _ARROW[type.kind]
    if arrow is _TEXT:
        return pa.array(values, pa.binary()).cast(_TEXT)  # twice as fast as asking for text; the cast checks UTF-8
    return pa.array(values, arrow)


def _decimals(type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Unscaled ints become the two's complement words that Arrow stores; most fit 64 bits, numpy extends their sign."""
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


# --- text -> raw value -----------------------------------------------------------------------------------------------

_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)$")
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:\+00(?::?00)?|Z)?$")
_DURATION = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?$")


def parse_text(type: LogicalType, text: str) -> Any:
    """The raw value of a text form (rows/lines.py without escapes). Raises ValueError."""
    try:
        return _PARSERS.get(type.kind, _integer)(type, text)
    except (ValueError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"{text!r} is no {type}") from error


def _integer(type: LogicalType, text: str) -> int:
    return int(text)


def _decimal(type: LogicalType, text: str) -> int:
    sign, digits, exponent = Decimal(text).as_tuple()
    shift = int(exponent) + type.scale if isinstance(exponent, int) else 0
    whole = int("".join(map(str, digits)) + "0" * max(shift, 0))
    kept, lost = divmod(whole, int(10 ** max(-shift, 0)))
    if lost or not isinstance(exponent, int):
        raise ValueError(text)
    return -kept if sign else kept


def _float(type: LogicalType, text: str) -> float:
    return float(text)


def _characters(type: LogicalType, text: str) -> bytes:
    return text.encode()


def _binary(type: LogicalType, text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _floats(type: LogicalType, text: str) -> bytes:
    if text[:1] + text[-1:] not in ("{}", "[]"):
        raise ValueError(text)
    return np.array([float(part) for part in text[1:-1].split(",") if part], "<f4").tobytes()


def _bits(type: LogicalType, text: str) -> int:
    return int(text, 2)


def _days(type: LogicalType, text: str) -> int:
    year, month, day = (int(part) for part in _matched(_DATE, text).groups())
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def _moment(type: LogicalType, text: str) -> int:
    day, clock = _matched(_MOMENT, text).groups()
    return _days(type, day) * DAY + _duration(type, clock)


def _duration(type: LogicalType, text: str) -> int:
    sign, hours, minutes, seconds, fraction = _matched(_DURATION, text).groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = whole * SECOND + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.match(text)
    if found is None:
        raise ValueError(text)
    return found


_PARSERS: dict[Kind, Callable[[LogicalType, str], Any]] = {
    Kind.DECIMAL: _decimal,
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.TEXT: _characters,
    Kind.ENUM: _characters,
    Kind.SET: _characters,
    Kind.JSON: _characters,
    Kind.BINARY: _binary,
    Kind.UUID: _characters,
    Kind.INET: _characters,
    Kind.NATIVE: _characters,
    Kind.GEOMETRY: lambda type, text: _binary(type, text if text.startswith("\\x") else "\\x" + text),
    Kind.VECTOR: _floats,
    Kind.BIT: _bits,
    Kind.DATE: _days,
    Kind.TIMESTAMP: _moment,
    Kind.INSTANT: _moment,
    Kind.DURATION: _duration,
}
