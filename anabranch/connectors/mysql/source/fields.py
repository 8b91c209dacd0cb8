"""Column types in a row image, as pieces of code for the decoders that `rows_decode.py` generates.

https://dev.mysql.com/doc/dev/mysql-server/latest/field_8h.html, strings/decimal.cc, sql-common/my_time.cc. Names that
the pieces use besides their own (`midnight`, `clock`, …) are bound by `environment`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.connectors.mysql.charsets import CHARSETS, is_utf8
from anabranch.connectors.mysql.source import tablemap as t
from anabranch.connectors.mysql.source.coded import address, ewkb, inflated, uuid_of_record
from anabranch.connectors.mysql.source.json_binary import to_text
from anabranch.connectors.mysql.source.json_partial import patched
from anabranch.connectors.mysql.source.tablemap import LogColumn, native_of
from anabranch.connectors.mysql.source.values import (
    Zero,
    clock_table,
    days_table,
    duration,
    hires_datetime,
    label_sets,
    labels,
    midnight_table,
    old_datetime,
    old_duration,
    stored_as,
    text_of,
    zero_instant,
)
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes of 0..9 leftover digits of a DECIMAL
# MariaDB before 10.1, bytes by digits of a second; TIME counts from just below its least value, in seconds.
# https://mariadb.com/kb/en/microseconds-in-mariadb/, sql/field.cc (Field_datetime_hires, Field_time_hires)
_HIRES_BYTES = {"datetime": (8, 6, 6, 7, 7, 7, 8), "time": (3, 4, 4, 5, 5, 5, 6)}
_HIRES_ZERO = (838 * 60 + 59) * 60 + 60
_LENGTHS = {1: "B", 2: "H", 3: "HB", 4: "I"}  # bytes of a length -> struct codes
_RECORDS = {Kind.UUID: "uuid_of_record", Kind.INET: "address"}
_TEXT_KINDS = (Kind.TEXT, Kind.JSON, Kind.ENUM, Kind.SET)


class Unfit(Exception):
    """The table's rows cannot be decoded by the definition in force: it has to be parked."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column. `code`: struct codes (little-endian) of its fixed bytes, or of the length when `variable`; the codes'
    values are `{a}` and `{b}` (variable: `{a}` is the bytes). `lines` run first, then `value` is appended. `names` are bound
    for the whole function under `<name>{i}`, where i is the column's place; so is what `by_zero` makes of what becomes of
    bad values (values.py)."""

    code: str
    value: str = "{a}"
    lines: tuple[str, ...] = ()
    variable: bool = False
    names: dict[str, Any] = field(default_factory=dict)
    by_zero: dict[str, Callable[[Any], Any]] = field(default_factory=dict)


def of_dates(zero: Zero) -> dict[str, Any]:
    """Return the names that pieces for dates refer to (OF_DATES). `zero`: the stand-in for dates that are none."""
    return {
        "midnight": midnight_table(zero.moment),
        "days": days_table(zero.day),
        "zero": zero_instant(zero.moment),
        "old_datetime": old_datetime(zero.moment),
        "hires_datetime": hires_datetime(zero.moment),
    }


OF_DATES = re.compile(r"\b(?:midnight|days|zero|old_datetime|hires_datetime)\b")


def environment() -> dict[str, Any]:
    """Return the other names that the pieces refer to."""
    return {
        "from_bytes": int.from_bytes,
        "clock": clock_table(),
        "old_duration": old_duration,
        "duration0": duration(0),
        "duration1": duration(1),
        "duration2": duration(2),
        "duration3": duration(3),
        "json_text": to_text,
        "patched": patched,
        "address": address,
        "uuid_of_record": uuid_of_record,
    }


def field_of(log: LogColumn, column: Column) -> Field:
    """Return the piece for a column. Raises Unfit for an unknown type."""
    maker = _FIELDS.get(log.type)
    if maker is None:
        raise Unfit(f"column {column.name}: the log has type {log.type}, which nobody can read")
    return maker(log, column)


def _integer(signed: str, unsigned: str, value: str = "{a}") -> Callable[[LogColumn, Column], Field]:
    return lambda log, column: Field(unsigned if native_of(column).unsigned else signed, value)


def _fixed(code: str, value: str = "{a}") -> Callable[[LogColumn, Column], Field]:
    return lambda log, column: Field(code, value)


def _decimal(log: LogColumn, column: Column) -> Field:
    """Decode a DECIMAL: groups of nine digits in four bytes, leftover digits in fewer, big-endian, the sign in the
    highest bit.

    Negative numbers have all bits inverted.
    """
    whole = log.meta - log.scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (log.scale // 9), log.scale % 9]
    digits, below, factor = [], 0, 1
    for group in reversed(groups):
        bits = 8 * _DIGIT_BYTES[group]
        if group:
            digits.append(f"(u >> {below} & {(1 << bits) - 1}) * {factor}")
        below, factor = below + bits, factor * 10**group
    sign, number = 1 << (below - 1), " + ".join(digits)
    lines = (
        "u = from_bytes({a}, 'big')",
        f"if u >= {sign}:",
        f"    u -= {sign}",
        f"    v = {number}",
        "else:",
        f"    u = {sign - 1} - u",
        f"    v = -({number})",
    )
    return Field(f"{below // 8}s", "v", lines)


def _fraction(log: LogColumn) -> tuple[int, str]:
    """Return the bits of the fraction of a second, and the expression for its microseconds in `u`."""
    width = (log.meta + 1) // 2
    return 8 * width, f" + (u & {(1 << 8 * width) - 1}) * {10 ** (6 - 2 * width)}" if width else ""


def _datetime(log: LogColumn, column: Column) -> Field:
    bits, fraction = _fraction(log)
    lines = ("u = from_bytes({a}, 'big')", f"m = midnight[u >> {17 + bits}]")
    return Field(f"{5 + bits // 8}s", f"m if m is None else m + clock[u >> {bits} & 131071]{fraction}", lines)


def _timestamp(log: LogColumn, column: Column) -> Field:
    bits, fraction = _fraction(log)
    value = f"(u >> {bits}) * 1000000{fraction} if u else zero()"
    return Field(f"{4 + bits // 8}s", value, ("u = from_bytes({a}, 'big')",))


def _time(log: LogColumn, column: Column) -> Field:
    bits, _ = _fraction(log)
    return Field(f"{3 + bits // 8}s", f"duration{bits // 8}(from_bytes({{a}}, 'big'))")


def _old_datetime(log: LogColumn, column: Column) -> Field:
    if not (digits := _hires_digits(column)):
        return Field("Q", "old_datetime({a})")
    return Field(
        f"{_HIRES_BYTES['datetime'][digits]}s", f"hires_datetime(from_bytes({{a}}, 'big'), {10 ** (6 - digits)})"
    )


def _old_time(log: LogColumn, column: Column) -> Field:
    if not (digits := _hires_digits(column)):
        return Field("Hb", "old_duration({a} | {b} << 16)")
    zero = _HIRES_ZERO * 10**digits
    return Field(f"{_HIRES_BYTES['time'][digits]}s", f"(from_bytes({{a}}, 'big') - {zero}) * {10 ** (6 - digits)}")


def _old_timestamp(log: LogColumn, column: Column) -> Field:
    if not (digits := _hires_digits(column)):
        return Field("I", "{a} * 1000000 if {a} else zero()")
    width = (digits + 1) // 2
    fraction = f"(u & {(1 << 8 * width) - 1}) * {10 ** (6 - digits)}"
    value = f"(u >> {8 * width}) * 1000000 + {fraction} if u else zero()"
    return Field(f"{4 + width}s", value, ("u = from_bytes({a}, 'big')",))


def _hires_digits(column: Column) -> int:
    return (*native_of(column).numbers, 0)[0]


def _year(log: LogColumn, column: Column) -> Field:
    """Decode a YEAR: years since 1900; with two digits 0 is the year 2000, which the server shows in the same way."""
    return Field("B", "1900 + {a} if {a} else 2000" if native_of(column).numbers == (2,) else "{a} and 1900 + {a}")


def _bit(log: LogColumn, column: Column) -> Field:
    return Field(f"{(log.meta + 7) // 8}s", "from_bytes({a}, 'big')")


def _label(log: LogColumn, column: Column) -> Field:
    names = {"labels": labels(column)} if column.type else {}
    return Field({1: "B", 2: "H"}[log.meta], "labels{i}[{a}]", names=names)


def _labels(log: LogColumn, column: Column) -> Field:
    code, value = {1: ("B", "{a}"), 2: ("H", "{a}"), 3: ("HB", "{a} | {b} << 16"), 4: ("I", "{a}"), 8: ("Q", "{a}")}[
        log.meta
    ]
    return Field(code, f"labels{{i}}[{value}]", names={"labels": label_sets(column)} if column.type else {})


def _string(log: LogColumn, column: Column) -> Field:
    """Decode CHAR and BINARY: a length, then the bytes without trailing spaces or zeros; BINARY gets its zeros back."""
    code = "B" if log.meta < 256 else "H"
    kind = column.type.kind if column.type else None
    if kind in _RECORDS:
        return Field(code, f"{_RECORDS[kind]}({{a}}.ljust({log.meta}, b'\\0'))", variable=True)
    if kind is Kind.BINARY:
        return Field(code, f"{{a}}.ljust({log.meta}, b'\\0')", variable=True)
    return _text(code, column)


def _varchar(log: LogColumn, column: Column) -> Field:
    return _text("B" if log.meta < 256 else "H", column)


def _geometry(log: LogColumn, column: Column) -> Field:
    return Field(_LENGTHS[log.meta], "ewkb{i}({a})", variable=True, by_zero={"ewkb": stored_as(ewkb)})


def _compressed(field: Callable[[LogColumn, Column], Field]) -> Callable[[LogColumn, Column], Field]:
    """Decode MariaDB's COMPRESSED columns, whose values are longer by a byte at least."""

    def maker(log: LogColumn, column: Column) -> Field:
        made = field(log, column)
        by_zero = made.by_zero | {"inflated": stored_as(inflated)}
        return replace(made, lines=("v = inflated{i}({a})",), by_zero=by_zero)

    return maker


def _blob(log: LogColumn, column: Column) -> Field:
    return _text(_LENGTHS[log.meta], column)


def _json(log: LogColumn, column: Column) -> Field:
    return Field("I", "json_text({a})", variable=True)


def _text(code: str, column: Column) -> Field:
    if column.type is None or column.type.kind not in _TEXT_KINDS:
        return Field(code, variable=True)
    charset = column.charset.lower()
    if charset not in CHARSETS:
        raise Unfit(f"column {column.name} has character set {column.charset or 'unknown'}, which cannot be read")
    if is_utf8(charset):
        return Field(code, variable=True)  # Arrow checks it
    value = "{a} if {a}.isascii() else text{i}({a})" if CHARSETS[charset].has_ascii else "text{i}({a})"
    return Field(code, value, variable=True, by_zero={"text": text_of(charset)})


_FIELDS: dict[int, Callable[[LogColumn, Column], Field]] = {
    t.TINY: _integer("b", "B"),
    t.SHORT: _integer("h", "H"),
    t.INT24: _integer("Hb", "HB", "{a} | {b} << 16"),
    t.LONG: _integer("i", "I"),
    t.LONGLONG: _integer("q", "Q"),
    t.FLOAT: _fixed("f"),
    t.DOUBLE: _fixed("d"),
    t.NEWDECIMAL: _decimal,
    t.YEAR: _year,
    t.DATE: _fixed("HB", "days[{a} | {b} << 16]"),
    t.NEWDATE: _fixed("HB", "days[{a} | {b} << 16]"),
    t.TIME: _old_time,
    t.DATETIME: _old_datetime,
    t.TIMESTAMP: _old_timestamp,
    t.TIME2: _time,
    t.DATETIME2: _datetime,
    t.TIMESTAMP2: _timestamp,
    t.BIT: _bit,
    t.ENUM: _label,
    t.SET: _labels,
    t.STRING: _string,
    t.VARCHAR: _varchar,
    t.VAR_STRING: _varchar,
    t.BLOB: _blob,
    t.JSON: _json,
    t.GEOMETRY: _geometry,
    t.VECTOR: _blob,
    t.BLOB_COMPRESSED: _compressed(_blob),
    t.VARCHAR_COMPRESSED: _compressed(_varchar),
}
