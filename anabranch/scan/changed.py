"""Rows as they were sent, and as the target gives them back: which values have become others.

The canonical forms are those of verification, but where it lets a loss pass that the type map declares: the sign of a zero, and
what JSON that is kept as values loses beside the order of its keys. What does not live here: reading (`trying.py`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from anabranch.model.at_target import CanonicalForm
from anabranch.rows.lines import unescape
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import NULL, Canonical
from anabranch.verify.digest import key_of

# A form that lets a loss pass -> the one that does not.
STRICT: Mapping[CanonicalForm, CanonicalForm] = {
    CanonicalForm.FLOAT32_WITHOUT_SIGN: CanonicalForm.FLOAT32,
    CanonicalForm.FLOAT64_WITHOUT_SIGN: CanonicalForm.FLOAT64,
}


class Comparable:
    """Makes rows of one table comparable; they keep their cells."""

    def __init__(self, table: TargetTable) -> None:
        forms = [type.at_target.canonical for type in table.types]
        types = [
            replace(type, at_target=replace(type.at_target, canonical=STRICT.get(form, form)))
            for type, form in zip(table.types, forms, strict=True)
        ]
        self._json = [place for place, form in enumerate(forms) if form is CanonicalForm.JSON_VALUES]
        plain = [
            replace(type, at_target=replace(type.at_target, canonical=CanonicalForm.AS_IT_IS))
            if n in self._json
            else type
            for n, type in enumerate(types)
        ]
        self._canonical = Canonical(replace(table, types=tuple(plain)))

    def rows(self, block: bytes) -> list[bytes]:
        rows = self._canonical.rows(block)
        return [self._with_json(row) for row in rows] if self._json else rows

    def _with_json(self, row: bytes) -> bytes:
        cells = row.split(b"\t")
        for place in self._json:
            if cells[place] != NULL:
                cells[place] = _json(cells[place])
        return b"\t".join(cells)


def differing(table: TargetTable, sent: Iterable[bytes], came: Iterable[bytes]) -> Iterator[tuple[bytes, list[int]]]:
    """Yield comparable rows that were sent and did not come back as they were, with the places of the columns that differ; of a
    row whose key is another one, and of one without a key, all places."""
    there, here = Counter(sent), Counter(came)
    key, back = key_of(table), defaultdict[bytes, list[bytes]](list)
    for row in (here - there).elements():
        back[key(row)].append(row)
    for row in (there - here).elements():
        others = back[key(row)] if table.key else []
        cells = row.split(b"\t")
        other = others.pop().split(b"\t") if others else [b""] * len(cells)
        yield row, [place for place, cell in enumerate(cells) if cell != other[place]]


def _json(cell: bytes) -> bytes:
    """Rewrite JSON: only the order of keys, the space between tokens and the way in which a number is written are free. What is
    no JSON stays as it is."""
    try:
        value = json.loads(unescape(cell).decode(), parse_float=_Number, parse_int=_Number, object_pairs_hook=_pairs)
        return json.dumps(_printable(value)).encode()
    except (ValueError, ArithmeticError, RecursionError):
        return cell


class _Number(str):
    """A number by its value; a zero has a sign."""

    def __new__(cls, text: str) -> _Number:
        sign, digits, exponent = Decimal(text).as_tuple()
        whole = "".join(map(str, digits)).lstrip("0")
        short = whole.rstrip("0")
        scale = int(exponent) + len(whole) - len(short)
        return super().__new__(cls, "-" * sign + (f"{short}e{scale}" if short else "0"))


class _Object(list[Any]):
    """An object's pairs, sorted; equal keys are all there."""


def _pairs(pairs: list[tuple[str, Any]]) -> _Object:
    return _Object(sorted(pairs, key=lambda pair: pair[0]))


def _printable(value: Any) -> Any:
    """Replace numbers and objects by lists with a mark that no JSON array of the same text has."""
    if isinstance(value, _Number):
        return {"#": str(value)}
    if isinstance(value, _Object):
        return {"{}": [[name, _printable(one)] for name, one in value]}
    return [_printable(one) for one in value] if isinstance(value, list) else value
