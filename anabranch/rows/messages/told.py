"""Rows of a table as messages tell them, read back: lines as a reader of rows gives them (rows/lines.py), and their keys.

What does not live here: what becomes of all messages of a table (folding.py), where they come from (each connector).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anabranch.errors import ConfigError, TargetError
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.lines import escaped_cell
from anabranch.rows.messages.plain import FLOATS, INTEGERS, name_of
from anabranch.rows.net import TargetTable

NULL = b"\\N"
Cells = tuple[bytes | None, ...]  # a row's cells as in a line; None: the message has no such column
Told = tuple[bytes, Cells | int | None] | None
"""What one message says. Of a table with a key: the key's bytes, and the row behind the change, None where it is gone. Of one
without: the row as a line, and 1 where it comes, -1 where it goes. None in place of all: the table was emptied."""
Decode = Callable[[Any], bytes]


class PlainTold:
    """Reads messages of the format `plain`. It remembers nothing."""

    def __init__(self, table: TargetTable) -> None:
        self._table, self._name = table, name_of(table)
        self._forms = [(name, _form(type)) for name, type in zip(table.columns, table.types, strict=True)]
        forms = dict(self._forms)
        self._keys = [(name, forms[name]) for name in table.key]

    def told(self, key: bytes | None, value: bytes) -> Iterator[Told]:
        """Yield what a message says of the table's rows; nothing where it is about another table. Raises ValueError, KeyError
        or TypeError for one that is none of the format."""
        message = json.loads(value, parse_int=str, parse_float=str)
        if message["table"] != self._name:
            return
        operation, before, after = message["op"], message["before"], message["after"]
        if operation == "truncate":
            yield None
        elif (key is None) == bool(self._table.key):
            raise ValueError("a key, or none")
        elif key is None:
            for image, weight in ((before, -1), (after, 1)):
                if image is not None:
                    yield self._line(image), weight
        else:
            yield key, None if after is None else self._cells(after)

    def gone(self, key: bytes | None) -> Told:
        """Return what a message without a value says: it stands behind a delete, which compaction may have removed. Raises
        ValueError for one that is none of the format."""
        if key is None or not self._table.key:
            raise ValueError("no value")
        return key, None

    def key(self, key: bytes) -> bytes:
        """Return the cells of a key, joined as in a line."""
        found = json.loads(key, parse_int=str, parse_float=str)
        return b"\t".join(_cell(form, found[name]) for name, form in self._keys)

    def _cells(self, image: Mapping[str, Any]) -> Cells:
        return tuple(_cell(form, image[name]) if name in image else None for name, form in self._forms)

    def _line(self, image: Mapping[str, Any]) -> bytes:
        return b"\t".join(require_whole(self._table, self._cells(image)))


READERS: Mapping[str, Callable[[TargetTable], PlainTold]] = {"plain": PlainTold}


def refuse_unread(format: str) -> None:
    """Raise ConfigError for a format whose messages are not read back."""
    if format not in READERS:
        names = " and ".join(f'"{name}"' for name in READERS)
        raise ConfigError(
            f'messages of format = "{format}" are not read back, so that nothing can be compared',
            hint=f"those of {names} are",
        )


def require_whole(table: TargetTable, cells: Cells) -> list[bytes]:
    """Return the cells of a row that has all columns. Raises TargetError."""
    missing = [name for name, cell in zip(table.columns, cells, strict=True) if cell is None]
    if missing:
        raise TargetError(
            f"the last message of a row has no column {', '.join(missing)}: it is of an earlier definition of the table, or "
            "the source's log did not have it",
            table=str(table.source),
            hint="verify the other tables (--tables), and of this one what changed behind the definition (--since)",
        )
    return [cell for cell in cells if cell is not None]


def _cell(form: Decode, value: Any) -> bytes:
    return NULL if value is None else form(value)


def _form(type: LogicalType) -> Decode:
    if type.carried in INTEGERS or type.carried in FLOATS:
        return str.encode
    if type.carried in (Kind.BINARY, Kind.GEOMETRY):
        prefix = b"" if type.at_target.text is TextForm.BARE_DIGITS else b"\\\\x"
        return lambda value: prefix + base64.b64decode(value, validate=True).hex().encode()
    return lambda value: escaped_cell(value).encode()
