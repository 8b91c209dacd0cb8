"""Rows of a table as messages tell them, read back: lines as a reader of rows gives them (rows/lines.py), and their keys.

What does not live here: what becomes of all messages of a table (folding.py), where they come from (each connector).
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from anabranch.errors import NotTold, TargetError
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.lines import escaped_cell
from anabranch.rows.messages.exbase import EMPTIED
from anabranch.rows.messages.plain import FLOATS, INTEGERS, name_of
from anabranch.rows.net import NOT_KNOWN, TargetTable

NULL = b"\\N"
Cells = tuple[bytes | None, ...]  # a row's cells as in a line; None: the message has no such column
Told = tuple[bytes, Cells | int | None] | None
"""Tells what one message says. For a table with a key: the key's bytes, and the row behind the change, None where it is gone.
For a table without one: the row as a line, and 1 where it comes, -1 where it goes. None for it all: the table was emptied."""
Decode = Callable[[Any], bytes | None]  # a value of JSON as the cell of a line; None: it says that it is not told
Image = Mapping[str, Any]


class ToldTable(ABC):
    """Reads the messages of one table in one format. It remembers nothing."""

    def __init__(self, table: TargetTable, decimal: str) -> None:
        """`decimal`: `string` or `precise`. Raises TargetError for a column of a type that is not read back."""
        self.table = table
        self._forms = [(name, self.form(type, decimal)) for name, type in zip(table.columns, table.types, strict=True)]
        if unread := [name for name, form in self._forms if form is None]:
            raise TargetError(
                f"columns {', '.join(unread)} have types whose values are not read back out of messages of this format",
                table=str(table.source),
                hint="verify the other tables: --tables",
            )

    @abstractmethod
    def form(self, type: LogicalType, decimal: str) -> Decode | None:
        """Return what reads values of a type; None where nothing does."""

    @abstractmethod
    def change(self, message: Any) -> tuple[Image | None, Image | None] | bool | None:
        """Return the images before and behind a change, None where the table was emptied; False: it is not about this table."""

    def told(self, key: bytes | None, value: bytes, sequence: int) -> Iterator[Told]:
        """Yield what a message of this transaction says of the table's rows; nothing where it is about another table. One of an
        earlier shape has no columns that anybody can read. Raises ValueError, KeyError or TypeError for one that is none of the
        format."""
        change = self.change(_content(value))
        if isinstance(change, bool):
            return
        is_former = sequence <= self.table.shaped
        if change is None:
            yield None
        elif (key is None) == bool(self.table.key):
            raise ValueError("a key, or none")
        elif key is None:
            for image, weight in zip(change, (-1, 1), strict=True):
                if image is not None:
                    yield b"\t".join(require_whole(self.table, self._cells({} if is_former else image))), weight
        else:
            yield key, None if change[1] is None else self._cells({} if is_former else change[1])

    def gone(self, key: bytes | None) -> Told:
        """Return what a message without a value says: it stands behind a delete, which compaction may have removed. Raises
        ValueError for one that is none of the format."""
        if key is None or not self.table.key:
            raise ValueError("no value")
        return key, None

    def key(self, key: bytes) -> bytes:
        """Return the cells of a key, joined as in a line."""
        found, forms = _content(key), dict(self._forms)
        cells = [_cell(forms[name], found[name]) for name in self.table.key]
        return b"\t".join(NULL if cell is None else cell for cell in cells)

    def _cells(self, image: Image) -> Cells:
        return tuple(_cell(form, image[name]) if name in image else None for name, form in self._forms)


class PlainTold(ToldTable):
    """Reads messages of the format `plain`."""

    def form(self, type: LogicalType, decimal: str) -> Decode | None:
        return number if type.carried in INTEGERS or type.carried in FLOATS else words_or_bytes(type)

    def change(self, message: Any) -> tuple[Image | None, Image | None] | bool | None:
        if message["table"] != name_of(self.table):
            return False
        return None if message["op"] == "truncate" else (message["before"], message["after"])


class ExbaseTold(ToldTable):
    """Reads messages of the format `exbase`."""

    def form(self, type: LogicalType, decimal: str) -> Decode | None:
        return words_or_bytes(type)

    def change(self, message: Any) -> tuple[Image | None, Image | None] | bool | None:
        if (message["objectOwner"], message["objectName"]) != (self.table.source.schema, self.table.source.name):
            return False
        if message["commandType"] == EMPTIED:
            return None
        return message["oldColumnValues"] or None, message["newColumnValues"] or None


def require_whole(table: TargetTable, cells: Cells) -> list[bytes]:
    """Return the cells of a row that has all columns. Raises NotTold."""
    missing = [name for name, cell in zip(table.columns, cells, strict=True) if cell is None]
    if missing:
        raise NotTold(
            _why(table, missing),
            table=str(table.source),
            hint="verify the other tables (--tables), and of this one what changed behind the definition (--since)",
        )
    return [cell for cell in cells if cell is not None]


def _content(text: bytes) -> Any:
    """Return the JSON of a key or a value, numbers as they are written; without the schema in front of it."""
    found = json.loads(text, parse_int=str, parse_float=str)
    return found["payload"] if isinstance(found, dict) and found.keys() == {"schema", "payload"} else found


def _why(table: TargetTable, missing: Sequence[str]) -> str:
    if len(missing) < len(table.columns):
        what = f"the last message of a row has no column {', '.join(missing)}"
        return f"{what}: it is of an earlier definition of the table, or the source's log did not have it"
    if table.shaped >= NOT_KNOWN:
        return "the trail does not tell since when the table is defined as it is, so that its messages cannot be read"
    return (
        f"the last message of a row is not behind transaction {table.shaped} of the trail, from which on the table has its "
        "columns and types: nobody can tell what the row is by now"
    )


def _cell(form: Decode | None, value: Any) -> bytes | None:
    assert form is not None, "it was asked for at first"
    return NULL if value is None else form(value)


def number(value: Any) -> bytes:
    """Return a number as it is written."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no number")
    return value.encode()


def words_or_bytes(type: LogicalType) -> Decode:
    """Return what reads texts, and bytes that are told in base64."""
    if type.carried in (Kind.BINARY, Kind.GEOMETRY):
        prefix = b"" if type.at_target.text is TextForm.BARE_DIGITS else b"\\\\x"
        return lambda value: prefix + base64.b64decode(value, validate=True).hex().encode()
    return lambda value: escaped_cell(value).encode()
