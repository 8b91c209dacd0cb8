"""Values of a logical type, drawn at random, in text form (model/datatype.py). What a source's own type does not take of them
it refuses; the edges of its types it knows itself.

What does not live here: putting them anywhere, what becomes of them (`certificate.py`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import numpy as np

from anabranch.model.datatype import Kind, LogicalType

LONGEST = 60  # characters or bytes of a drawn value
DIGITS = 30  # of a number whose type has no precision
# Blocks that characters are drawn from: what a single byte has, other scripts, and beyond 16 bits. None is a surrogate or NUL.
CHARACTERS = ((0x20, 0x7E), (0x01, 0x1F), (0xA1, 0xFF), (0x370, 0x3FF), (0x4E00, 0x4FFF), (0x1F600, 0x1F64F))
INTEGERS = {
    Kind.INT8: (-(1 << 7), (1 << 7) - 1),
    Kind.INT16: (-(1 << 15), (1 << 15) - 1),
    Kind.INT32: (-(1 << 31), (1 << 31) - 1),
    Kind.INT64: (-(1 << 63), (1 << 63) - 1),
    Kind.UINT8: (0, (1 << 8) - 1),
    Kind.UINT16: (0, (1 << 16) - 1),
    Kind.UINT32: (0, (1 << 32) - 1),
    Kind.UINT64: (0, (1 << 64) - 1),
    Kind.YEAR: (1901, 2155),
}
FIRST, LAST = date(1000, 1, 1).toordinal(), date(9999, 12, 31).toordinal()
MOMENTS = (86_400, 2_147_400_000)  # seconds from 1970 on that a MySQL's timestamp has, too
DURATION = 838 * 3600  # seconds of a MySQL's time


def drawn(type: LogicalType, random: Random, count: int) -> list[str]:
    """Draw so many values, equal ones among them; none for a kind that has no form of its own."""
    draw = _DRAWN.get(type.kind)
    return [] if draw is None else [draw(type, random) for _ in range(count)]


def _integer(type: LogicalType, random: Random) -> str:
    low, high = INTEGERS[type.kind]
    return str(random.choice((low, high, random.randint(low, high), min(max(random.randint(-99, 99), low), high))))


def _decimal(type: LogicalType, random: Random) -> str:
    precision, scale = (type.precision, type.scale) if type.precision else (DIGITS, random.randint(0, 12))
    digits = str(random.randrange(10 ** random.randint(0, precision))).rjust(max(scale, 0) + 1, "0")
    sign = "-" * random.randint(0, 1)
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale > 0 else digits)


def _float(type: LogicalType, random: Random) -> str:
    form, width, number = ("<f", 4, np.float32) if type.kind is Kind.FLOAT32 else ("<d", 8, np.float64)
    while True:
        (value,) = struct.unpack(form, random.randbytes(width))
        if np.isfinite(value):
            return str(number(value))


def _text(type: LogicalType, random: Random) -> str:
    most = min(type.length or LONGEST, LONGEST)
    blocks = CHARACTERS[: random.randint(1, len(CHARACTERS))]
    return "".join(chr(random.randint(*random.choice(blocks))) for _ in range(random.randint(0, most)))


def _binary(type: LogicalType, random: Random) -> str:
    return "\\x" + random.randbytes(random.randint(0, min(type.length or LONGEST, LONGEST))).hex()


def _bit(type: LogicalType, random: Random) -> str:
    return "".join(random.choice("01") for _ in range(type.length or 8))


def _day(random: Random) -> date:
    return date.fromordinal(random.randint(FIRST, LAST))


def _seconds(random: Random, fraction: int) -> str:
    return f"{random.randint(0, 59):02}" + (f".{random.randrange(10**fraction):0{fraction}}" if fraction else "")


def _clock(random: Random, fraction: int) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{_seconds(random, fraction)}"


def _instant(type: LogicalType, random: Random) -> str:
    at = datetime(1970, 1, 1) + timedelta(seconds=random.randint(*MOMENTS))
    fraction = min(type.fraction, 6)
    digits = f".{random.randrange(10**fraction):0{fraction}}" if fraction else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{digits}+00"


def _duration(type: LogicalType, random: Random) -> str:
    size = random.randrange(DURATION)
    sign = "-" * random.randint(0, 1)
    return f"{sign}{size // 3600:02}:{size // 60 % 60:02}:{_seconds(random, min(type.fraction, 6))}"


def _interval(type: LogicalType, random: Random) -> str:
    years, days = random.randint(-99, 99), random.randint(-999, 999)
    return f"{years} years {days} days {_clock(random, min(type.fraction, 6))}"


def _set(type: LogicalType, random: Random) -> str:
    return ",".join(label for label in type.values if random.random() < 0.5)


def _json(type: LogicalType, random: Random) -> str:
    return json.dumps(_document(random, 3), ensure_ascii=bool(random.randint(0, 1)))


def _document(random: Random, depth: int) -> Any:
    made = random.randint(0, 7 if depth else 5)
    if made == 6:
        return [_document(random, depth - 1) for _ in range(random.randint(0, 4))]
    if made == 7:
        return {_word(random): _document(random, depth - 1) for _ in range(random.randint(0, 4))}
    plain = (None, True, False, random.randint(-(1 << 63), (1 << 63) - 1), random.uniform(-1e9, 1e9), _word(random))
    return plain[made]


def _word(random: Random) -> str:
    return _text(LogicalType(Kind.TEXT, 12), random)


def _address(type: LogicalType, random: Random) -> str:
    if random.randint(0, 1):
        return ".".join(str(random.randint(0, 255)) for _ in range(4))
    return ":".join(f"{random.choice((0, random.getrandbits(16))):x}" for _ in range(8))


_DRAWN: Mapping[Kind, Callable[[LogicalType, Random], str]] = {
    **dict.fromkeys(INTEGERS, _integer),
    Kind.DECIMAL: _decimal,
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.BOOLEAN: lambda type, random: random.choice("tf"),
    Kind.TEXT: _text,
    Kind.BINARY: _binary,
    Kind.BIT: _bit,
    Kind.DATE: lambda type, random: str(_day(random)),
    Kind.TIME: lambda type, random: _clock(random, min(type.fraction, 6)),
    Kind.TIMESTAMP: lambda type, random: f"{_day(random)} {_clock(random, min(type.fraction, 6))}",
    Kind.INSTANT: _instant,
    Kind.DURATION: _duration,
    Kind.INTERVAL: _interval,
    Kind.ENUM: lambda type, random: random.choice(type.values or ("",)),
    Kind.SET: _set,
    Kind.JSON: _json,
    Kind.UUID: lambda type, random: str(UUID(int=random.getrandbits(128))),
    Kind.INET: _address,
}
