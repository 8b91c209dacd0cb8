"""Row messages of pgoutput wait here as they came, and become a batch when a chunk is made: nothing is done per value.

What does not live here: what is in a message (row_images.py), what its text means (text_values.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.postgresql.source.binary_values import Reader
from anabranch.connectors.postgresql.source.row_images import ABSENT, BINARY, TEXT, UNCHANGED, Images, images
from anabranch.connectors.postgresql.source.text_values import array_of_text
from anabranch.errors import ValueRefused
from anabranch.model.datatype import LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows.arrow import arrow_type
from anabranch.rows.builder import TableBuffer
from anabranch.rows.chunk import Op, Shape, TableRows, Unconverted
from anabranch.rows.refused import LEAVE_OUT, fault_of_text, readable, refused

UPDATE = ord("U")
SKIPPED = -1  # in place of a column that the table has no more


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The layout of a relation's messages.

    For each of its columns the place of the table's column, SKIPPED where it was dropped behind these messages, and whether
    it is in the replica identity; `head` as in row_images.images; `readers`: of each column's binary form, none where values
    come as text; `compiled`: the compiled code that reads them first (native_rows.py); `filled`: columns of the table that
    were added behind these messages, with what their rows have in them (its text, None: NULL); `is_former`: the messages are
    of a definition before the one in force.
    """

    places: tuple[int, ...]
    in_identity: tuple[bool, ...]
    head: int
    readers: tuple[Reader, ...] = ()
    compiled: Any = None
    filled: tuple[tuple[int, bytes | None], ...] = ()
    is_former: bool = False


class MessageBuffer(TableBuffer):
    """TableBuffer of messages: one run for each, with its transaction, ordinal and number of images."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._messages: list[tuple[Layout, bytes]] = []

    def ready(self, layout: Layout) -> Layout:
        """Return the layout that messages are to be added with."""
        return layout

    def add(self, layout: Layout, message: bytes, tx: int, ordinal: int) -> int:
        """Add a message of the open transaction `tx`, whose first image is `ordinal`. Returns how many images it has."""
        count = 2 if message[0] == UPDATE else 1
        self._messages.append((layout, message))
        self.runs.append((0, tx, ordinal, 0, 0, count))
        return count

    def drop(self, tx: int, first: int = 0) -> int:
        dropped = super().drop(tx, first)
        del self._messages[len(self.runs) :]
        return dropped

    def take(self, before_tx: int) -> TableRows | None:
        """Remove and return the rows before `before_tx`. Raises ValueRefused for a value that the column does not hold,
        ValueError for invalid messages.
        """
        runs = self._leaving(before_tx)
        messages, self._messages = self._messages[: len(runs)], self._messages[len(runs) :]
        if not messages:
            return None
        pieces = [
            MessagePiece(layout, images([message for _, message in some], layout.in_identity, layout.head))
            for layout, some in groupby(messages, itemgetter(0))
        ]
        op = np.concatenate([piece.images.op for piece in pieces])
        counts = [run[-1] for run in runs]
        tx, ordinal = (np.repeat(np.array([run[at] for run in runs], np.int64), counts) for at in (1, 2))
        shape, shapes = _shapes([piece.codes(len(self.schema.columns)) for piece in pieces])
        values = [self.column(place, pieces) for place in range(len(self.schema.columns))]
        return self._rows((op, tx, ordinal + (op == Op.AFTER), shape), values, [(one, ()) for one in shapes])

    def column(self, place: int, pieces: Sequence[MessagePiece], before: int = 0) -> pa.Array:
        """Return the values of a column of the table, behind so many images. Raises ValueRefused."""
        column = self.schema.columns[place]
        count = sum(len(piece.images.op) for piece in pieces)
        if column.type is None:
            return pa.nulls(count)
        try:
            parts = [
                piece.column(piece.layout.places.index(place), column.type)
                if place in piece.layout.places
                else piece.filled(place, column.type)
                for piece in pieces
            ]
        except ValueError as error:
            if self.carries and (found := self._without_misfits(place, pieces, before)) is not None:
                return found
            raise self._misfit(place, pieces) or ValueRefused(
                f"column {column.name}: {error}", table=str(self.schema.id), hint=LEAVE_OUT
            ) from error
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _without_misfits(self, place: int, pieces: Sequence[MessagePiece], before: int) -> pa.Array | None:
        """Build a column without the values that its type does not hold. None where the fault is not in a text."""
        type = self.schema.columns[place].type
        assert type is not None
        parts = []
        for piece in pieces:
            at = piece.layout.places.index(place) if place in piece.layout.places else None
            if at is None:
                parts.append(piece.filled(place, type))
            elif piece.is_binary(at):
                return None
            else:
                misfits = list(piece.misfits(at, type))
                self._late += (Unconverted(before + row, place, piece.fault(row, at, type)) for row in misfits)
                parts.append(piece.column_without(at, type, misfits))
            before += len(piece.images.op)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _misfit(self, place: int, pieces: Sequence[MessagePiece]) -> ValueRefused | None:
        """Return the error for the first value that the column's type does not hold. None where the fault is not in a value."""
        column = self.schema.columns[place]
        assert column.type is not None
        for piece in pieces:
            if place not in piece.layout.places:
                continue
            at = piece.layout.places.index(place)
            if (row := next(piece.misfits(at, column.type), None)) is not None:
                key = {
                    self.schema.columns[one].name: piece.readable(row, piece.layout.places.index(one))
                    for one in self.schema.key_indexes
                    if one in piece.layout.places
                }
                return refused(self.schema.id, column.name, key, piece.fault(row, at, column.type))
        return None


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """Consecutive messages of one layout."""

    layout: Layout
    images: Images

    def column(self, place: int, type: LogicalType) -> pa.Array:
        """Return the values of a column of the relation. Raises ValueError for what is no value of `type`."""
        tags = self.images.cells.tags[:, place]
        if not (tags == BINARY).any():
            return array_of_text(type, self.images.column(place))
        if not self.layout.readers or (tags == TEXT).any():
            raise ValueError("values in binary form, which was not asked for")
        found = self.layout.readers[place](self.images.column(place))
        if found.type != arrow_type(type):
            raise ValueError(f"values in the binary form of {found.type}")
        return found

    def filled(self, place: int, type: LogicalType) -> pa.Array:
        """Return the values of a column of the table that the messages do not have: where a row came whole, what all rows had
        in it when it was added."""
        text = dict(self.layout.filled).get(place)
        if text is None:
            return pa.nulls(len(self.images.op), arrow_type(type))
        return array_of_text(type, pa.array([text if one else None for one in self._whole()], pa.large_binary()))

    def _whole(self) -> Any:
        """Return which images have all columns of the relation."""
        return ~(self.images.cells.tags == ABSENT).any(axis=1)

    def is_binary(self, place: int) -> bool:
        return bool((self.images.cells.tags[:, place] == BINARY).any())

    def column_without(self, place: int, type: LogicalType, left_out: Sequence[int]) -> pa.Array:
        """Return a column, NULL in the images `left_out`."""
        import pyarrow.compute as pc  # eight megabytes, for what is rare

        found = self.images.column(place)
        kept = np.ones(len(found), dtype=bool)
        kept[list(left_out)] = False
        return array_of_text(type, pc.if_else(pa.array(kept), found, pa.scalar(None, found.type)))

    def misfits(self, place: int, type: LogicalType) -> Iterator[int]:
        """Yield the images whose text is none of the type."""
        found = self.images.column(place)
        for row in range(len(found)):
            try:
                array_of_text(type, found.slice(row, 1).take(pa.array([0])))
            except ValueError:
                yield row

    def fault(self, row: int, place: int, type: LogicalType) -> str:
        """Return words for a value that is none of the type, without it."""
        return fault_of_text(type, self.images.column(place)[row].as_py())

    def readable(self, row: int, place: int) -> str | None:
        """Return a value of a column as people can read it."""
        stored = self.images.column(place)[row].as_py()
        if stored is None:
            return None
        if self.images.cells.tags[row, place] == BINARY and self.layout.readers:
            return str(
                self.layout.readers[place](self.images.column(place).slice(row, 1).take(pa.array([0])))[0].as_py()
            )
        return readable(stored)

    def codes(self, columns: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return by image and column of the table: 1 present, 2 unchanged, 0 neither. A column that no message has is
        not replicated.
        """
        tags = self.images.cells.tags
        codes = np.ones((len(tags), columns), np.uint8)
        held = [at for at, place in enumerate(self.layout.places) if place != SKIPPED]
        found = np.select([tags == ABSENT, tags == UNCHANGED], [0, 2], 1)
        codes[:, [self.layout.places[at] for at in held]] = found[:, held]
        for place, _ in self.layout.filled:
            codes[:, place] = self._whole()
        return codes


def _shapes(codes: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, tuple[Shape, ...]]:
    """Return the number of each image's shape, and the shapes."""
    rows = np.ascontiguousarray(np.concatenate(codes))
    _, firsts, numbers = np.unique(rows.view(f"V{rows.shape[1]}").ravel(), return_index=True, return_inverse=True)
    found = (rows[first] for first in firsts)
    return numbers, tuple(map(shape_of, found))


def shape_of(codes: Any) -> Shape:
    """Return the shape of an image, by the codes of its columns."""
    return Shape(_truths(codes == 1), _truths(codes == 2) if (codes == 2).any() else ())


def _truths(found: Any) -> tuple[bool, ...]:
    return tuple(map(bool, found))
