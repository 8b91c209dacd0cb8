"""Defaults of columns as a note has them: an expression in the server's words, which anybody may have written into the log.

So no such text is ever run. A constant is taken apart, and written anew by who needs it; of what is computed only the time, the
date and a new UUID are known, whose words are these here. Of everything else it is told that it is computed, not by what.
https://www.postgresql.org/docs/current/catalog-pg-attrdef.html

What does not live here: the note (statement_notes.py), which columns are compared (noted_columns.py).
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal

from anabranch.model.schema import Column
from anabranch.model.term import Term

_NULL = re.compile(r"NULL(?:::[\w\s\".()\[\],]+)?")
_STRING = re.compile(r"(E?)'((?:[^']|'')*)'::([\w\s\".\[\]]+)(?:\((\d+)\))?")
_WHOLE = re.compile(r"-?\d+")
_DIGITS = r"-?\d+(?:\.\d+)?"
_CAST = r"(?:integer|smallint|bigint|numeric|real|double precision)(?:\(\d+(?:,\d+)?\))?"
_NUMBER = re.compile(
    rf"(?:\(?({_DIGITS})\)?|'({_DIGITS}(?:e[-+]?\d+)?|NaN|-?Infinity)'(?=::))(?:::({_CAST}))?",
)
_NOW = re.compile(r"(?:now|transaction_timestamp)\(\)|(?:CURRENT_TIMESTAMP|LOCALTIMESTAMP)(?:\(([0-6])\))?")
_TODAY, _UUID = "CURRENT_DATE", "gen_random_uuid()"
_MOST = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}
_FLOATS = ("real", "double precision")
_TEXTS = {"text", "character varying"}  # either is the other as it stands
CALLED = {"character": "bpchar", "bit": '"bit"'}  # types that are called otherwise in an expression
_SIZES = re.compile(r"\(([\d,]+)\)")
_LONGEST = 2_000  # digits of a number that is read; a numeric with sizes has 1,000 at most
_EXACT = Context(prec=2 * _LONGEST)


def has_default(column: Column, told: str | None) -> bool:
    """Return whether the column has the default that is told; None: it has none."""
    if told is None or _NULL.fullmatch(told):
        return column.default is None and not column.default_is_expression
    if not column.default_is_expression:
        return column.default is not None and _is_same(constant(told, column.native), column.default)
    if column.default is None:  # it is computed, and by what is not known
        return constant(told, column.native) is None and _term(told) is None
    return column.default == told or _is_same(constant(told, column.native), constant(column.default, column.native))


def with_default(column: Column, told: str | None) -> Column:
    """Return the column with the default that is told: a constant in its text form, what is computed by the server's words for
    it, or by None where these are not known; None: it has none."""
    if told is None or _NULL.fullmatch(told):
        return replace(column, has_default=False, default=None, default_is_expression=False, default_term=None)
    text = constant(told, column.native)
    if text is not None:
        return replace(column, has_default=True, default=text, default_is_expression=False, default_term=None)
    term = _term(told)
    shown = told if term is not None else None
    return replace(column, has_default=True, default=shown, default_is_expression=True, default_term=term)


def constant(told: str, native: str) -> str | None:
    """Return a constant in the text form of a column of this type; None for what is none, or what the type does not take as it
    stands, and for a number of more digits than any column has."""
    name, sizes = _SIZES.sub("", native), [int(one) for one in ",".join(_SIZES.findall(native)).split(",") if one]
    if name == "boolean":
        return told[0] if told in ("true", "false") else None
    if name in _MOST or name in _FLOATS or name == "numeric":
        found = _NUMBER.fullmatch(told)
        if found is None or not _is_kept(number := found[1] or found[2], found[3], native):
            return None
        return _number(number, name, sizes)
    string = _STRING.fullmatch(told)
    if string is None or not (string[3] == CALLED.get(name, name) or {string[3], name} <= _TEXTS):
        return None
    text = string[2].replace("''", "'")
    if string[1]:
        text = text.replace("\\\\", "\\")
    if string[4] and (string[3] not in _TEXTS or len(text) > int(string[4][:9])):
        return None  # it is cast to less of it
    if sizes and (len(text) > sizes[0] if name.startswith("character") else "." in text):
        return None  # the type takes less of it
    return text


def _is_kept(number: str, cast: str | None, native: str) -> bool:
    """Return whether a number that is cast so comes to a column of this type as if it were not."""
    return cast in (None, native, "numeric") or (cast in _MOST and _WHOLE.fullmatch(number) is not None)


def _number(text: str, name: str, sizes: list[int]) -> str | None:
    if len(text) > _LONGEST:
        return None
    if name in _FLOATS:
        return text
    if name in _MOST:
        return text if _WHOLE.fullmatch(text) and -_MOST[name] <= int(text) < _MOST[name] else None
    if text.lstrip("-").isalpha():
        return text if text == "NaN" else None
    if "e" in text or not sizes:
        return None if "e" in text else text
    digits, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale, _EXACT), ROUND_HALF_UP, _EXACT)
        return f"{value:f}" if value.copy_abs() < Decimal(1).scaleb(digits - scale, _EXACT) else None
    except ArithmeticError:
        return None


def _is_same(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return one is not None and one == other
    try:
        return Decimal(one) == Decimal(other) and not one[:1].isspace()
    except ArithmeticError:
        return False


def _term(told: str) -> Term | None:
    if found := _NOW.fullmatch(told):
        return Term("now", text=found[1] or "6")
    return Term("today") if told == _TODAY else Term("uuid") if told == _UUID else None
