"""Debezium's envelopes read back: of each type the text that values.py and clocks.py have made theirs of.

Types of which several values have one form (intervals, arrays, geometries, vectors, `bit varying`) are not read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.json_arrays import is_array
from anabranch.rows.lines import text_value
from anabranch.rows.messages.debezium.clocks import INFINITE, INFINITE_DAYS
from anabranch.rows.messages.debezium.values import UNAVAILABLE, told
from anabranch.rows.messages.told import Decode, Image, ToldTable, number, words_or_bytes
from anabranch.rows.raw import DAY, FARTHEST, SECOND, parse_text

_WHOLE = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.YEAR})
_UNREAD = frozenset({Kind.INTERVAL, Kind.GEOMETRY, Kind.VECTOR})
_ABSENT_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()
_MOMENT = re.compile(r"([-+]?)(\d{4,})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?Z")


class DebeziumTold(ToldTable):
    """Reads messages of the format `debezium`, with and without schemas."""

    def form(self, type: LogicalType, decimal: str) -> Decode | None:
        return form_of(type, decimal)

    def change(self, message: Any) -> tuple[Image | None, Image | None] | bool | None:
        if "source" not in message and "status" in message:
            return False  # the beginning or the end of a transaction
        if "tableChanges" in message:
            return False  # a changed definition
        source, own = message["source"], self.table.source
        if (source.get("schema", source["db"]), source["table"]) != (own.schema, own.name):
            return False
        return None if message["op"] == "t" else (message["before"], message["after"])


def form_of(type: LogicalType, decimal: str) -> Decode | None:
    """Return what reads values of a type; None where they are not read."""
    name = told(type, decimal).schema.get("name", "")
    if type.kind in _UNREAD or (name == "io.debezium.data.Bits" and type.kind is not Kind.BIT) or is_array(type):
        return None
    if type.kind in (Kind.DECIMAL, Kind.UINT64) and decimal != "string":
        return _variable if type.kind is Kind.DECIMAL and not type.precision else partial(_precise, max(type.scale, 0))
    if type.kind is Kind.BIT:
        return partial(_bits, type.length or 1)
    if name == "io.debezium.time.ZonedTime":
        return lambda value: re.sub(r"([-+]\d\d):00$", r"\1", value).encode()
    if type.native == "oid" or type.kind in _WHOLE or type.kind in (Kind.FLOAT32, Kind.FLOAT64):
        return number
    return _CLOCKS[type.kind](type) if type.kind in _CLOCKS else _text(type)


def _text(type: LogicalType) -> Decode:
    if type.kind is Kind.BOOLEAN:
        return lambda value: {True: b"t", False: b"f"}[value]
    absent, read = _ABSENT_BYTES if type.kind is Kind.BINARY else UNAVAILABLE, words_or_bytes(type)
    return lambda value: None if value == absent else read(value)


def _precise(scale: int, value: Any) -> bytes:
    whole = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
    digits = str(abs(whole)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"{'-' if whole < 0 else ''}{text}".encode()


def _variable(value: Any) -> bytes:
    return _precise(int(value["scale"]), value["value"])


def _bits(length: int, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"1" if value else b"0"
    whole = int.from_bytes(base64.b64decode(value, validate=True), "little")
    return f"{whole:0{length}b}".encode()


# --- dates and moments ------------------------------------------------------------------------------------------------


def _date(type: LogicalType) -> Decode:
    if not type.printed:
        return lambda value: _plain(type, int(value))
    infinite = {number: text for text, number in INFINITE_DAYS.items()}
    return lambda value: (infinite.get(int(value)) or _with_era(_day(int(value)), "")).encode()


def _time(type: LogicalType) -> Decode:
    unit = 1000 if type.fraction <= 3 else 1
    return lambda value: _clock(int(value) * unit).encode()


def _duration(type: LogicalType) -> Decode:
    return lambda value: _plain(type, int(value))


def _timestamp(type: LogicalType) -> Decode:
    unit = 1000 if type.fraction <= 3 else 1
    infinite = {number // unit: text for text, number in INFINITE.items()}

    def read(value: Any) -> bytes:
        if text := infinite.get(int(value)):
            return text.encode()
        moment = int(value) * unit
        if not type.printed:
            return _plain(type, moment)
        days, rest = divmod(moment, DAY)
        return _with_era(_day(days), f" {_clock(rest)}").encode()

    return read


def _instant(type: LogicalType) -> Decode:
    def read(value: Any) -> bytes:
        if value in INFINITE:
            return bytes(value.encode())
        if not type.printed:
            return _plain(type, parse_text(type, value))
        found = _MOMENT.fullmatch(value)
        if found is None:
            raise ValueError(f"{value!r} is no moment")
        year, fraction = int(found[2]) * (-1 if found[1] == "-" else 1), (found[6] or "").rstrip("0")
        clock = found[5] + (f".{fraction}" if fraction else "")
        return _with_era((year, int(found[3]), int(found[4])), f" {clock}+00").encode()

    return read


_CLOCKS: dict[Kind, Callable[[LogicalType], Decode]] = {
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.DURATION: _duration,
    Kind.TIMESTAMP: _timestamp,
    Kind.INSTANT: _instant,
}


def _plain(type: LogicalType, raw: int) -> bytes:
    """Return the text form of a raw value. Raises ValueError for one that is none."""
    if abs(raw) > FARTHEST.get(type.kind, FARTHEST[Kind.TIMESTAMP]) + 1:
        raise ValueError(f"{raw} is no {type}")
    return (text_value(type, raw) or "").encode()


def _clock(number: int) -> str:
    """Return a time of a day as a server prints it: without zeros at the end."""
    seconds, fraction = divmod(number, SECOND)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}"


def _with_era(day: tuple[int, int, int], clock: str) -> str:
    year, month, of_month = day
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04}-{month:02}-{of_month:02}{clock}{era}"


def _day(days: int) -> tuple[int, int, int]:
    """Return year (0 is the one before 1), month and day of a number of days since 1970, in the calendar that goes on
    backwards: the reverse of clocks.py."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day
