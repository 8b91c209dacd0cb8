"""Dates and times that a decoder has as numbers, in the text form that the server prints (ISO, UTC). Pure.

https://www.postgresql.org/docs/current/datatype-datetime.html
Numbers count from 1970, the server's own from 2000: what is near the end of the range has gone round by that, and a date's
infinities have. A timestamp's are the ends of the range themselves, and with that the same as 294247-01-10 04:00:54.775807
and the microsecond after it: these two are taken for infinite.
"""

from __future__ import annotations

_DAY, _SECOND = 86_400_000_000, 1_000_000  # microseconds
_EPOCH = 10_957  # days from 1970 to 2000
_ERA, _ERA_DAYS = 400, 146_097  # years, after which the calendar repeats itself
_MARCH = 719_468  # days from 1 March of year 0 to 1970


def date_text(days: int) -> str:
    """Write a date that is a number of 32 bits."""
    since = _wrapped(days - _EPOCH, 32)
    return _infinity(since, 32) or _shown(since + _EPOCH, "")


def timestamp_text(microseconds: int, zone: str = "") -> str:
    """Write a moment that is a number of 64 bits; `zone`: as the server prints it behind the time."""
    if end := _infinity(microseconds, 64):
        return end
    since = _wrapped(microseconds - _EPOCH * _DAY, 64)
    days, rest = divmod(since + _EPOCH * _DAY, _DAY)
    return _shown(days, f" {time_text(rest)}{zone}")


def time_text(microseconds: int) -> str:
    """Write a time of day; 24:00:00 is the last. Raises ValueError for any other number."""
    if not 0 <= microseconds <= _DAY:
        raise ValueError(f"{microseconds} microseconds are no time of a day")
    seconds, fraction = divmod(microseconds, _SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _shown(days: int, rest: str) -> str:
    year, month, day = _civil(days)
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04}-{month:02}-{day:02}{rest}{era}"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year (0 is 1 BC), month and day: years that begin in March have their leap day at the end."""
    era, day = divmod(days + _MARCH, _ERA_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return era * _ERA + year + (month >= 10), (month + 2) % 12 + 1, day + 1


def _wrapped(number: int, bits: int) -> int:
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _infinity(number: int, bits: int) -> str:
    half = 1 << bits - 1
    return {half - 1: "infinity", -half: "-infinity"}.get(number, "")
