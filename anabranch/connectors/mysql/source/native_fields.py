"""Columns as the compiled decoder (`native/src/layout.rs`) is told of them: a name, numbers, byte strings.

What each means is said in `native/src/fields.rs`; what Python does with the same column in `fields.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache

import pyarrow as pa

from anabranch.connectors.mysql.charsets import CHARSETS, BadText, decoder, is_utf8
from anabranch.connectors.mysql.source import tablemap as t
from anabranch.connectors.mysql.source.fields import _LENGTHS, _RECORDS, _TEXT_KINDS, field_of
from anabranch.connectors.mysql.source.tablemap import LogColumn, native_of
from anabranch.connectors.mysql.source.values import labels
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column
from anabranch.rows.arrow import arrow_type

Description = tuple[str, Sequence[int], Sequence[bytes]]
_MOST_DIGITS = 38  # of a decimal in two words
_MOST_LABELS = 64


def described(logged: Sequence[LogColumn], columns: Sequence[Column]) -> list[Description] | None:
    """Return all columns of a table, None when one of them is of a kind that only Python decodes."""
    found = [_described(log, column) for log, column in zip(logged, columns, strict=True)]
    return None if None in found else [one for one in found if one is not None]


def _described(log: LogColumn, column: Column) -> Description | None:
    if column.type is None:
        return _skipped(log, column)
    maker = _FIELDS.get(log.type)
    made = maker(log, column) if maker else None
    return made if made is None or _fits(made[0], column) else None


def _skipped(log: LogColumn, column: Column) -> Description:
    one = field_of(log, column)
    size = struct.calcsize("<" + one.code)
    return ("skip_variable" if one.variable else "skip"), [size], []


def _fits(name: str, column: Column) -> bool:
    """Return whether the compiled decoder's value is what the column's Arrow type keeps."""
    return bool(_ARROW[name](arrow_type(column.type)))


def _integer(width: int) -> Callable[[LogColumn, Column], Description | None]:
    def made(log: LogColumn, column: Column) -> Description | None:
        is_signed = not native_of(column).unsigned
        type = arrow_type(column.type)
        is_same = pa.types.is_signed_integer(type) == is_signed and type.bit_width >= 8 * width
        return ("integer", [width, is_signed], []) if is_same else None

    return made


def _real(name: str, size: int) -> Callable[[LogColumn, Column], Description | None]:
    return lambda log, column: ("copy", [size], []) if str(arrow_type(column.type)) == name else None


def _decimal(log: LogColumn, column: Column) -> Description | None:
    assert column.type is not None
    if column.type.kind is not Kind.DECIMAL or (column.type.precision, column.type.scale) != (log.meta, log.scale):
        return None
    whole = log.meta - log.scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (log.scale // 9), log.scale % 9]
    return "decimal", [log.meta > _MOST_DIGITS, *groups], []


def _plain(name: str) -> Callable[[LogColumn, Column], Description | None]:
    return lambda log, column: (name, [], [])


def _fraction(name: str) -> Callable[[LogColumn, Column], Description | None]:
    return lambda log, column: (name, [(log.meta + 1) // 2], [])


def _year(log: LogColumn, column: Column) -> Description | None:
    return "year", [2000 if native_of(column).numbers == (2,) else 0], []


def _bits(log: LogColumn, column: Column) -> Description | None:
    return "bits", [(log.meta + 7) // 8], []


def _label(log: LogColumn, column: Column) -> Description | None:
    return ("label", [log.meta], labels(column)) if log.meta in (1, 2) else None


def _labels(log: LogColumn, column: Column) -> Description | None:
    names = labels(column)[1:]
    return ("labels", [log.meta], names) if log.meta in (1, 2, 3, 4, 8) and len(names) <= _MOST_LABELS else None


def _string(log: LogColumn, column: Column) -> Description | None:
    assert column.type is not None
    length = 1 if log.meta < 256 else 2
    if column.type.kind in _RECORDS:
        return None
    if column.type.kind is Kind.BINARY:
        return "padded", [length, log.meta], []
    return _text(length, column)


def _varchar(log: LogColumn, column: Column) -> Description | None:
    return _text(1 if log.meta < 256 else 2, column)


def _blob(log: LogColumn, column: Column) -> Description | None:
    return _text(log.meta, column) if log.meta in _LENGTHS else None


def _text(length: int, column: Column) -> Description | None:
    assert column.type is not None
    charset = column.charset.lower()
    if column.type.kind not in _TEXT_KINDS or is_utf8(charset):
        return ("utf8" if pa.types.is_string(arrow_type(column.type)) else "bytes"), [length], []
    facts = CHARSETS[charset]
    if facts.longest > 1:
        return None
    return "characters", [length, facts.has_ascii], _characters(charset)


@cache
def _characters(charset: str) -> list[bytes]:
    """Return the character of each byte of a single-byte set, empty where there is none."""
    decode, found = decoder(charset), []
    for byte in range(256):
        try:
            found.append(decode(bytes((byte,))))
        except BadText:
            found.append(b"")
    return found


_FIELDS: dict[int, Callable[[LogColumn, Column], Description | None]] = {
    t.TINY: _integer(1),
    t.SHORT: _integer(2),
    t.INT24: _integer(3),
    t.LONG: _integer(4),
    t.LONGLONG: _integer(8),
    t.FLOAT: _real("float", 4),
    t.DOUBLE: _real("double", 8),
    t.NEWDECIMAL: _decimal,
    t.YEAR: _year,
    t.DATE: _plain("date"),
    t.NEWDATE: _plain("date"),
    t.TIME2: _fraction("time"),
    t.DATETIME2: _fraction("datetime"),
    t.TIMESTAMP2: _fraction("timestamp"),
    t.BIT: _bits,
    t.ENUM: _label,
    t.SET: _labels,
    t.STRING: _string,
    t.VARCHAR: _varchar,
    t.VAR_STRING: _varchar,
    t.BLOB: _blob,
    t.VECTOR: _blob,
}

_TEXTS = dict.fromkeys(("label", "labels", "utf8", "characters"), pa.types.is_string)
_ARROW: dict[str, Callable[[pa.DataType], bool]] = {
    **_TEXTS,
    **dict.fromkeys(("bytes", "padded"), pa.types.is_binary),
    "integer": pa.types.is_integer,
    "copy": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date32,
    "time": lambda type: type == pa.int64(),
    "datetime": lambda type: type == pa.timestamp("us"),
    "timestamp": lambda type: type == pa.timestamp("us", "UTC"),
    "year": lambda type: type == pa.int16(),
    "bits": lambda type: type == pa.uint64(),
}
