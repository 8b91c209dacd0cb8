"""Refusals of single values, in one form for load, log and verification: table, column, key of the row, and what decides it.
The value itself is never shown.

What does not live here: which values are refused (each connector, rows/arrow.py), the line of the job file (cli/main.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.errors import ValueRefused
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.arrow import array

NO_KEY = "a row without a key"
NO_TEXT = "bytes that are no text in UTF-8"
NO_WORDS = "what cannot be converted"
_REFUSAL = re.compile(
    r"column (?P<column>.+?) of (?P<row>the row with .*|a row without a key) holds (?P<what>.*)", re.DOTALL
)
LEAVE_OUT = (
    "correct the row at the source; what the log holds already stays as it is: load the table again then, or leave the column"
    " out ([[tables]] columns.drop)"
)


def refused(
    table: TableId, column: str, key: Mapping[str, str | None], what: str, hint: str = LEAVE_OUT, position: str = ""
) -> ValueRefused:
    """Build the error for a value that is refused. `key`: text forms by column, empty where the row has no key."""
    row = f"the row with {', '.join(f'{name}={value}' for name, value in key.items())}" if key else NO_KEY
    return ValueRefused(
        f"column {column} of {row} holds {what}", table=str(table), position=position or None, hint=hint
    )


def readable(stored: bytes) -> str:
    """Return bytes as people can read them, whatever they are."""
    return stored.decode(errors="backslashreplace")


def raw_text(type: LogicalType | None, raw: Any) -> str | None:
    """Return a raw value (rows/arrow.py) in text form; one that has none, as it can be read."""
    if raw is None or type is None:
        return None
    from anabranch.rows.lines import texts  # with pyarrow.compute, without which capture has 20 MB and 50 ms less

    try:
        return str(texts(type, array(type, [raw]))[0].as_py())
    except (ValueError, OverflowError):
        return readable(raw) if isinstance(raw, bytes) else "?"


def first_refused(type: LogicalType, values: Sequence[Any]) -> int:
    """Return the place of the first raw value that the type does not hold. Raises ValueError where it holds each."""
    for place in all_refused(type, values):
        return place
    raise ValueError(f"each of {len(values)} values is a {type}, all together are not")


def all_refused(type: LogicalType, values: Sequence[Any]) -> Iterator[int]:
    """Yield the places of all raw values that the type does not hold."""
    for place, value in enumerate(values):
        try:
            array(type, [value])
        except (ValueError, OverflowError):
            yield place


def what_is_wrong(type: LogicalType, raw: Any) -> str:
    """Return words for such a value, without it."""
    return NO_TEXT if isinstance(raw, bytes) else f"what is no {type}"


def fault_of_text(type: LogicalType, stored: bytes) -> str:
    """Return words for a value in text form that is none of the type, without it."""
    try:
        stored.decode()
    except UnicodeDecodeError:
        return NO_TEXT
    return f"text that is no {type}"


def read_refusal(message: str) -> tuple[str, str, str]:
    """Return column, key and words of the message of `refused`; the message alone as the words where it is another one."""
    found = _REFUSAL.fullmatch(message)
    if found is None:
        return "", "", message
    row = found["row"].removeprefix("the row with ")
    return found["column"], "" if row == NO_KEY else row, found["what"]
