"""Constant defaults: what information_schema prints, read into the column's text form (K20).

MySQL prints constants bare and marks expressions in EXTRA: https://dev.mysql.com/doc/refman/8.0/en/information-schema-columns-table.html
MariaDB prints SQL: strings are quoted, NULL is a word: https://mariadb.com/kb/en/information-schema-columns-table/
A default that cannot be told exactly counts as an expression: only the source knows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext

from anabranch.connectors.mysql.source.typemap import INTEGERS, unquote
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column

_CONSTANT = re.compile(r"'(?:[^'\\]|\\.|'')*'|[-+]?\d[\d.]*(?:e[-+]?\d+)?|b'[01]*'", re.IGNORECASE | re.DOTALL)
_NOW = re.compile(r"current_timestamp|now|localtime", re.IGNORECASE)  # MySQL 5.x marks no expression
_INSTANT_IN_CREATE = r"^  {column} timestamp\b.*? DEFAULT '([^']*)'"


def of_mysql(column: Column, told: str | None, extra: str) -> Column:
    """Return the column with its default; None stands for no default and for NULL."""
    if told is None:
        return replace(column, has_default=column.nullable)
    is_clock = column.native.startswith(("datetime", "timestamp")) and _NOW.match(told) is not None
    if is_clock or "DEFAULT_GENERATED" in extra:
        return _expression(column, told)
    return constant(column, told)


def of_mariadb(column: Column, told: str | None, extra: str) -> Column:
    if told is None or told == "NULL":
        return replace(column, has_default=told is not None)
    if not _CONSTANT.fullmatch(told):
        return _expression(column, told)
    return constant(column, unquote(told) if told.startswith("'") else told)


def _expression(column: Column, told: str) -> Column:
    from anabranch.connectors.mysql.source.conditions import default_term  # with a parser that takes its time to come

    term = default_term(told, column.type)
    return replace(column, has_default=True, default=told, default_is_expression=True, default_term=term)


def constant(column: Column, value: str) -> Column:
    """Return the column with the constant `value`, as the server prints it, for default."""
    exact = value if column.type is None else _FORMS.get(column.type.kind, _as_it_is)(column, column.type, value)
    is_unknown = exact is None
    return replace(column, has_default=True, default=None if is_unknown else exact, default_is_expression=is_unknown)


# How the server is asked for a default itself, by the column's kind.
ASKED: Mapping[Kind, str] = {
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET), "CONVERT({} USING utf8mb4)"),
    Kind.FLOAT32: "{} * 1e0",
    Kind.BINARY: "CONCAT('0x', HEX({}))",
}
_TOLD_DIGITS = 6  # FLT_DIG: a FLOAT is printed with no more


def may_be_more(column: Column) -> bool:
    """Return whether the default may be another than information_schema shows.

    There a question mark stands for every character beyond U+FFFF, a FLOAT has six digits, and on MySQL bytes end
    before the first zero.
    """
    if column.type is None or column.default is None or column.default_is_expression:
        return False
    kind = column.type.kind
    return kind in (Kind.FLOAT32, Kind.BINARY) or (kind in ASKED and "?" in column.default)


def with_told(column: Column, told: str | float | None) -> Column:
    """Return a column for which `may_be_more` is true with what the server says. Where it says nothing, the default is
    unknown if what is shown looks shortened; of bytes that cannot be seen, and they stay.
    """
    assert column.type is not None and column.default is not None
    kind = column.type.kind
    if told is not None:
        return constant(column, _shortest(float(told)) if kind is Kind.FLOAT32 else str(told))
    digits = re.sub(r"e.*|[-.]", "", column.default).strip("0")
    if kind is Kind.BINARY or (kind is Kind.FLOAT32 and len(digits) < _TOLD_DIGITS):
        return column
    return replace(column, default=None, default_is_expression=True)


def _shortest(value: float) -> str:
    """Write a FLOAT as lines have it: the fewest digits that read back equal."""
    import pyarrow as pa  # for this alone

    return str(pa.array([value], pa.float32()).cast(pa.string())[0])


def instant_in(create: str, column: str) -> str | None:
    """Return the default of a TIMESTAMP column in what SHOW CREATE TABLE prints: there it is in the session's time
    zone, on MySQL information_schema has it in the zone of whoever made the table.
    """
    found = re.search(_INSTANT_IN_CREATE.format(column=re.escape(column)), create, re.MULTILINE)
    return found[1] if found else None


Form = Callable[[Column, LogicalType, str], str | None]


def _as_it_is(column: Column, type: LogicalType, value: str) -> str | None:
    return value


def _number(column: Column, type: LogicalType, value: str) -> str | None:
    return str(int(value))


def _decimal(column: Column, type: LogicalType, value: str) -> str | None:
    with localcontext(prec=100):  # the type has up to 65 digits
        return format(Decimal(value).quantize(Decimal(1).scaleb(-type.scale)), "f")


def _clock(column: Column, type: LogicalType, value: str) -> str | None:
    whole, _, fraction = value.partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}" + "+00" * (type.kind is Kind.INSTANT)


def _binary(column: Column, type: LogicalType, value: str) -> str | None:
    """Return a binary default in text form. MySQL prints hexadecimal digits; MariaDB text, with a question mark for a
    byte that is none.
    """
    if value.startswith("0x"):
        data = bytes.fromhex(value[2:])
    elif "?" in value:
        return None
    else:
        data = value.encode()
    if column.native.startswith("binary"):
        data = data.ljust(type.length or 0, b"\0")
    return "\\x" + data.hex()


_FORMS: Mapping[Kind, Form] = {
    **{kind: _number for pair in INTEGERS.values() for kind in pair},
    Kind.YEAR: _number,
    Kind.DECIMAL: _decimal,
    Kind.BIT: lambda column, type, value: value[2:-1].zfill(type.length or 1),
    Kind.TIMESTAMP: _clock,
    Kind.INSTANT: _clock,
    Kind.DURATION: _clock,
    Kind.BINARY: _binary,
}
