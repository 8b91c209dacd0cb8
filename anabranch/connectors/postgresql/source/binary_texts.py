"""PostgreSQL's text of dates, times and exact numbers, made of their binary form, a column at a time. Pure.

Every value is written into slots, one for each character that any value may have; slots that it does not use are left out.
What does not live here: the other types (binary_values.py). Forms:
https://github.com/postgres/postgres/blob/master/src/backend/utils/adt/datetime.c (EncodeDateTime, USE_ISO_DATES) and numeric.c
(numeric_send, get_str_from_var).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Slots = np.ndarray[Any, np.dtype[np.uint8]]

_SECOND = 1_000_000  # microseconds
_DAY = 86_400 * _SECOND
_DAYS_TO_2000 = 10_957
# https://github.com/postgres/postgres/blob/master/src/include/datatype/timestamp.h: the first moment, and behind the last one
_FIRST_DATE, _END_DATE = -2_451_545, 2_145_031_949
_FIRST_TIME, _END_TIME = -211_813_488_000_000_000, 9_223_371_331_200_000_000
_ENDLESS = (b"-infinity", b"infinity")
_PAIRS = np.frombuffer("".join(f"{n:02d}" for n in range(100)).encode(), np.uint8).reshape(100, 2)
_FOURS = np.frombuffer("".join(f"{n:04d}" for n in range(10_000)).encode(), np.uint8).reshape(10_000, 4)
_YEAR, _DATE, _TIME, _FRACTION = 7, 13, 8, 7  # characters: of a year, a date, a time, a fraction with its point


def texts(values: pa.LargeBinaryArray, slots: Slots, kept: Any = None) -> pa.Array:
    """Join the `kept` slots of each value that is there: an array of text, null where `values` is."""
    if kept is None:
        return _text(values, slots, np.full(len(slots), slots.shape[1], np.int64))
    return _text(values, slots[kept], kept.sum(1))


def at_most(found: np.ndarray[Any, Any], first: int, last: int, what: str) -> None:
    if ((found < first) | (found > last)).any():
        raise ValueError(f"a {what} that is out of its bounds")


# --- dates and times --------------------------------------------------------------------------------------------------


def dates(values: pa.LargeBinaryArray, days: Numbers) -> pa.Array:
    """Write `days` since 2000; the least and the greatest number of four bytes are the infinities."""
    ends = [days == -(1 << 31), days == (1 << 31) - 1]
    days = np.where(ends[0] | ends[1], 0, days)
    at_most(days, _FIRST_DATE, _END_DATE - 1, "date")
    slots, kept, is_before = _dated(days, 0)
    return texts(values, *_endless(_era(slots, kept, is_before), ends))


def times(values: pa.LargeBinaryArray, moments: Numbers) -> pa.Array:
    """Write `moments`, microseconds of a day; its end, 24:00:00, is one too."""
    at_most(moments, 0, _DAY, "time")
    slots = np.empty((len(moments), _TIME + _FRACTION), np.uint8)
    kept = np.ones(slots.shape, bool)
    _put_time(slots, kept, moments)
    return texts(values, slots, kept)


def timestamps(values: pa.LargeBinaryArray, moments: Numbers) -> pa.Array:
    """Write `moments`, microseconds since 2000; the least and the greatest number of eight bytes are the infinities."""
    return _moments(values, moments, b"")


def instants(values: pa.LargeBinaryArray, moments: Numbers) -> pa.Array:
    return _moments(values, moments, b"+00")


def _moments(values: pa.LargeBinaryArray, moments: Numbers, zone: bytes) -> pa.Array:
    ends = [moments == -(1 << 63), moments == (1 << 63) - 1]
    moments = np.where(ends[0] | ends[1], 0, moments)
    at_most(moments, _FIRST_TIME, _END_TIME - 1, "timestamp")
    days = moments // _DAY
    slots, kept, is_before = _dated(days, 1 + _TIME + _FRACTION + len(zone))
    slots[:, _DATE] = ord(" ")
    behind = _DATE + 1 + _TIME + _FRACTION
    _put_time(slots[:, _DATE + 1 : behind], kept[:, _DATE + 1 : behind], moments - days * _DAY)
    slots[:, behind:] = np.frombuffer(zone, np.uint8)
    return texts(values, *_endless(_era(slots, kept, is_before), ends))


def _dated(days: Numbers, more: int) -> tuple[Slots, Any, Any]:
    """Return slots of dates, and `more` behind them; which are kept; whose year is one before our era."""
    day = (days + _DAYS_TO_2000).astype("M8[D]")
    month, year = day.astype("M8[M]"), day.astype("M8[Y]")
    number = year.astype(np.int64) + 1970
    is_before = number <= 0
    number = np.where(is_before, 1 - number, number)  # there is no year 0
    slots = np.empty((len(days), _DATE + more), np.uint8)
    kept = np.ones(slots.shape, bool)
    high, low = np.divmod(number, 10_000)
    slots[:, :3] = _FOURS[high][:, 1:]
    slots[:, 3:_YEAR] = _FOURS[low]
    kept[:, :3] = high[:, None] >= (100, 10, 1)
    slots[:, _YEAR] = slots[:, _YEAR + 3] = ord("-")
    slots[:, _YEAR + 1 : _YEAR + 3] = _PAIRS[(month - year.astype("M8[M]")).astype(np.int64) + 1]
    slots[:, _YEAR + 4 : _DATE] = _PAIRS[(day - month.astype("M8[D]")).astype(np.int64) + 1]
    return slots, kept, is_before


def _put_time(slots: Slots, kept: Any, moments: Numbers) -> None:
    """Write a day's `moments`: hour, minute, second, and the fraction without zeros at its end."""
    seconds, fraction = np.divmod(moments, _SECOND)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    for at, part in ((0, hour), (3, minute), (6, second)):
        slots[:, at : at + 2] = _PAIRS[part]
    slots[:, 2] = slots[:, 5] = ord(":")
    slots[:, _TIME] = ord(".")
    for at, part in ((1, fraction // 10_000), (3, fraction // 100 % 100), (5, fraction % 100)):
        slots[:, _TIME + at : _TIME + at + 2] = _PAIRS[part]
    kept[:, _TIME] = fraction > 0
    for place in range(1, _FRACTION):
        kept[:, _TIME + place] = fraction % 10 ** (_FRACTION - place) > 0


def _era(slots: Slots, kept: Any, is_before: Any) -> tuple[Slots, Any]:
    if not is_before.any():
        return slots, kept
    era = np.tile(np.frombuffer(b" BC", np.uint8), (len(slots), 1))
    return np.hstack((slots, era)), np.hstack((kept, np.repeat(is_before[:, None], 3, 1)))


def _endless(made: tuple[Slots, Any], ends: list[Any]) -> tuple[Slots, Any]:
    slots, kept = made
    for here, word in zip(ends, _ENDLESS, strict=True):
        if here.any():
            slots[here, : len(word)] = np.frombuffer(word, np.uint8)
            kept[here] = np.arange(slots.shape[1]) < len(word)
    return slots, kept


# --- exact numbers ----------------------------------------------------------------------------------------------------

_HEAD, _BASE_DIGITS = 8, 4  # bytes before the digits; decimal digits of each
_NEGATIVE, _SIGNS = 0x4000, {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}
# What a column has that has a precision: up to 1000 digits before the point and behind it, and as many zeros between.
# https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-NUMERIC-DECIMAL
LIMIT = 2000


def numerics(values: pa.LargeBinaryArray) -> pa.Array:
    """Write numbers: digits to the base of 10000, `weight` of the first, sign, digits behind the point.

    Only for columns with a precision: another number may have a hundred thousand digits in ten bytes, which no limit of
    ours counts.
    """
    has = np.asarray(values.is_valid())
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int64, len(values) + 1)
    sizes, starts = np.diff(offsets)[has], offsets[:-1][has] // 2
    if (sizes < _HEAD).any() or (sizes % 2).any():
        raise ValueError("a numeric that is too short")
    words = np.frombuffer(data if data is not None else b"", ">u2", int(offsets[-1]) // 2).astype(np.int64)
    count, weight, sign, scale = (words[starts + place] for place in range(4))
    weight -= (weight >> 15) << 16
    special = np.isin(sign, list(_SIGNS))
    if (sizes != _HEAD + 2 * count).any() or (special & (count > 0)).any():
        raise ValueError("a numeric with another number of digits than it says")
    if not (special | (sign == 0) | (sign == _NEGATIVE)).all():
        raise ValueError("a numeric of unknown sign")
    weight, scale = np.where(special, 0, weight), np.where(special, 0, scale)
    at_most(_BASE_DIGITS * weight, -LIMIT, LIMIT, "numeric")
    at_most(scale, 0, LIMIT, "numeric")
    made, lengths = _decimal(words, starts + _HEAD // 2, count, weight, sign == _NEGATIVE, scale)
    if special.any():
        return _with_special(values, made, lengths, sign)
    return _text(values, made, lengths)


def _decimal(
    words: Numbers, starts: Numbers, count: Numbers, weight: Numbers, is_negative: Any, scale: Numbers
) -> tuple[Slots, Numbers]:
    """Return the characters of all numbers, and how many each has. A number has a slot for its sign, four for each
    digit before the point (one at least), a slot for the point, four for each digit behind it.
    """
    before, behind = np.maximum(weight + 1, 1), -(-scale // _BASE_DIGITS)
    groups = before + behind
    first = np.cumsum(groups) - groups  # of each number
    number = np.repeat(np.arange(len(groups)), groups)
    place = np.arange(len(number)) - first[number]
    digit = place + (weight + 1 - before)[number]  # which of its digits
    is_stored = (digit >= 0) & (digit < count[number])
    digits = np.zeros(len(number), np.int64)
    digits[is_stored] = words[(starts[number] + digit)[is_stored]]
    at_most(digits, 0, 9999, "digit of a numeric")
    slots, kept = _FOURS[digits], np.ones((len(digits), _BASE_DIGITS), bool)
    kept[first, :3] = digits[first, None] >= (1000, 100, 10)
    is_last = scale > 0
    left = (scale - (behind - 1) * _BASE_DIGITS)[is_last]  # of the last digit's
    kept[(first + groups - 1)[is_last]] = np.arange(_BASE_DIGITS) < left[:, None]
    return _with_signs(slots[kept], kept.sum(1), first, before, number, place, is_negative, is_last)


def _with_signs(
    digits: Slots,
    characters: Numbers,
    first: Numbers,
    before: Numbers,
    number: Numbers,
    place: Numbers,
    is_negative: Any,
    has_point: Any,
) -> tuple[Slots, Numbers]:
    """Return the digits, with a minus before those of a number, and a point before those behind it."""
    begins = np.cumsum(characters) - characters
    lengths = np.bincount(number, characters, len(first)).astype(np.int64) + is_negative + has_point
    signs, points = begins[first][is_negative], begins[(first + before)[has_point]]
    places = np.concatenate((signs, points))
    marks = np.repeat(np.frombuffer(b"-.", np.uint8), (len(signs), len(points)))
    return np.insert(digits, places, marks), lengths


def _with_special(values: pa.LargeBinaryArray, made: Slots, lengths: Numbers, sign: Numbers) -> pa.Array:
    import pyarrow.compute as pc  # eight megabytes, for what is rare

    words = {code: word.decode() for code, word in _SIGNS.items()}
    here = np.zeros(len(values), np.int64)
    here[np.asarray(values.is_valid())] = sign
    found = _text(values, made, lengths)
    for code, word in words.items():
        found = pc.if_else(pa.array(here == code), pa.scalar(word), found)
    return found


def _text(values: pa.LargeBinaryArray, data: Slots, lengths: Numbers) -> pa.Array:
    """Cut `data` of the values that are there, so many bytes each."""
    offsets = np.zeros(len(values) + 1, np.int32)
    full = np.zeros(len(values), np.int64)
    full[np.asarray(values.is_valid())] = lengths
    np.cumsum(full, out=offsets[1:])
    parts = [values.buffers()[0], pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.string(), len(values), parts, values.null_count)
