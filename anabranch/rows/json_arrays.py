"""Arrays of a PostgreSQL as JSON, for a target that wants them so: each text of an array has a JSON text that no other has.

Elements of numeric types and booleans are JSON's own where they can be (NaN is the text "NaN"), all others are texts as
they are printed, NULL is null. An array whose indexes do not begin with 1 is an object whose one key are its bounds. Numbers
keep all of their digits: 1.0 and 1.00 are two texts. Elements stand apart by a sign that their type has, mostly a comma: the
definition tells it, and an array whose sign nobody knows stays a text.
https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
What does not live here: which columns are made so (json_texts.py).
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping
from functools import lru_cache

from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind, LogicalType

ARRAY = "[]"  # ends the name of its type
NUMBERS = frozenset(("smallint", "integer", "bigint", "numeric", "real", "double precision", "oid"))
DELIMITERS = frozenset(string.punctuation).difference('{}"\\')  # a letter could be one of NULL's
COMMA, SEMICOLON = ",", ";"
UNREAD = '[target.options] arrays = "text" keeps what PostgreSQL prints'
_BOUNDS = re.compile(r"((?:\[-?\d+:-?\d+\])+)=(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_BOOLEANS = {"t": "true", "f": "false"}
# The token before -> those that may follow it: "" before the first, `e` for an element, a delimiter as `,`
_FOLLOWING = {"": "{", "{": "{}e", ",": "{e", "}": "},", "e": "},"}


def is_array(type: LogicalType | None) -> bool:
    """Return whether rows have the text of an array whose elements can be told apart."""
    return type is not None and type.carried is Kind.NATIVE and _delimiter(type) in DELIMITERS


def _delimiter(type: LogicalType) -> str:
    """Return the sign between elements. A definition of before has none: that of the server's own types is known."""
    if type.kind is not Kind.NATIVE or not type.native.endswith(ARRAY):
        return ""
    element = _element(type)
    return type.delimiter or ("" if "." in element.partition("(")[0] else SEMICOLON if element == "box" else COMMA)


def _element(type: LogicalType) -> str:
    return type.native.removesuffix(ARRAY)


def as_array(type: LogicalType, text: str) -> str:
    """Return the JSON text of an array. Raises ValueRefused for a text that is none."""
    if bounds := _BOUNDS.fullmatch(text):
        return f"{{{json.dumps(bounds[1])}: {_array(type, bounds[2])}}}"
    return _array(type, text)


def _array(type: LogicalType, text: str) -> str:
    delimiter = _delimiter(type)
    form = form_of(_element(type))
    parts, at, depth, before = [], 0, 0, ""
    for found in _tokens(delimiter).finditer(text):
        told = found[0]
        now = told if told in "{}" else "," if told == delimiter else "e"
        if found.start() != at or now not in _FOLLOWING[before] or (before and not depth):
            break
        at, before = found.end(), now
        if now == "e":
            is_quoted = found[1] is not None
            parts.append(
                quoted(_ESCAPE.sub(r"\1", found[1])) if is_quoted else "null" if told == "NULL" else form(told)
            )
        else:
            depth += {"{": 1, "}": -1, ",": 0}[now]
            parts.append({"{": "[", "}": "]", ",": ", "}[now])
    if at != len(text) or depth or not parts:
        raise ValueRefused(f"a value is no array of {_element(type)} as PostgreSQL prints one", hint=UNREAD)
    return "".join(parts)


@lru_cache
def _tokens(delimiter: str) -> re.Pattern[str]:
    """Return what finds a brace, a delimiter, an element in quotes, or one without."""
    sign = re.escape(delimiter)
    return re.compile(rf'[{{}}]|{sign}|"((?:[^"\\]++|\\.)*+)"|[^{{}}"\\{sign}]+', re.DOTALL)


def form_of(native: str) -> Callable[[str], str]:
    """Return what makes JSON of the text of an element or a field of this type, sizes or not, that stands without quotes."""
    return _FORMS.get(native.partition("(")[0], quoted)


def quoted(told: str) -> str:
    """Return a JSON text."""
    return json.dumps(told, ensure_ascii=False)


def _number(told: str) -> str:
    return told if _NUMBER.fullmatch(told) else quoted(told)


def _boolean(told: str) -> str:
    return _BOOLEANS.get(told) or quoted(told)


_FORMS: Mapping[str, Callable[[str], str]] = {**dict.fromkeys(NUMBERS, _number), "boolean": _boolean}
