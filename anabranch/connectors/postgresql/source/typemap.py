"""A PostgreSQL's own types -> logical types. A type that other databases have in the same sense gets its kind; all others stay
native, in the text form that the server prints, which another PostgreSQL reads as the same value.

Of most kinds the rows keep that printed text, too: it has the values that Arrow's types have no room for. Its form is told by
the session (settings.py): ISO dates, UTC, intervals in the style `postgres`.

https://www.postgresql.org/docs/current/datatype.html
"""

from __future__ import annotations

import re
from dataclasses import replace

from anabranch.model.datatype import Kind, LogicalType, Special
from anabranch.rows.json_arrays import ARRAY

# format_type's name -> kind
KINDS: dict[str, Kind] = {
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
# The same without what is in parentheses -> kind of values that stay as they are printed, and values beside those of the kind
PRINTED: dict[str, tuple[Kind, tuple[Special, ...]]] = {
    "boolean": (Kind.BOOLEAN, ()),
    "numeric": (Kind.DECIMAL, (Special.NAN, Special.INFINITIES)),  # infinities since 14, where no digits are declared
    "bit": (Kind.BIT, ()),
    "date": (Kind.DATE, (Special.INFINITIES, Special.BEFORE_CHRIST)),
    "time without time zone": (Kind.TIME, ()),
    "timestamp without time zone": (Kind.TIMESTAMP, (Special.INFINITIES, Special.BEFORE_CHRIST)),
    "timestamp with time zone": (Kind.INSTANT, (Special.INFINITIES, Special.BEFORE_CHRIST)),
    "interval": (Kind.INTERVAL, (Special.INFINITIES,)),  # infinities since 17
    "json": (Kind.JSON, ()),
    "jsonb": (Kind.JSON, ()),
}
_SIZED = re.compile(r"character varying\((\d+)\)")
_SIZES = re.compile(r"\((-?\d+)(?:,(-?\d+))?\)")
_FIELDS = re.compile(r"interval (?:year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?")
_CLOCKS = (Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT, Kind.INTERVAL)


def logical_type(
    native: str,
    base: str = "",
    labels: tuple[str, ...] = (),
    delimiter: str = "",
    fields: tuple[tuple[str, str], ...] = (),
) -> LogicalType:
    """Return the logical type of a type as format_type() spells it. `base`: what a domain is made of in the end; a domain has
    the values of that, printed. `labels`: of an enum, or a domain over one. `delimiter`: what stands between elements, of a
    type that has some. `fields`: of a composite, names and types."""
    if base:
        return replace(logical_type(base, labels=labels), native=native, base=base, printed=True)
    if labels:
        return LogicalType(Kind.ENUM, values=labels, native=native, printed=True)
    if sized := _SIZED.fullmatch(native):
        return LogicalType(Kind.TEXT, length=int(sized[1]))
    if native in KINDS:
        return LogicalType(KINDS[native], native=native)
    if native.endswith(ARRAY):  # a type that is no array may have elements, too: `point`, `int2vector`
        return LogicalType(Kind.NATIVE, native=native, delimiter=delimiter)
    if fields:
        return LogicalType(Kind.NATIVE, native=native, fields=fields)
    name = bare(native)
    found = PRINTED.get("interval" if _FIELDS.fullmatch(name) else name)
    return _printed(native, *found) if found else LogicalType(Kind.NATIVE, native=native)


def _printed(native: str, kind: Kind, specials: tuple[Special, ...]) -> LogicalType:
    """Return a type whose sizes stand in parentheses, if it has any."""
    sizes = _SIZES.search(native)
    first, second = (int(sizes[1]), int(sizes[2] or 0)) if sizes else (None, 0)
    if kind is Kind.DECIMAL and first:
        return LogicalType(kind, None, first, second, native=native, printed=True, specials=(Special.NAN,))
    fraction = 6 if first is None or kind not in _CLOCKS else first
    length = first if kind is Kind.BIT else None
    return LogicalType(kind, length, fraction=fraction, native=native, printed=True, specials=specials)


def bare(native: str) -> str:
    """Remove what is in parentheses: `time(3) with time zone` -> `time with time zone`."""
    head, _, tail = native.partition("(")
    return head + tail.partition(")")[2]


# What statements write -> format_type's name; sizes stand behind its first word.
_LONG = {
    "varchar": ("character varying", ""),
    "timestamp": ("timestamp", " without time zone"),
    "timestamptz": ("timestamp", " with time zone"),
    "time": ("time", " without time zone"),
    "varbit": ("bit varying", ""),
}


def spelled(native: str) -> LogicalType:
    """Return the logical type of a type as a statement spells it: `timestamptz(3)`."""
    name, bracket, sizes = native.partition("(")
    first, last = _LONG.get(name, (name, ""))
    return logical_type(f"{first}{bracket}{sizes}{last}")
