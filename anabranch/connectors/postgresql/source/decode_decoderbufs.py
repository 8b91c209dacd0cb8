"""Messages of decoderbufs for the assembler.

https://github.com/debezium/postgres-decoderbufs/blob/main/proto/pg_logicaldec.proto
What does not live here: transactions and chunks (assemble.py), rows and definitions (named_rows.py), protocol buffers as such
(wire_format.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from anabranch.connectors.postgresql.source.assemble import Assembler
from anabranch.connectors.postgresql.source.named_rows import UNCHANGED, Cell, NamedRows
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.connectors.postgresql.source.server_times import date_text, time_text, timestamp_text
from anabranch.connectors.postgresql.source.wire_format import BYTES, FIXED32, FIXED64, VARINT, fields, signed
from anabranch.contracts import Select
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS
from anabranch.rows.chunk import Op

BEGIN, COMMIT = 3, 4
_OPS = {0: Op.INSERT, 1: Op.AFTER, 2: Op.DELETE}
_XID, _TIME, _TABLE, _OP, _NEW, _OLD, _TYPE = range(1, 8)  # fields of a message
_NAME, _OID = 1, 2  # fields of a value, beside those that hold it
_INT32, _INT64, _FLOAT, _DOUBLE, _BOOL, _STRING, _BYTES, _POINT, _MISSING = range(3, 12)
_WIRE = {_INT32: VARINT, _INT64: VARINT, _FLOAT: FIXED32, _DOUBLE: FIXED64, _BOOL: VARINT, _STRING: BYTES}
_WIRE |= {_BYTES: BYTES, _POINT: BYTES, _MISSING: VARINT}
_BYTEA = 17

# (oid of the type, field) -> text form. What is not here, and is no text either, is not exact.
_TEXTS: dict[tuple[int, int], Callable[[Any], str]] = {
    (16, _BOOL): lambda value: "t" if value else "f",
    (21, _INT32): lambda value: str(signed(value)),
    (23, _INT32): lambda value: str(signed(value)),
    (20, _INT64): lambda value: str(signed(value)),
    (26, _INT64): lambda value: str(signed(value)),
    (700, _FLOAT): lambda value: str(np.frombuffer(value, "<f4")[0]),
    (701, _DOUBLE): lambda value: str(struct.unpack("<d", value)[0]),
    (1082, _INT32): lambda value: date_text(signed(value)),
    (1083, _INT64): lambda value: time_text(signed(value)),
    (1114, _INT64): lambda value: timestamp_text(signed(value)),
    (1184, _INT64): lambda value: timestamp_text(signed(value), "+00"),
}


class _Inexact(Exception):
    """A value that does not come as it is."""


@dataclass
class _Message:
    numbers: dict[int, int] = field(default_factory=dict)
    table: bytes = b""
    new: list[bytes] = field(default_factory=list)
    old: list[bytes] = field(default_factory=list)
    types: list[bytes] = field(default_factory=list)


class DecoderbufsAssembler(Assembler):
    """Assembler of decoderbufs' messages. A table that is truncated says so by a row of `noted` (truncate_notes.py)."""

    def __init__(self, place: Place, select: Select, noted: TableId, leave_out: frozenset[str] = frozenset()) -> None:
        super().__init__(place, leave_out=leave_out)
        self._rows = NamedRows(select, self._buffer, self._park, tells_identity=False)
        self._noted = noted
        self._named: dict[bytes, TableId] = {}

    def reselect(self) -> None:
        self._rows.reselect()

    def take(self, message: bytes, lsn: int = 0) -> None:
        try:
            item = _message(message)
            if item.numbers[_XID] != self._xid and item.numbers[_OP] != BEGIN:
                raise ValueError("a message of a transaction that did not begin")
            if item.numbers[_OP] == BEGIN:
                self._begin(item.numbers[_XID])
            elif item.numbers[_OP] == COMMIT:
                self._commit(lsn, signed(item.numbers[_TIME]))
            else:
                self._changes(item)
        except (ValueError, KeyError, struct.error) as error:
            raise self._unknown(f"a message that cannot be read: {error}") from error

    def _changes(self, item: _Message) -> None:
        op = _OPS[item.numbers[_OP]]
        table = self._named.get(item.table)
        if table is None:
            table = self._named[item.table] = TableId.parse(item.table.decode())
        if table in MARKERS:
            self._marked(_job(item))
        if self._is_left_out:
            return
        if table == self._noted:
            self._note(op, item)
            return
        if not self._rows.follows(table):
            return
        try:
            new = _cells(item.new, item.types) if item.new else None
            old = _cells(item.old, []) if item.old else None
        except _Inexact as inexact:
            self._rows.park(table, str(inexact))
            return
        if new is None and (op is Op.INSERT or old is not None) and op is not Op.DELETE:
            raise ValueError("a change without its row")
        if new is None and op is Op.AFTER:  # how it tells of a table without an identity
            op = Op.DELETE
        self._added(*self._rows.add(op, table, old, new, self._builder.transaction, self._ordinal))

    def _note(self, op: Op, item: _Message) -> None:
        if op is Op.INSERT:
            schema, name = (cell.text for cell in _cells(item.new, item.types)[:2])
            if not (isinstance(schema, bytes) and isinstance(name, bytes)):
                raise ValueError("a truncated table without a name")
            table = TableId(schema.decode(), name.decode())
            if self._rows.follows(table):
                self._truncate(table)


def _job(item: _Message) -> str:
    """Return the job that a row of a marker table names: its first column."""
    values = item.old or item.new
    cell = _cell(values[0], "") if values else None
    return cell.text.decode() if cell is not None and cell.name == "job" and isinstance(cell.text, bytes) else ""


def _message(data: bytes) -> _Message:
    found = _Message()
    parts = {_NEW: found.new, _OLD: found.old, _TYPE: found.types}
    for number, _, value in fields(data):
        if number in (_XID, _TIME, _OP):
            if not isinstance(value, int):
                raise ValueError(f"field {number} is no number")
            found.numbers[number] = value
        elif isinstance(value, int):
            raise ValueError(f"field {number} is a number")
        elif number == _TABLE:
            found.table = value
        elif number in parts:
            parts[number].append(value)
        else:
            raise ValueError(f"a field {number} that is not known")
    return found


def _cells(values: list[bytes], types: list[bytes]) -> list[Cell]:
    if types and len(types) != len(values):
        raise ValueError("another number of types than of values")
    names = [_type(one) for one in types] or [""] * len(values)
    return [_cell(one, type) for one, type in zip(values, names, strict=True)]


@lru_cache(maxsize=10_000)
def _type(data: bytes) -> str:
    for number, _, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            return value.decode()
    raise ValueError("a type without a name")


def _cell(data: bytes, type: str) -> Cell:
    name, oid, held, what = "", 0, 0, None
    for number, kind, value in fields(data):
        if number == _NAME and isinstance(value, bytes):
            name = value.decode()
        elif number == _OID and isinstance(value, int):
            oid = value
        elif _WIRE.get(number) == kind:
            held, what = number, value
        else:
            raise ValueError(f"a value with a field {number} that is not known")
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    if not name or not oid:
        raise ValueError("a value without a name or a type")
    return Cell(name, type, _text(name, type or f"of type {oid}", oid, held, what))


def _text(name: str, type: str, oid: int, held: int, value: int | bytes | None) -> bytes | object | None:
    if value is None:
        return None
    if held == _MISSING:
        return UNCHANGED
    if held in (_STRING, _BYTES):
        assert isinstance(value, bytes)
        return b"\\x" + value.hex().encode() if (oid, held) == (_BYTEA, _BYTES) else value
    make = _TEXTS.get((oid, held))
    if make is None:
        raise _Inexact(f"column {name}, {type}: decoderbufs does not give its values exactly")
    return make(value).encode()
