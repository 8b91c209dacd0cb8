"""Dates, moments and clocks as the numbers and texts that Debezium has for them.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-temporal-types. Whole columns are
cast by Arrow; a column with a value that it does not read (a year before 1 or after 9999, 24:00:00, infinity) is read value by
value.
What does not live here: which type is told how (values.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.raw import DAY, FARTHEST, SECOND

LARGEST = (1 << 63) - 1
# What Debezium has for moments that are infinite, in microseconds, and days that are.
INFINITY, MINUS_INFINITY = 9223372036825200000, -9223372036832400000
INFINITE_DAYS = {"infinity": (1 << 31) - 1, "-infinity": -(1 << 31)}
INFINITE = {"infinity": INFINITY, "-infinity": MINUS_INFINITY}
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?(?:\+00)?( BC)?")
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_SPAN = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) mons? ?)?(?:(-?\d+) days? ?)?(?:([-+]?)(\d+):(\d\d):(\d\d(?:\.\d+)?))?"
)


def days(type: LogicalType, array: Any) -> Any:
    """Return dates as days since 1970 (int32)."""
    if not type.printed:
        return array.view(pa.int32())
    try:
        return pc.cast(array, pa.date32()).view(pa.int32())
    except pa.ArrowInvalid:
        return _each(array, _days, pa.int32())


def microseconds(type: LogicalType, array: Any) -> Any:
    """Return moments as microseconds since 1970 (int64), infinite ones as Debezium's numbers."""
    if not type.printed:
        return _near(array.view(pa.int64()), FARTHEST[type.kind])
    zone = "UTC" if type.kind is Kind.INSTANT else None
    try:
        return pc.cast(array, pa.timestamp("us", zone)).view(pa.int64())
    except pa.ArrowInvalid:
        return _each(array, _moment, pa.int64())


def clock(type: LogicalType, array: Any) -> Any:
    """Return times of a day, or spans of hours, as microseconds (int64)."""
    if type.carried is Kind.DURATION:
        return array
    try:
        day = pc.binary_join_element_wise("1970-01-01", array, " ")
        return pc.cast(day, pa.timestamp("us")).view(pa.int64())
    except pa.ArrowInvalid:
        return _each(array, _clock, pa.int64())


def divided(numbers: Any, by: int) -> Any:
    """Return whole numbers divided, towards minus infinity: a moment in front of 1970 keeps its second."""
    found = np.floor_divide(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), by)
    return pa.array(found, numbers.type, mask=numbers.is_null().to_numpy(zero_copy_only=False))


def _near(numbers: Any, most: int) -> Any:
    """Return moments with those that are infinite (rows/raw.py) as numbers for that."""
    ends = pc.min_max(numbers)
    if ends["min"].as_py() != -most - 1 and ends["max"].as_py() != most:
        return numbers
    late = pc.if_else(pc.equal(numbers, most), INFINITY, numbers)
    return pc.if_else(pc.equal(numbers, -most - 1), MINUS_INFINITY, late)


def _each(array: Any, read: Callable[[str], Any], kind: Any) -> Any:
    return pa.array([None if text is None else read(text) for text in array.to_pylist()], kind)


def _days(text: str) -> int:
    if text in INFINITE_DAYS:
        return INFINITE_DAYS[text]
    found = _DATE.fullmatch(text)
    if found is None:
        raise RowRefused(f"{text!r} is no date")
    return _day_number(found)


def _day_number(found: re.Match[str]) -> int:
    """Return the days since 1970 of a date of any year, in the calendar that goes on backwards."""
    year = int(found[1]) if found[5] is None else 1 - int(found[1])
    month, day = int(found[2]), int(found[3])
    year -= month <= 2
    era, month = year // 400, (month + 9) % 12
    of_era = year - era * 400
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * month + 2) // 5 + day - 1 - 719_468


def _moment(text: str) -> int:
    if text in INFINITE:
        return INFINITE[text]
    found = _DATE.fullmatch(text)
    if found is None:
        raise RowRefused(f"{text!r} is no moment")
    number = _day_number(found) * DAY + _clock(found[4])
    if abs(number) > LARGEST:
        raise RowRefused(f"{text!r} is beyond what 64 bits of microseconds since 1970 hold")
    return number


def _clock(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise RowRefused(f"{text!r} is no time")
    whole = (int(found[2]) * 60 + int(found[3])) * 60 + int(found[4])
    number = whole * SECOND + int((found[5] or "").ljust(6, "0"))
    return -number if found[1] else number


def instants(type: LogicalType, array: Any) -> Any:
    """Return moments of UTC as `2024-02-29T12:00:00.500000Z`; infinite ones are `infinity` and `-infinity`."""
    if type.printed:
        return _printed_instants(type, array)
    most = FARTHEST[type.kind]
    numbers = array.view(pa.int64())
    low, high = pc.equal(numbers, -most - 1), pc.equal(numbers, most)
    near = pc.if_else(pc.or_(low, high), pa.scalar(0, pa.int64()), numbers).view(pa.timestamp("us"))
    text = pc.cast(near, pa.string())
    text = pc.utf8_slice_codeunits(text, 0, 19 + (type.fraction and type.fraction + 1))
    text = pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")
    return pc.case_when(pc.make_struct(low, high), "-infinity", "infinity", text)


def _printed_instants(type: LogicalType, array: Any) -> Any:
    try:
        found = pc.cast(pc.cast(pc.cast(array, pa.timestamp("us", "UTC")), pa.timestamp("us")), pa.string())
    except pa.ArrowInvalid:
        return _each(array, _instant, pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(found, " ", "T"), "Z", "")


def _instant(text: str) -> str:
    """Return the text by ISO 8601: the year before 0001 is 0000, and years of more digits have a sign."""
    if text in INFINITE:
        return text
    found = _DATE.fullmatch(text)
    if found is None:
        raise RowRefused(f"{text!r} is no moment")
    year = int(found[1]) if found[5] is None else 1 - int(found[1])
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    whole, _, fraction = found[4].partition(".")
    return f"{sign}{abs(year):04}-{found[2]}-{found[3]}T{whole}.{fraction.ljust(6, '0')}Z"


def zoned_clocks(type: LogicalType, array: Any) -> Any:
    """Return times with their zones, as `12:00:00.123+05:30`: the zone of the value, which UTC would lose."""
    return pc.replace_substring_regex(array, r"([-+]\d\d)$", r"\1:00")


def spans(type: LogicalType, array: Any) -> Any:
    """Return intervals as `P1Y2M3DT4H5M6.789S`: every part is there, each with its own sign."""
    return _each(array, _span, pa.string())


def _span(text: str) -> str:
    if text in INFINITE:
        return text
    found = _SPAN.fullmatch(text)
    if found is None:
        raise RowRefused(f"{text!r} is no interval")
    years, months, days = (int(found[at] or 0) for at in (1, 2, 3))
    hours, minutes, seconds = int(found[5] or 0), int(found[6] or 0), found[7] or "0"
    sign = "-" if found[4] == "-" else ""
    whole, _, fraction = seconds.partition(".")
    shown = f"{int(whole)}" + (f".{fraction}" if fraction else "")
    parts = [f"{sign}{one}" if one not in (0, "0") else "0" for one in (hours, minutes, shown)]
    return f"P{years}Y{months}M{days}DT{parts[0]}H{parts[1]}M{parts[2]}S"
