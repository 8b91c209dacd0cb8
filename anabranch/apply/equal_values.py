"""Values that a target may take for equal, though their texts differ: which may, and a text that equal ones have in common.

It errs on one side only: values that are told to be different are. Collations fold case, marks and blanks, take signs for
nothing or several letters for one, and some languages' take i for j or y, u for v or w, c for ch. So of a text letters and
digits count, without all that; one with anything else than ASCII may be equal to whatever there is. Rules of a collation that
somebody made are not known. What does not live here: what is done about such values (`scheduling.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType

# Equal values of these kinds have equal texts, unless the source prints them, or the job chose another type for them
EXACT = frozenset(
    {Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64, Kind.YEAR}
    | {Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION, Kind.UUID}
)
FOLDED = frozenset({Kind.TEXT, Kind.ENUM, Kind.SET})
# https://dev.mysql.com/doc/refman/8.0/en/charset-unicode-sets.html#charset-unicode-sets-language-specific-collations
ALIKE = str.maketrans("jyvw", "iiuu", "h")
# https://www.postgresql.org/docs/current/collation.html#ICU-COLLATION-SETTINGS-TABLE (kn)
LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


class Comparable(NamedTuple):
    """A value: `text`, which those have in common that may be equal to it, if it `is_clear`; None is NULL."""

    text: str | bytes | None
    is_clear: bool


def may_be_unclear(type: LogicalType) -> bool:
    """Return whether there are values of this type of which nobody can say here to which others they are equal."""
    return type.kind not in EXACT or type.printed or bool(type.target)


def compared(column: pa.Array, type: LogicalType) -> Sequence[Comparable]:
    """Return the values of a column of SmallChanges for comparison."""
    found: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    if not may_be_unclear(type):
        return [Comparable(value, True) for value in found]
    if type.kind not in FOLDED or type.printed or type.target:
        return [Comparable(value, value is None) for value in found]
    return [_folded(value) for value in found]


def _folded(value: bytes | None) -> Comparable:
    if value is None or not value.isascii() or any(byte < 32 or byte == 127 for byte in value):
        return Comparable(value, value is None)
    text = "".join(filter(str.isalnum, value.decode("ascii"))).lower().translate(ALIKE)
    return Comparable(LEADING_ZEROS.sub("", text), True)
