"""Values that a target may take for equal, though their texts differ: which may, and a text that equal ones have in common.

It errs on one side only: values that are told to be different are. Collations fold case, marks and blanks, take signs for
nothing or several letters for one. So of a text letters and digits count, without their case; one with anything else than ASCII
may be equal to whatever there is. What does not live here: what is done about such values (`scheduling.py`).
"""

from __future__ import annotations

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
    text = value.decode("ascii")
    return Comparable("".join(filter(str.isalnum, text)).lower(), True)
