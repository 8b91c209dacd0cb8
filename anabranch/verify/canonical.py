"""Canonical text forms for values that have several: floats, JSON, escapes.

All other values are written alike by both ends (rows/lines.py and the connectors ensure that). What does not live here:
digests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from ipaddress import ip_address
from typing import Any

import numpy as np

from anabranch.model.at_target import CanonicalForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.lines import unescape
from anabranch.rows.net import TargetTable

NULL = b"\\N"
# COPY writes these control characters with a letter: https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2
_LETTERS = re.compile(rb"\\([\\bfv])")
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"v": b"\v", b"\\": b"\\\\"}

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

# A text is read as a double first. Of all floats this one alone has shortest digits that are its neighbour then.
_HALF_WAY = (b"7.038531e-26", b"7.038530691851209e-26")

Cell = Callable[[bytes], bytes]


class Canonical:
    """Makes comparable rows of one table out of blocks of lines."""

    def __init__(self, table: TargetTable) -> None:
        forms = {place: _form(type) for place, type in enumerate(table.types)}
        self._cells = {place: form for place, form in forms.items() if form is not None}

    def has_forms(self, *columns: int) -> bool:
        """Return whether one of these columns, by place, is rewritten."""
        return any(place in self._cells for place in columns)

    def block(self, block: bytes) -> bytes:
        """Rewrite whole lines so that they can be compared."""
        return b"".join([row + b"\n" for row in self.rows(block)]) if self._cells else _same_escapes(block)

    def rows(self, block: bytes) -> list[bytes]:
        """Return the block's rows without their newlines."""
        rows = _same_escapes(block).split(b"\n")
        rows.pop()
        return [self._row(row) for row in rows] if self._cells else rows

    def _row(self, row: bytes) -> bytes:
        cells = row.split(b"\t")
        for place, form in self._cells.items():
            if cells[place] != NULL:
                cells[place] = form(cells[place])
        return b"\t".join(cells)


def _same_escapes(block: bytes) -> bytes:
    if b"\\" in block and any(letter in block for letter in (b"\\b", b"\\f", b"\\v")):  # one byte is found quickly
        return _LETTERS.sub(lambda found: _CONTROLS[found[1]], block)
    return block


def form_of(type: LogicalType) -> CanonicalForm:
    """Return the form in which values of a column are compared; AS_IT_IS where that is the text that both ends write."""
    form = type.at_target.canonical
    return _OF_KIND.get(type.carried, CanonicalForm.AS_IT_IS) if form is CanonicalForm.OF_KIND else form


def _form(type: LogicalType) -> Cell | None:
    return _FORMS.get(form_of(type))


def _float64(cell: bytes) -> bytes:
    return repr(float(cell)).encode()


def _float32(cell: bytes) -> bytes:
    return repr(float(np.float32(cell.replace(*_HALF_WAY).decode()))).encode()


def _floats(form: Cell, cell: bytes) -> bytes:
    return _NUMBER.sub(lambda found: form(found[0]), cell)


def _address(cell: bytes) -> bytes:
    """Rewrite an IPv6 address, which can be shortened in several ways."""
    try:
        return str(ip_address(cell.decode())).encode()
    except ValueError:
        return cell


def _vector(cell: bytes) -> bytes:
    return b",".join(_float32(part) for part in cell[1:-1].split(b",") if part)


def _without_sign(float_form: Cell) -> Cell:
    """Write zero without a sign, as a plain number has it."""
    return lambda cell: b"0.0" if (form := float_form(cell)) == b"-0.0" else form


def _number(cell: bytes) -> bytes:
    """Rewrite a number by its value. What is none, NaN or Infinity, stays as it is."""
    try:
        return _Number(cell.decode()).text.encode()
    except (ValueError, ArithmeticError):
        return cell


def _uuid(cell: bytes) -> bytes:
    """Rewrite a UUID: any spelling is read, one is printed (https://www.postgresql.org/docs/current/datatype-uuid.html)."""
    return cell.lower().translate(None, b"-{}")


def _json(form: Callable[[str], str], cell: bytes) -> bytes:
    """Rewrite JSON. Text that is no JSON stays as it is: then it has to be equal to the letter."""
    try:
        return form(unescape(cell).decode()).encode()
    except (ValueError, RecursionError):
        return cell


def by_value(text: str) -> str:
    """Rewrite JSON that the target keeps as values: numbers by value, keys without order, the last of equal keys; no -0."""
    value = json.loads(text, parse_float=_Number, parse_int=_Number)
    return json.dumps(_printable(value), sort_keys=True, separators=(",", ":"))


def as_written(text: str) -> str:
    """Rewrite JSON that the target keeps as text: only the space between tokens is free."""
    value = json.loads(text, parse_float=_Literal, parse_int=_Literal, object_pairs_hook=_Pairs)
    return json.dumps(_printable(value), separators=(",", ":"))


class _Number:
    """A number by its value: 1, 1.0 and 1e0 are one."""

    def __init__(self, text: str) -> None:
        sign, digits, exponent = Decimal(text).as_tuple()
        whole = "".join(map(str, digits)).lstrip("0")
        short = whole.rstrip("0")
        self.text = f"{'-' * sign}{short}e{int(exponent) + len(whole) - len(short)}" if short else "0"


class _Literal:
    def __init__(self, text: str) -> None:
        self.text = text


class _Pairs(list[tuple[str, Any]]):
    """An object whose keys keep their order and number."""


def _printable(value: Any) -> Any:
    """Replace numbers and ordered objects by lists with a mark that no JSON array of the same text has."""
    if isinstance(value, _Number | _Literal):
        return {"#": value.text}
    if isinstance(value, _Pairs):
        return {"{}": [[name, _printable(one)] for name, one in value]}
    if isinstance(value, dict):
        return {f"={name}": _printable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_printable(one) for one in value]
    return value


_FORMS: Mapping[CanonicalForm, Cell] = {
    CanonicalForm.FLOAT32: _float32,
    CanonicalForm.FLOAT64: _float64,
    CanonicalForm.FLOAT32_WITHOUT_SIGN: _without_sign(_float32),
    CanonicalForm.FLOAT64_WITHOUT_SIGN: _without_sign(_float64),
    CanonicalForm.FLOATS32: partial(_floats, _float32),
    CanonicalForm.FLOATS64: partial(_floats, _float64),
    CanonicalForm.ELEMENTS: _vector,
    CanonicalForm.JSON_VALUES: partial(_json, by_value),
    CanonicalForm.JSON_TEXT: partial(_json, as_written),
    CanonicalForm.NUMBER: _number,
    CanonicalForm.ADDRESS: _address,
    CanonicalForm.UUID: _uuid,
}
_OF_KIND: Mapping[Kind, CanonicalForm] = {
    Kind.FLOAT32: CanonicalForm.FLOAT32,
    Kind.FLOAT64: CanonicalForm.FLOAT64,
    Kind.INET: CanonicalForm.ADDRESS,
    Kind.VECTOR: CanonicalForm.ELEMENTS,
    Kind.JSON: CanonicalForm.JSON_TEXT,
}
