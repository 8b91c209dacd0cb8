"""Row messages that the compiled decoder (`anabranch-native`) has read wait as columns, those that it refused as they came.

What it refuses (values that the server does not write, binary forms, bytes that are wrong) Python reads when a chunk is
made, or says what is wrong. What does not live here: the messages' bytes (`native/src/tuples.rs`), the loop over messages
(native_loop.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.postgresql.source.message_buffer import UPDATE, Layout, MessageBuffer, MessagePiece, shape_of
from anabranch.connectors.postgresql.source.row_images import DELETE, INSERT, images
from anabranch.connectors.postgresql.source.text_values import TEXTS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows import compiled
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op, Shape, TableRows
from anabranch.rows.compiled import given_arrays, given_meta, made_table
from anabranch.rows.sections import Sections

_OPS = {INSERT: int(Op.INSERT), UPDATE: int(Op.BEFORE), DELETE: int(Op.DELETE)}
_NAMES = {
    Kind.INT16: "int16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
    Kind.BINARY: "hex",
    **dict.fromkeys(TEXTS, "utf8"),
}
_LATER = -1  # the shape of images that Python has not read yet


@dataclass(slots=True)
class _Columns:
    """Images that were read: an array of each column."""

    images: int
    arrays: list[pa.Array]

    def first(self, count: int) -> _Columns:
        return _Columns(count, [one[:count] for one in self.arrays])

    def rest(self, count: int) -> _Columns:
        return _Columns(self.images - count, [one[count:] for one in self.arrays])


@dataclass(slots=True)
class _Messages:
    """Messages as they came, one or two images each."""

    images: int
    messages: list[tuple[Layout, bytes]]

    def first(self, count: int) -> _Messages:
        return _Messages(count, self.messages[: self._messages(count)])

    def rest(self, count: int) -> _Messages:
        return _Messages(self.images - count, self.messages[self._messages(count) :])

    def _messages(self, count: int) -> int:
        """Return how many messages have so many images."""
        found = 0
        while count > 0:
            count -= _images(self.messages[found][1])
            found += 1
        return found


class NativeMessageBuffer(MessageBuffer):
    """MessageBuffer whose images are those of its sections, then those in `table`."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self.types = [arrow_type(column.type) for column in schema.columns]
        self.table = made_table(self.types)
        self.runs = self.table
        self._sections = Sections[_Columns | _Messages]()
        self._numbers: dict[bytes, int] = {}

    def ready(self, layout: Layout) -> Layout:
        if layout.readers or layout.is_former or not self.types:
            return layout
        names = [_name(self.schema.columns[place].type) for place in layout.places]
        if None in names:
            return layout
        columns = list(zip(layout.places, names, layout.in_identity, strict=True))
        codes = bytearray(b"\1" * len(self.types))
        every = self._number(bytes(codes))
        for place, in_identity in zip(layout.places, layout.in_identity, strict=True):
            codes[place] = in_identity
        made = compiled.NATIVE.Relation(
            self.table, columns, layout.head, every, self._number(bytes(codes)), self._number
        )
        return replace(layout, compiled=made)

    def add(self, layout: Layout, message: bytes, tx: int, ordinal: int) -> int:
        if layout.compiled is not None:
            found: int | None = layout.compiled.add(message, tx, ordinal)
            if found is not None:
                return found
        count = _images(message)
        self.table.append((_OPS[message[0]], tx, ordinal, _LATER, _LATER, count))
        self._seal()
        waiting = self._sections.waiting
        if not waiting or isinstance(waiting[-1], _Columns):
            waiting.append(_Messages(0, []))
        last = waiting[-1]
        assert isinstance(last, _Messages)
        last.messages.append((layout, message))
        last.images += count
        return count

    def drop(self, tx: int, first: int = 0) -> int:
        dropped: int = self.table.forget_runs(tx, first)
        self._seal()
        self._sections.drop(dropped)
        return dropped

    def take(self, before_tx: int) -> TableRows | None:
        count, *parts, used = self.table.take_runs(before_tx)
        if not count:
            return None
        meta = given_meta(parts)
        if self._sections.waiting:
            self._seal()
            numbers = np.array(used, np.int64)[meta[3]]
            arrays = self._joined(self._sections.take(count), numbers)
            used, meta[3] = np.unique(numbers, return_inverse=True)
        else:
            arrays = given_arrays(self.table, self.types, count)
        meta[3], shapes = self._in_order(meta[3], used)
        return self._rows(meta, arrays, [(shape, ()) for shape in shapes])

    def _in_order(
        self, shape: np.ndarray[Any, Any], used: Sequence[int]
    ) -> tuple[np.ndarray[Any, Any], tuple[Shape, ...]]:
        """Put shapes in the order of their codes, as MessageBuffer has them."""
        every = list(self._numbers)
        order = sorted(range(len(used)), key=lambda place: every[used[place]])
        if len(order) > 1:
            shape = np.argsort(order)[shape]
        return shape, tuple(shape_of(np.frombuffer(every[used[place]], np.uint8)) for place in order)

    def _number(self, codes: bytes) -> int:
        """Return index of the shape with these codes: by column 1 present, 2 unchanged, 0 neither."""
        return self._numbers.setdefault(codes, len(self._numbers))

    def _seal(self) -> None:
        """Make a section of what is in the table."""
        if images := self.table.images:
            self._sections.waiting.append(_Columns(images, given_arrays(self.table, self.types, images)))

    def _joined(self, sections: list[_Columns | _Messages], numbers: np.ndarray[Any, Any]) -> list[pa.Array]:
        """Return an array of each column; the `numbers` of shapes that are known only now are filled in. Raises ValueError,
        ValueRefused."""
        made, at = [], 0
        for section in sections:
            pieces: list[MessagePiece] = [] if isinstance(section, _Columns) else self._pieces(section)
            for piece in pieces:
                codes = piece.codes(len(self.types))
                numbers[at : at + len(codes)] = [self._number(row.tobytes()) for row in codes]
                at += len(codes)
            at += section.images if isinstance(section, _Columns) else 0
            made.append((section, pieces))
        return [self._joined_column(place, made) for place in range(len(self.types))]

    def _pieces(self, section: _Messages) -> list[MessagePiece]:
        return [
            MessagePiece(layout, images([message for _, message in some], layout.in_identity, layout.head))
            for layout, some in groupby(section.messages, itemgetter(0))
        ]

    def _joined_column(self, place: int, made: list[tuple[_Columns | _Messages, list[MessagePiece]]]) -> pa.Array:
        parts: list[pa.Array] = []
        before = 0
        for section, pieces in made:
            if isinstance(section, _Columns):
                parts.append(section.arrays[place])
            else:
                parts.append(self.column(place, pieces, before))
            before += section.images
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _images(message: bytes) -> int:
    return 2 if message[0] == UPDATE else 1


def _name(type: LogicalType | None) -> str | None:
    """Return the compiled decoder's name for what a column's texts become (`native/src/texts.rs`); None for what it
    does not know.
    """
    return "skip" if type is None else _NAMES.get(type.carried)
