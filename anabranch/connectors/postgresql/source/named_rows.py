"""Rows of decoders that name a table and its columns with every row: they are put into the form of pgoutput's row messages, in
which rows wait (message_buffer.py), so that what follows is the same for every decoder. Pure.

What does not live here: what is in a plugin's message (decode_wal2json.py, decode_decoderbufs.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anabranch.connectors.postgresql.source.message_buffer import Layout, MessageBuffer
from anabranch.connectors.postgresql.source.pgoutput import ROW_HEAD
from anabranch.connectors.postgresql.source.relations import Unfit
from anabranch.connectors.postgresql.source.typemap import bare
from anabranch.contracts import Select
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import Op

UNCHANGED = object()  # as a cell's text: the log left the value out
KINDS = {Op.INSERT: b"I", Op.AFTER: b"U", Op.DELETE: b"D"}
_NO_OID = bytes(4)
_KEPT = 1000  # forms of a table's rows that are remembered
_COUNT, _LENGTH = struct.Struct(">H"), struct.Struct(">I")
# Of fixed length, or never stored beside the row: a log that leaves one out has not got the column.
# https://www.postgresql.org/docs/current/catalog-pg-type.html (typstorage)
_NEVER_TOASTED = frozenset(
    (
        "smallint", "integer", "bigint", "real", "double precision", "boolean", "uuid", "date", "interval", "money", "oid",
        "timestamp without time zone", "timestamp with time zone", "time without time zone", "time with time zone",
    )
)  # fmt: skip


class Cell(NamedTuple):
    """A value as a decoder has it. `type`: as format_type() spells it, "" where the decoder does not say; `text`: the server's
    text form, None for NULL, UNCHANGED."""

    name: str
    type: str
    text: bytes | object | None


Cells = Sequence[Cell]


class NamedRows:
    """The rows of a decoder that names columns, fitted to the definition in force, by table.

    `park` is told of a table that has to be parked, and why. `leaves_out`: the decoder leaves out a value that was not
    changed. `tells_identity`: an old row has its replica identity only, else other columns are NULL in it.
    """

    def __init__(
        self,
        select: Select,
        buffer: Callable[[TableSchema], MessageBuffer],
        park: Callable[[TableId, str], None],
        leaves_out: bool = False,
        tells_identity: bool = True,
    ) -> None:
        self._select, self._buffer, self._park = select, buffer, park
        self._leaves_out, self._tells_identity = leaves_out, tells_identity
        self._tables: dict[TableId, _Table | None] = {}

    def reselect(self) -> None:
        self._tables.clear()

    def follows(self, table: TableId) -> bool:
        return self._table(table) is not None

    def add(
        self, op: Op, table: TableId, old: Cells | None, new: Cells | None, tx: int, ordinal: int
    ) -> tuple[int, int]:
        """Add a change of the open transaction, whose first image is `ordinal`. Returns how many images it has, and
        bytes.

        INSERT has `new`, DELETE `old`, AFTER `new` and, where the decoder has it, `old`. Returns (0, 0) where the table
        is not followed, or is parked by this.
        """
        found = self._table(table)
        if found is None:
            return 0, 0
        try:
            layout, message = found.message(op, old, new)
        except Unfit as unfit:
            self.park(table, str(unfit))
            return 0, 0
        return found.buffer.add(layout, message, tx, ordinal), len(message)

    def park(self, table: TableId, reason: str) -> None:
        self._tables[table] = None
        self._park(table, reason)

    def _table(self, table: TableId) -> _Table | None:
        if table not in self._tables:
            schema = self._select(table)
            self._tables[table] = self._made(schema) if schema is not None else None
        return self._tables[table]

    def _made(self, schema: TableSchema) -> _Table:
        return _Table(schema, self._buffer(schema), self._leaves_out, self._tells_identity or not schema.primary_key)


class _Table:
    """`knows_nulls`: is a NULL of an old row one? A column of a replica identity is none: what is NULL is left out."""

    def __init__(self, schema: TableSchema, buffer: MessageBuffer, leaves_out: bool, knows_nulls: bool) -> None:
        self.schema, self.buffer, self._leaves_out, self._knows_nulls = schema, buffer, leaves_out, knows_nulls
        logged = [(place, column) for place, column in enumerate(schema.columns) if not column.generated]
        self._places = tuple(place for place, _ in logged)
        self._names = tuple(column.name for _, column in logged)
        self._key = tuple(name in schema.primary_key for name in self._names)
        self._layouts: dict[tuple[bool, ...], Layout] = {}
        self._fits: set[tuple[object, ...]] = set()

    def message(self, op: Op, old: Cells | None, new: Cells | None) -> tuple[Layout, bytes]:
        """Write the change as a message of pgoutput. Raises Unfit."""
        if op is not Op.INSERT and old is None and (op is Op.DELETE or not self.schema.primary_key):
            raise Unfit("its log does not tell which row is changed: set its REPLICA IDENTITY")
        if new is not None:
            self._compare(new, is_whole=op is Op.INSERT)
        if old is not None:
            self._compare_old(old)
        before = {cell.name: cell.text for cell in old or () if self._knows_nulls or cell.text is not None}
        parts = [KINDS[op], _NO_OID]
        in_identity = self._key
        if old is not None:
            in_identity = tuple(name in before for name in self._names)
            if not any(in_identity):
                raise Unfit("its log does not tell which row is changed: set its REPLICA IDENTITY")
            _put(parts, b"O" if all(in_identity) else b"K", [before.get(name) for name in self._names])
        if new is not None:
            after = {cell.name: cell.text for cell in new}
            _put(parts, b"N", [self._after(name, after, before) for name in self._names])
        layout = self._layouts.get(in_identity)
        if layout is None:
            _make_room(self._layouts)
            layout = self._layouts[in_identity] = Layout(self._places, in_identity, ROW_HEAD)
        return layout, b"".join(parts)

    @staticmethod
    def _after(name: str, after: dict[str, object], before: dict[str, object]) -> object:
        text = after.get(name, UNCHANGED)
        return before.get(name, text) if text is UNCHANGED else text

    def _compare(self, cells: Cells, is_whole: bool) -> None:
        """Raise Unfit unless this is a row of the definition in force. A form that was found to fit once is not
        compared again.
        """
        form = (is_whole, *[part for cell in cells for part in cell[:2]])
        if form in self._fits:
            return
        there = iter(cells)
        cell = next(there, None)
        for column in self.schema.columns:
            if cell is not None and cell.name == column.name:
                _compare_type(column, cell)
                cell = next(there, None)
            elif not column.generated and (is_whole or not self._may_lack(column)):
                what = f"a column {cell.name}" if cell is not None else "nothing"
                raise Unfit(f"the log has {what} where the definition has {column.name}")
        if cell is not None:
            raise Unfit(f"the log has a column {cell.name} that the definition has not")
        _make_room(self._fits)
        self._fits.add(form)

    def _compare_old(self, cells: Cells) -> None:
        form = tuple(part for cell in cells for part in cell[:2])
        if form in self._fits:
            return
        columns = {column.name: column for column in self.schema.columns}
        for cell in cells:
            if cell.name not in columns:
                raise Unfit(f"the log has a column {cell.name} that the definition has not")
            _compare_type(columns[cell.name], cell)
        _make_room(self._fits)
        self._fits.add(form)

    def _may_lack(self, column: Column) -> bool:
        return self._leaves_out and bare(column.native) not in _NEVER_TOASTED


def _make_room(known: dict[tuple[bool, ...], Layout] | set[tuple[object, ...]]) -> None:
    """Empty a cache that is full: rows may have any number of forms, which are then found out again."""
    if len(known) >= _KEPT:
        known.clear()


def _compare_type(column: Column, cell: Cell) -> None:
    """Raise Unfit if the types differ. Quotes are ignored: not every decoder writes those of names."""
    if cell.type and cell.type != column.native and cell.type.replace('"', "") != column.native.replace('"', ""):
        raise Unfit(f"column {column.name} is {cell.type} in the log and {column.native} in the definition")


def _put(parts: list[bytes], mark: bytes, texts: Sequence[object]) -> None:
    """Write a tuple as pgoutput does."""
    parts += (mark, _COUNT.pack(len(texts)))
    for text in texts:
        if isinstance(text, bytes):
            parts += (b"t", _LENGTH.pack(len(text)), text)
        else:
            parts.append(b"n" if text is None else b"u")
