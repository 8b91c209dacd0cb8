r"""Lines (rows/lines.py) as the servers read them: in LOAD DATA, and as literals of an INSERT.

LOAD DATA knows most of COPY's escapes, and those of a string literal are the same: `\\`, `\t`, `\n`, `\r`, `\b`. It has no
`\f` and no `\v`, and takes their letters. https://dev.mysql.com/doc/refman/8.0/en/load-data.html#load-data-field-line-handling
https://dev.mysql.com/doc/refman/8.0/en/string-literals.html. What does not live here: statements (`load_data.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.rows.lines import unescape
from anabranch.rows.net import TargetTable
from anabranch.rows.refused import readable

STAND_IN = b"\xff"  # of no text in UTF-8
UNKNOWN = ((b"\\f", b"\f"), (b"\\v", b"\v"))  # COPY's escapes that these servers do not have
_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_MEANT = {b"f": b"\f", b"v": b"\v"}
VALUE = "\0"  # stands for a field in SQL that `RowForm.of` is given


def for_load_data(block: bytes) -> bytes:
    r"""Return a block of lines with no escape that LOAD DATA does not know.

    A pair `\f` may also be the end of `\\f`, a backslash and a letter: so escaped backslashes step aside meanwhile."""
    if not any(pair in block for pair, _ in UNKNOWN):
        return block
    if STAND_IN in block:
        return _PAIR.sub(lambda found: _MEANT.get(found[1], found[0]), block)
    block = block.replace(b"\\\\", STAND_IN)
    for pair, meant in UNKNOWN:
        block = block.replace(pair, meant)
    return block.replace(STAND_IN, b"\\\\")


@dataclass(frozen=True, slots=True)
class RowForm:
    """The row constructor of an INSERT: its text with a place `%b` for each use of a value, and whose values they are, by the
    number of the line's field. `width`: how many fields a line has."""

    text: bytes
    uses: tuple[int, ...]
    width: int

    @classmethod
    def of(cls, terms: Sequence[str]) -> RowForm:
        """Return the form of rows with these values; each term has VALUE where its field is."""
        row = ", ".join(terms).replace("%", "%%").replace(VALUE, "'%b'")
        uses = tuple(number for number, term in enumerate(terms) for _ in range(term.count(VALUE)))
        return cls(f"({row})".encode(), uses, len(terms))


class NoRow(Exception):
    """A line that cannot be sent as a row of an INSERT; `number` is that of the server's error which it would be."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


def row_literals(block: bytes, form: RowForm) -> Iterator[bytes]:
    """Yield a row constructor for each line of a block. Raises NoRow for one with another number of
    fields.

    A quote in a value is doubled, and its backslashes are pairs: what is `'\\N'` then is a field that was NULL.
    """
    is_plain = form.uses == tuple(range(form.width))
    for line in for_load_data(block).replace(b"'", b"''").split(b"\n")[:-1]:
        cells = line.split(b"\t")
        if len(cells) != form.width:
            raise NoRow(1136, f"the row has {len(cells)} fields, the table {form.width} columns")
        values = cells if is_plain else [cells[number] for number in form.uses]
        yield (form.text % tuple(values)).replace(b"'\\N'", b"NULL")


def lines_of(blocks: Iterable[bytes]) -> list[bytes]:
    """Return the lines of blocks, each with its newline."""
    return [line + b"\n" for block in blocks for line in block.split(b"\n")[:-1]]


def key_text(table: TargetTable, line: bytes) -> str:
    """Return the key of a line's row, for messages."""
    values = dict(zip(table.columns, line.rstrip(b"\n").split(b"\t"), strict=False))
    if not table.key or not all(name in values for name in table.key):
        return "the row has no key"
    return "key " + ", ".join(f"{name}={readable(unescape(values[name]))}" for name in table.key)
