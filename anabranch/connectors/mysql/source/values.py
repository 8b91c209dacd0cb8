"""Single values of a row image that need more than a struct: dates, times, labels, text of other character sets. Pure.

Tables that fill themselves (`dict.__missing__`) keep the generated decoders free of calls for values seen before.
Formats: https://dev.mysql.com/doc/dev/mysql-server/latest/field_8h.html, sql-common/my_time.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, NamedTuple

from anabranch.connectors.mysql.charsets import BadStored, BadValue, decoder
from anabranch.model.schema import Column
from anabranch.rows.raw import DAY, EPOCH_ORDINAL, SECOND
from anabranch.rows.zero_dates import NULL as CHOSEN_NULL
from anabranch.rows.zero_dates import STOP as CHOSEN_STOP
from anabranch.rows.zero_dates import raw_of

ZERO_DATE_HINT = (
    'to make it NULL, set [types] zero_date = "null"; where it may not be NULL, set zero_date to a date that stands for it'
    ' ("0001-01-01"; in a primary key "-infinity"); for one column: [[tables]] columns.zero_date'
)
_KEPT = 100_000  # entries of a table before it starts over


class NoDate(BadValue):
    """A zero or half-zero date, or a day that the calendar does not have."""

    hint = ZERO_DATE_HINT

    def __init__(self, date: str) -> None:
        super().__init__(f"{date}, which is no date")


class Bad:
    """Stands for a value that no target holds, with words for it, while column and row are looked up, or when its row goes on
    without it; a time of day that is added, or how it is read, changes nothing."""

    def __init__(self, what: str = "") -> None:
        self.what = what

    def __add__(self, other: Any) -> Bad:
        return self

    def isascii(self) -> bool:
        return True


def bad_values(columns: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """Return row and column of each Bad among the values, in their order."""
    return sorted(
        (row, column)
        for column, values in enumerate(columns)
        for row, value in enumerate(values)
        if isinstance(value, Bad)
    )


BAD = Bad()  # instead of a value for zero dates: put a Bad there
STOP = object()  # instead of a value for zero dates: raise NoDate


class Instead(int):
    """A raw value that stands for a date that is none, and for its time of day. `partly`: STOP or BAD where it stands for
    0000-00-00 00:00:00 alone, as it does in a primary key; else None."""

    partly: Any = None

    def __add__(self, other: Any) -> Any:
        if not other or self.partly is None:
            return self
        return no_date("0000-00-00 with a time of day", self.partly)


def no_date(date: str, zero: Any) -> Any:
    """Return the stand-in for a date that is none: raises NoDate for STOP, gives a Bad for BAD, and anything else as it is."""
    if zero is STOP:
        raise NoDate(date)
    return Bad(f"{date}, which is no date") if zero is BAD else zero


class Zero(NamedTuple):
    """The stand-ins for dates that are none: STOP, BAD, None or Instead."""

    day: Any
    moment: Any


def zero_of(column: Column, choice: str, in_key: bool, bad: Any) -> Zero:
    """Return the stand-ins that the job chose (rows/zero_dates.py). `bad`: the stand-in where nothing is chosen."""
    if choice == CHOSEN_STOP:
        return Zero(bad, bad)
    if choice == CHOSEN_NULL:
        return Zero(None, None)
    assert column.type is not None
    found = Instead(raw_of(column.type, choice))
    found.partly = bad if in_key else None
    return Zero(found, found)


class LookupTable(dict[int, Any]):
    """A function of an int, remembered."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: int) -> Any:
        if len(self) >= _KEPT:
            self.clear()
        value = self[key] = self._function(key)
        return value


def days_table(zero: Any) -> LookupTable:
    """Decode DATE: day 5 bits, month 4, year -> days since 1970. `zero` stands in for invalid dates; STOP raises NoDate."""
    return LookupTable(lambda packed: _days(packed >> 9, packed >> 5 & 15, packed & 31, zero))


def midnight_table(zero: Any) -> LookupTable:
    """Decode DATETIME's upper bits (sign, year * 13 + month, day) -> microseconds since 1970 at its midnight."""

    def midnight(packed: int) -> Any:
        month = (packed & 0x3FFFFF) >> 5
        days = _days(month // 13, month % 13, packed & 31, zero)
        return days * DAY if type(days) is int else days

    return LookupTable(midnight)


def clock_table() -> LookupTable:
    """Decode DATETIME's lower bits (hour, minute, second) -> microseconds since midnight."""

    def clock(packed: int) -> int:
        hour, minute, second = packed >> 12, packed >> 6 & 63, packed & 63
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError(f"{hour:02}:{minute:02}:{second:02} is no time of day")
        return ((hour * 60 + minute) * 60 + second) * SECOND

    return LookupTable(clock)


def old_datetime(zero: Any) -> Callable[[int], Any]:
    """Decode DATETIME before 5.6: the decimal number YYYYMMDDhhmmss."""

    def value(number: int) -> Any:
        day, clock = divmod(number, 1_000_000)
        days = _days(day // 10000, day // 100 % 100, day % 100, zero)
        seconds = (clock // 10000 * 60 + clock // 100 % 100) * 60 + clock % 100
        return _at(days, seconds * SECOND)

    return value


def hires_datetime(zero: Any) -> Callable[[int, int], Any]:
    """Decode DATETIME(n) of MariaDB before 10.1.

    Year, month, day, …, seconds as digits of bases 13, 32, 24, 60, 60, and the fraction in units of `unit`
    microseconds.
    """

    def value(number: int, unit: int) -> Any:
        day, clock = divmod(number * unit, DAY)
        year_month, day = divmod(day, 32)
        days = _days(*divmod(year_month, 13), day, zero)
        return _at(days, clock)

    return value


def zero_instant(zero: Any) -> Callable[[], Any]:
    """Decode TIMESTAMP 0, which stands for 0000-00-00 00:00:00."""

    def value() -> Any:
        return no_date("0000-00-00 00:00:00", zero)

    return value


def duration(width: int) -> Callable[[int], int]:
    """Decode TIME2 with `width` bytes of fraction: an offset binary number of 10 + 6 + 6 bits and the fraction."""
    bits = 8 * width
    offset, mask, unit = 0x800000 << bits, (1 << bits) - 1, (1_000_000, 10_000, 100, 1)[width]

    def value(stored: int) -> int:
        number = stored - offset
        whole = abs(number) >> bits
        seconds = ((whole >> 12) * 60 + (whole >> 6 & 63)) * 60 + (whole & 63)
        micros = seconds * SECOND + (abs(number) & mask) * unit
        return -micros if number < 0 else micros

    return value


def old_duration(number: int) -> int:
    """Decode TIME before 5.6: the signed decimal number hhmmss in 24 bits."""
    whole = abs(number)
    micros = ((whole // 10000 * 60 + whole // 100 % 100) * 60 + whole % 100) * SECOND
    return -micros if number < 0 else micros


def _at(days: Any, clock: int) -> Any:
    """Return microseconds since 1970, or the stand-in for them."""
    if days is None:
        return None
    return days * DAY + clock if type(days) is int else days + clock


def _days(year: int, month: int, day: int, zero: Any) -> Any:
    try:
        return date(year, month, day).toordinal() - EPOCH_ORDINAL
    except ValueError:
        if isinstance(zero, Instead) and zero.partly is not None and (year or month or day):
            zero = zero.partly
    return no_date(f"{year:04}-{month:02}-{day:02}", zero)


# --- labels and text ------------------------------------------------------------------------------------------------------


def text_of(charset: str) -> Callable[[Any], Callable[[bytes], Any]]:
    """Return a function that gives the converter of a character set to UTF-8 for each choice for bad values.

    It raises BadText, or for BAD returns a Bad.
    """

    return lambda zero: stored_as(decoder(charset))(zero)


def stored_as(read: Callable[[bytes], bytes]) -> Callable[[Any], Callable[[bytes], Any]]:
    """Return such a function for any converter that raises BadStored."""

    def value(stored: Any) -> Any:
        try:
            return stored if isinstance(stored, Bad) else read(stored)
        except BadStored as error:
            return Bad(str(error))

    return lambda zero: value if zero is BAD else read


def labels(column: Column) -> list[bytes]:
    """Return ENUM's labels by index; 0 is the empty one that stands for a refused value."""
    assert column.type is not None
    return [b"", *(label.encode() for label in column.type.values)]


def label_sets(column: Column) -> LookupTable:
    """Decode SET's bits -> labels joined by comma, in declaration order."""
    assert column.type is not None
    names = [label.encode() for label in column.type.values]

    def joined(bits: int) -> bytes:
        if bits >> len(names):
            raise IndexError(f"bit {bits.bit_length()} of a set of {len(names)} labels")
        return b",".join(name for place, name in enumerate(names) if bits >> place & 1)

    return LookupTable(joined)
