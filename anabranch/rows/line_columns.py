"""Lines of rows as columns in the Arrow types of the trail: the other way of `lines.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from anabranch.rows.arrow import array
from anabranch.rows.lines import parse_line
from anabranch.rows.net import TargetTable
from anabranch.rows.raw import parse_text


def whole_lines(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of blocks, which may end inside of one, without their newlines. Raises ValueError for an end inside."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield lines
    if rest:
        raise ValueError("the rows end inside a line")


def columns_of_lines(table: TargetTable, lines: Iterable[bytes]) -> pa.Table:
    """Return lines of a table's columns as a table, by the target's names. Raises ValueError for a text that is no value of
    its type."""
    columns = list(zip(*(parse_line(line) for line in lines), strict=True)) or [()] * len(table.columns)
    made = [
        array(type, [None if text is None else parse_text(type, text) for text in texts])
        for type, texts in zip(table.types, columns, strict=True)
    ]
    return pa.table(made, names=list(table.columns))
