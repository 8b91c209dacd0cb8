"""Text becomes a raw value (`arrow.py` says what those are): the reverse of `lines.py`, one value at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from struct import pack
from typing import Any

from anabranch.model.datatype import Kind, LogicalType

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND

# As PostgreSQL stores them: no date of a source is so far away.
INFINITE = {"-infinity": -1, "infinity": 1}
FARTHEST = {Kind.DATE: (1 << 31) - 1, Kind.TIMESTAMP: (1 << 63) - 1, Kind.INSTANT: (1 << 63) - 1}

_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)$")
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:\+00(?::?00)?|Z)?$")
_DURATION = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?$")


def parse_text(type: LogicalType, text: str) -> Any:
    """Return the raw value of a text form (rows/lines.py without escapes). Raises ValueError."""
    try:
        return _PARSERS.get(type.carried, _integer)(type, text)
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
    elements = [float(part) for part in text[1:-1].split(",") if part]
    return pack(f"<{len(elements)}f", *elements)


def _bits(type: LogicalType, text: str) -> int:
    return int(text, 2)


def _infinite(type: LogicalType, text: str) -> int:
    return FARTHEST[type.kind] if INFINITE[text] > 0 else -FARTHEST[type.kind] - 1


def _days(type: LogicalType, text: str) -> int:
    if text in INFINITE:
        return _infinite(type, text)
    year, month, day = (int(part) for part in _matched(_DATE, text).groups())
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def _moment(type: LogicalType, text: str) -> int:
    if text in INFINITE:
        return _infinite(type, text)
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
    **dict.fromkeys((Kind.BOOLEAN, Kind.TIME, Kind.INTERVAL, Kind.NATIVE), _characters),
    Kind.GEOMETRY: lambda type, text: _binary(type, text if text.startswith("\\x") else "\\x" + text),
    Kind.VECTOR: _floats,
    Kind.BIT: _bits,
    Kind.DATE: _days,
    Kind.TIMESTAMP: _moment,
    Kind.INSTANT: _moment,
    Kind.DURATION: _duration,
}
