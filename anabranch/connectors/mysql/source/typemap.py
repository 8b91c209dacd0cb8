"""Native types of MySQL and MariaDB -> logical types, as data.

What is not in the tables is refused with a reason, so that preflight can offer to drop the column. Vendor pages:
https://dev.mysql.com/doc/refman/8.0/en/data-types.html · https://mariadb.com/kb/en/data-types/
What does not live here: how values are spelled (`expressions.py`), how a target stores a logical type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.connectors.mysql.charsets import CHARSETS
from anabranch.model.datatype import Kind, LogicalType

# https://dev.mysql.com/doc/refman/8.0/en/integer-types.html: name -> (signed, unsigned)
INTEGERS = {
    "tinyint": (Kind.INT8, Kind.UINT8),
    "smallint": (Kind.INT16, Kind.UINT16),
    "mediumint": (Kind.INT32, Kind.UINT32),
    "int": (Kind.INT32, Kind.UINT32),
    "bigint": (Kind.INT64, Kind.UINT64),
}
# https://dev.mysql.com/doc/refman/8.0/en/string-type-syntax.html: name -> most bytes a value has
TEXTS = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295}
BLOBS = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295}
# https://dev.mysql.com/doc/refman/8.0/en/date-and-time-types.html
CLOCKS = {"datetime": Kind.TIMESTAMP, "timestamp": Kind.INSTANT, "time": Kind.DURATION}
# Why a type is refused, where there is more to say than that it is not known.
REASONS = {
    "xmltype": "XMLTYPE is not replicated yet",
}
# https://dev.mysql.com/doc/refman/8.0/en/spatial-type-overview.html
GEOMETRIES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
              "geometrycollection", "geomcollection")  # fmt: skip
# https://mariadb.com/kb/en/inet4/ · https://mariadb.com/kb/en/inet6/: name -> bytes
ADDRESSES = {"inet4": 4, "inet6": 16}


@dataclass(frozen=True, slots=True)
class NativeType:
    """A column's type as information_schema.COLUMNS tells it."""

    name: str  # DATA_TYPE
    full: str  # COLUMN_TYPE
    charset: str = ""
    length: int | None = None  # CHARACTER_MAXIMUM_LENGTH
    precision: int = 0
    scale: int = 0
    fraction: int = 0
    is_json: bool = False  # MariaDB: a longtext whose check says json_valid(column)
    family: str = ""  # mysql or mariadb, for what is not the same of both


class Refused(Exception):
    """This native type has no logical type; the text says why."""


def logical_type(native: NativeType) -> LogicalType:
    """Return the logical type of a native one. Raises Refused."""
    if native.name in INTEGERS:
        return LogicalType(INTEGERS[native.name]["unsigned" in native.full])
    make = _MAKERS.get(native.name)
    if make is None:
        raise Refused(REASONS.get(native.name, f"the type {native.full} is not known"))
    return make(native)


def labels(full: str) -> tuple[str, ...]:
    """Return the values of `enum('a','it''s')` or `set(…)` in declaration order, with escapes undone."""
    return tuple(_unescape(quoted) for quoted in re.findall(r"'((?:[^'\\]|''|\\.)*)'", full, re.DOTALL))


def unquote(literal: str) -> str:
    """Return the text of a string literal in single quotes, as the server prints it."""
    return _unescape(literal[1:-1])


_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _unescape(text: str) -> str:
    """Undo the escapes of a string literal. https://dev.mysql.com/doc/refman/8.0/en/string-literals.html"""
    return re.sub(r"''|\\(.)", lambda m: _ESCAPED.get(m[1], m[1]) if m[1] is not None else "'", text, flags=re.DOTALL)


def _text(native: NativeType) -> LogicalType:
    if native.charset not in CHARSETS:
        raise Refused(f"the character set {native.charset} is not known")
    if native.is_json:
        return LogicalType(Kind.JSON)
    return LogicalType(Kind.TEXT, length=None if native.name in TEXTS else native.length)


def _elements(native: NativeType) -> int | None:
    """Return how many elements each vector of `vector(3)` has. In MySQL it is only the most that one may have, and says
    nothing.

    https://dev.mysql.com/doc/refman/9.7/en/vector.html · https://mariadb.com/kb/en/vector/
    """
    found = re.search(r"\((\d+)\)", native.full)
    return int(found[1]) if found and native.family == "mariadb" else None


def _labelled(kind: Kind) -> Callable[[NativeType], LogicalType]:
    def make(native: NativeType) -> LogicalType:
        if native.charset not in CHARSETS:
            raise Refused(f"labels in the character set {native.charset or 'binary'} are not known")
        return LogicalType(kind, values=labels(native.full))

    return make


_MAKERS: dict[str, Callable[[NativeType], LogicalType]] = {
    "decimal": lambda n: LogicalType(Kind.DECIMAL, precision=n.precision, scale=n.scale),
    "float": lambda n: LogicalType(Kind.FLOAT32),
    "double": lambda n: LogicalType(Kind.FLOAT64),
    "bit": lambda n: LogicalType(Kind.BIT, length=n.precision),
    "date": lambda n: LogicalType(Kind.DATE),
    "year": lambda n: LogicalType(Kind.YEAR),
    "json": lambda n: LogicalType(Kind.JSON),
    "enum": _labelled(Kind.ENUM),
    "set": _labelled(Kind.SET),
    "binary": lambda n: LogicalType(Kind.BINARY, length=n.length),
    "varbinary": lambda n: LogicalType(Kind.BINARY, length=n.length),
    "uuid": lambda n: LogicalType(Kind.UUID),
    "vector": lambda n: LogicalType(Kind.VECTOR, length=_elements(n)),
    **dict.fromkeys(ADDRESSES, lambda n: LogicalType(Kind.INET)),
    **dict.fromkeys(GEOMETRIES, lambda n: LogicalType(Kind.GEOMETRY)),
    **dict.fromkeys(("char", "varchar", *TEXTS), _text),
    **{name: lambda n: LogicalType(Kind.BINARY) for name in BLOBS},
    **{name: lambda n: LogicalType(CLOCKS[n.name], fraction=n.fraction) for name in CLOCKS},
}


def spelled(native: str, family: str) -> LogicalType | None:
    """Return the logical type of a type as a statement spells it, `decimal(10,2)`; None for one that is not known. Texts are
    of utf8mb4."""
    name = native.partition("(")[0].partition(" ")[0].lower()
    sizes = [int(size) for size in re.findall(r"\d+", native.partition("(")[2])] if name not in ("enum", "set") else []
    first, second = (*sizes, 0, 0)[:2]
    precision = first or (10 if name == "decimal" else 1)
    length = first or 1
    made = NativeType(name, native, "utf8mb4", length, precision, second, first if name in CLOCKS else 0, family=family)
    try:
        return logical_type(made)
    except Refused:
        return None
