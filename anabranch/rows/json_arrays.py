"""Arrays of a PostgreSQL as JSON, for a target that wants them so: each text of an array has a JSON text that no other has.

Elements of numeric types and booleans are JSON's own where they can be (NaN is the text "NaN"), all others are texts as
they are printed, NULL is null. An array whose indexes do not begin with 1 is an object whose one key are its bounds. Numbers
keep all of their digits: 1.0 and 1.00 are two texts. https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
What does not live here: which columns are made so (a target's type map, rules/choices.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence

from anabranch.errors import ValueRefused
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import TableSchema

ARRAY = "[]"  # ends the name of its type
_BOUNDS = re.compile(r"((?:\[-?\d+:-?\d+\])+)=(.*)", re.DOTALL)
# A brace, a delimiter, an element in quotes, or one without.
_TOKEN = re.compile(r'[{}]|;|"((?:[^"\\]|\\.)*)"|((?:[^{}";\\]|\\.)+)', re.DOTALL)  # of boxes
_PLAIN = re.compile(r'[{}]|,|"((?:[^"\\]|\\.)*)"|((?:[^{}",\\]|\\.)+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
NUMBERS = frozenset(("smallint", "integer", "bigint", "numeric", "real", "double precision", "oid"))
SEMICOLON = "box"  # the one type of PostgreSQL's own whose elements stand apart by it
COLON = ("geometry", "geography")  # of PostGIS: their arrays stay texts
UNREAD = '[target.options] arrays = "text" keeps what PostgreSQL prints'


def is_array(type: LogicalType | None) -> bool:
    """Return whether rows have the text of an array."""
    if (
        type is None
        or type.carried is not Kind.NATIVE
        or type.kind is not Kind.NATIVE
        or not type.native.endswith(ARRAY)
    ):
        return False
    return type.native.removesuffix(ARRAY).partition("(")[0].rpartition(".")[2] not in COLON


def is_json(type: LogicalType) -> bool:
    """Return whether the target wants the values of a column as JSON arrays."""
    return type.at_target.text is TextForm.JSON_ARRAY


def as_json(native: str, text: str) -> str:
    """Return the JSON text of an array. Raises ValueRefused for a text that is none."""
    element = native.removesuffix(ARRAY)
    if bounds := _BOUNDS.fullmatch(text):
        return f"{{{json.dumps(bounds[1])}: {_array(element, bounds[2])}}}"
    return _array(element, text)


def _array(element: str, text: str) -> str:
    form, token = _form(element.partition("(")[0]), _TOKEN if element == SEMICOLON else _PLAIN
    delimiter = ";" if element == SEMICOLON else ","
    parts, at, depth = [], 0, 0
    for found in token.finditer(text):
        if found.start() != at:
            break
        at, told = found.end(), found[0]
        if told in "{}":
            depth += 1 if told == "{" else -1
            parts.append("[" if told == "{" else "]")
        elif told == delimiter:
            parts.append(", ")
        elif found[1] is not None:
            parts.append(json.dumps(_ESCAPE.sub(r"\1", found[1]), ensure_ascii=False))
        else:
            parts.append("null" if told == "NULL" else form(_ESCAPE.sub(r"\1", told)))
    if at != len(text) or depth or not text.startswith("{"):
        raise ValueRefused(f"a value is no array of {element} as PostgreSQL prints one", hint=UNREAD)
    return "".join(parts)


def _form(element: str) -> Callable[[str], str]:
    if element in NUMBERS:
        return lambda told: told if _NUMBER.fullmatch(told) else json.dumps(told)
    if element == "boolean":
        return lambda told: "true" if told == "t" else "false"
    return lambda told: json.dumps(told, ensure_ascii=False)


def columns_of(table: TableSchema, columns: Sequence[str]) -> dict[int, str]:
    """Return which of these columns, by place, are arrays that no key has, and their types."""
    found = ((place, table.column(name)) for place, name in enumerate(columns) if name not in table.keyed)
    return {place: column.type.native for place, column in found if column.type is not None and is_array(column.type)}


def rewritten(
    block: bytes, arrays: Collection[tuple[int, str]], read: Callable[[bytes], bytes], write: Callable[[str], str]
) -> bytes:
    """Return whole lines in which these columns are JSON. `read`, `write`: the characters of a cell, and the cell of some."""
    rows = block.split(b"\n")
    for number, row in enumerate(rows[:-1]):
        cells = row.split(b"\t")
        for place, native in arrays:
            if cells[place] != b"\\N":
                cells[place] = write(as_json(native, read(cells[place]).decode())).encode()
        rows[number] = b"\t".join(cells)
    return b"\n".join(rows)
