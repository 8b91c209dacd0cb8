"""A PostgreSQL's own types -> logical types: the few that every database has in the same sense; all others stay native, in the
text form that the server prints, which another PostgreSQL reads as the same value.

https://www.postgresql.org/docs/current/datatype.html
"""

from __future__ import annotations

import re

from anabranch.model.datatype import Kind, LogicalType

# format_type's name -> kind
_KINDS: dict[str, Kind] = {
    "smallint": Kind.INT16,
    "integer": Kind.INT32,
    "bigint": Kind.INT64,
    "real": Kind.FLOAT32,
    "double precision": Kind.FLOAT64,
    "text": Kind.TEXT,
    "character varying": Kind.TEXT,
    "bytea": Kind.BINARY,
    "uuid": Kind.UUID,
}
_SIZED = re.compile(r"character varying\((\d+)\)")


def logical_type(native: str) -> LogicalType:
    """Return the logical type of a type as format_type() spells it."""
    if sized := _SIZED.fullmatch(native):
        return LogicalType(Kind.TEXT, length=int(sized[1]))
    return LogicalType(_KINDS.get(native, Kind.NATIVE), native=native)


def bare(native: str) -> str:
    """Remove what is in parentheses: `time(3) with time zone` -> `time with time zone`."""
    head, _, tail = native.partition("(")
    return head + tail.partition(")")[2]
