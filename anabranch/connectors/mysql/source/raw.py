"""Rows for a target of the family, unread (`own_rows.py`): asked of the server as they are, escaped by compiled code.

A row that this code does not take (a date that is none, a zero in text, 16 MB and more) has its chunk read again as lines, by
which the rules of the job know what to do with it. What does not live here: bounds and snapshots (`load.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anabranch.connectors.mysql.own_rows import BYTES, FLOAT, NUMBER, form_of, ways_of
from anabranch.connectors.mysql.packets import Front
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.native import compiled_columns
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.model.schema import Column

BLOCK = 1_000_000  # bytes that are passed on together
SQL = {BYTES: "HEX({})", FLOAT: "({}*1e0)"}  # a FLOAT as the double that it is; bytes in digits


def form(columns: Sequence[Column]) -> str:
    """Return the form of rows of these columns, "" where there is none, or no compiled code to make them."""
    if any(column.type is None for column in columns) or compiled_columns(b"") is None:
        return ""
    return form_of((column.native, column.charset) for column in columns)


def asked(columns: Sequence[Column]) -> tuple[str, Front]:
    """Return SQL for the values of columns that have a form, and the compiled code that makes lines of them."""
    ways = ways_of(form(columns))
    kinds = "".join(NUMBER if way in SQL else way for way in ways)
    front = compiled_columns(kinds.encode())
    assert front is not None
    named = [SQL.get(way, "{}").format(name(column.name)) for way, column in zip(ways, columns, strict=True)]
    wanted = [f"CAST({sql} AS CHAR)" if c.native == "json" else sql for sql, c in zip(named, columns, strict=True)]
    return ", ".join(wanted), front


def blocks(rows: Iterable[bytes | list[bytes]], table: TableId) -> Iterator[bytes]:
    """Yield lines in blocks of about 1 MB. Raises RowRefused at a row that is none."""
    done: list[bytes] = []
    size = 0
    for some in rows:
        if isinstance(some, list):
            raise RowRefused("a row has a value that the rules of the job decide about", table=str(table))
        done.append(some)
        size += len(some)
        if size >= BLOCK:
            yield b"".join(done)
            done, size = [], 0
    if size:
        yield b"".join(done)
