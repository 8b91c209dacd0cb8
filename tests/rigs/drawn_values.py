"""Values of types that hypothesis draws, as literals of SQL, and how each end tells such a value: one expression for the
source's server, one for a MySQL or MariaDB as the target. Equal values have equal texts: the servers are the judges.

What does not live here: jobs and their tables (test_mysql_target_rounds.py), types of one server (drawn_postgresql.py,
drawn_mysql.py).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Values = st.SearchStrategy[str]
Same = Callable[[str], object]
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TRICKY = ("", " ", "a  ", "\t\n\r\\N", "\\x41", "'\"`", "é\u0301", "😀", "\x01\x7f", "\u2028", "NULL", "%s")
TEXTS = st.sampled_from(TRICKY) | WORDS
DAYS = st.dates()
LAST_DAY = "9999-12-31"


@dataclass(frozen=True)
class Drawn:
    """A type with literals of its values. `here`, `there`: expressions over the column v. `same`: what of their texts is
    compared; the text itself unless the table of types says that something is lost. `setup`: statements of the source."""

    native: str
    values: Values
    here: str
    there: str
    same: Same = str
    setup: tuple[str, ...] = ()


def draw(strategy: Values, count: int) -> list[str]:
    """Return what hypothesis draws, the same each time. All edges that a strategy samples from are in a few hundred of them."""
    found: list[str] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def take(value: str) -> None:
        found.append(value)

    take()
    return found


def whole(low: int, high: int) -> Values:
    """Integers of a range, its ends among them."""
    return (st.sampled_from((low, high, max(low, 0), low + 1)) | st.integers(low, high)).map(str)


def decimals(digits: int, scale: int) -> Values:
    """Numbers with so many digits in all, as a server spells them."""
    limit = 10**digits - 1
    numbers = st.sampled_from((limit, -limit, 0, 1, -1)) | st.integers(-limit, limit)
    return numbers.map(lambda number: _placed(number, scale))


def _placed(number: int, scale: int) -> str:
    text = str(abs(number)).rjust(scale + 1, "0")
    text = f"{text[:-scale]}.{text[-scale:]}" if scale else text
    return "-" * (number < 0) + text


def floats(width: int, spelled: Callable[[str], str]) -> Values:
    """Any bits that are a finite number, with digits that no server reads as another one."""
    form = "<f" if width == 4 else "<d"
    bits = st.binary(min_size=width, max_size=width).map(lambda data: struct.unpack(form, data)[0])
    least, greatest = (2**-149, 2**128 - 2**104) if width == 4 else (5e-324, 1.7976931348623157e308)
    edges = (0.0, -0.0, 1.0, least, -least, float(greatest), -float(greatest), 7.038530691851209e-26, 1e23)
    drawn = st.sampled_from(edges) | bits.filter(math.isfinite)
    return drawn.map(lambda value: spelled(f"{value:.17g}"))


def number(text: str) -> object:
    """Tell a number by its value and its sign, however it is spelled."""
    value = float(text)
    return value, math.copysign(1.0, value)


def unsigned_zero(text: str) -> object:
    """Tell a number by its value: 0 has no sign at a MariaDB, as the table of types says."""
    return float(text)


def hexadecimal(text: str) -> str:
    return text.encode().hex()


# MySQL reads some doubles of a document with another last digit; those with few digits it does not.
NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-1_000_000, 1_000_000).map(lambda number: number / 64)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
).map(json.dumps)
ODD_DOCUMENTS = ('{"b": 1,  "a": [1, 2.50, null, "\\u00e4"]}', "-0.0", "1.000", "[]", '""')

BEYOND = "12345678901234567890123"  # a number beyond 64 bits, which a MySQL stores as a double, and verify tells


def document(text: str) -> object:
    """Tell a JSON document by its value, numbers beyond 64 bits as doubles: what a MySQL keeps of it."""
    return json.loads(bytes.fromhex(text), parse_int=_in_64_bits)


def _in_64_bits(text: str) -> Any:
    return int(text) if -(1 << 63) <= int(text) < 1 << 64 else float(text)
