"""Messages of pgoutput, as PostgreSQL's protocol has them, and a table that they are of."""

from __future__ import annotations

import struct

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

Value = bytes | str | None  # "u": left as it was; "-": absent
Row = tuple[Value, ...]
Change = tuple[str, str, Row, Row]  # kind, mark of the old tuple or "", old, new


def tuple_of(row: Row) -> bytes:
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if isinstance(value, bytes):
            parts.append(b"t" + struct.pack(">I", len(value)) + value)
        else:
            parts.append(b"u" if value == "u" else b"n")
    return b"".join(parts)


def message(change: Change, head: bytes = b"\0\0\0\7") -> bytes:
    kind, mark, old, new = change
    before = mark.encode() + tuple_of(old) if mark else b""
    return kind.encode() + head + before + (b"" if kind == "D" else b"N" + tuple_of(new))


INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
COLUMNS = (Column("id", INT, "integer"), Column("twice", None, "integer", generated=True), Column("v", TEXT, "text"))
SCHEMA = TableSchema(TableId("s", "t"), COLUMNS, ("id",))
