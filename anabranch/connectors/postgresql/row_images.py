"""Row messages of pgoutput, many of one table at a time: which columns each image has, and where every value's bytes lie. Pure.

Where a column begins depends, row by row, on the columns before it: all rows take a step to the next column at once. What
does not live here: messages that are not about rows, how they arrive, what the bytes of a value mean.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.rows.chunk import Op

# Tags of values: as text, as typsend gives them, NULL, TOASTed and left as it was; our own: the image has no such column.
TEXT, BINARY, NULL, UNCHANGED = b"tbnu"
ABSENT = 0
INSERT, UPDATE, DELETE = b"IUD"
# What a tuple is: the identity's columns, the whole row before (REPLICA IDENTITY FULL), the row now.
KEY, OLD, NEW = b"KON"
_HEAD = 5  # bytes before the first tuple's mark: kind, relation
_PAD = 8  # bytes behind the last message, which steps of rows that are through may look at

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Cells:
    """Values by image and column: `tags`, and where in the messages' bytes a value `starts`, how many it has."""

    tags: Bytes
    starts: Places
    lengths: Places

    @classmethod
    def none(cls, images: int, columns: int) -> Cells:
        return cls(
            np.full((images, columns), ABSENT, np.uint8),
            np.zeros((images, columns), np.int64),
            np.zeros((images, columns), np.int64),
        )

    def put(self, rows: Any, other: Cells) -> None:
        self.tags[rows], self.starts[rows], self.lengths[rows] = other.tags, other.starts, other.lengths

    def of(self, rows: Any) -> Cells:
        return Cells(self.tags[rows], self.starts[rows], self.lengths[rows])

    def where(self, here: Any, other: Cells) -> Cells:
        """These where `here` is true, else the other's."""
        pairs = ((self.tags, other.tags), (self.starts, other.starts), (self.lengths, other.lengths))
        return Cells(*(np.where(here, mine, theirs) for mine, theirs in pairs))


@dataclass(frozen=True, slots=True)
class Images:
    """Row images in the messages' order, an update's as BEFORE and AFTER. `op`: Op of each; `message`: which message it is
    of; `cells`: a row for each."""

    data: Bytes
    op: np.ndarray[Any, np.dtype[np.int8]]
    message: Places
    cells: Cells

    def column(self, place: int) -> pa.Array:
        """The bytes of a column's values; null where there is none."""
        return values(self.data, self.cells.of((slice(None), place)))


def images(messages: Sequence[bytes], key: Sequence[bool], head: int = _HEAD) -> Images:
    """Of Insert, Update and Delete messages of one relation, whose columns are in its replica identity where `key` is true.
    `head`: bytes before the first tuple's mark, four more within a streamed transaction.

    A column outside the identity is absent from an image of the identity, where the log writes NULL. An update that keeps its
    key has an image of it all the same. What an update left as it was is UNCHANGED, or what the whole row before says.

    Raises ValueError for messages that are none of such a relation."""
    data = np.frombuffer(b"".join((*messages, bytes(_PAD))), np.uint8)
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    if len(sizes) and int(sizes.min()) <= head:
        raise ValueError("a message without a tuple")
    ends = np.cumsum(sizes)
    begins = ends - sizes
    kind, in_key = data[begins], np.array(key, bool)
    if not np.isin(kind, (INSERT, UPDATE, DELETE)).all():
        raise ValueError("a message that is none about a row")
    old, new, reached = _tuples(data, begins + head, kind, in_key)
    if not np.array_equal(reached, ends):
        raise ValueError("a message that is longer or shorter than its tuples")
    is_update = kind == UPDATE
    message = np.repeat(np.arange(len(messages)), np.where(is_update, 2, 1))
    second = np.zeros(len(message), bool)
    second[1:] = message[1:] == message[:-1]
    cells = Cells.none(len(message), len(in_key))
    cells.put(~second, old.where((kind != INSERT)[:, None], new))
    cells.put(second, new.of(is_update))
    op = np.select([kind == INSERT, kind == DELETE], [int(Op.INSERT), int(Op.DELETE)], int(Op.BEFORE))[message]
    op[second] = int(Op.AFTER)
    return Images(data, op.astype(np.int8), message, cells)


def values(data: Bytes, cells: Cells) -> pa.Array:
    """The bytes of one column's cells, as Arrow's binary; null where there are none.

    What lies between two values is taken for one, too: Arrow copies every second one as a whole."""
    has = np.isin(cells.tags, (TEXT, BINARY))
    starts, which = cells.starts[has], np.zeros(len(has), np.int64)
    ends = starts + cells.lengths[has]
    if (starts[1:] >= ends[:-1]).all():
        which[has] = np.arange(len(starts))
    else:  # an update's images may share a value
        starts, firsts, which[has] = np.unique(starts, return_index=True, return_inverse=True)
        ends = ends[firsts]
    offsets = np.stack((starts, ends), 1).ravel()
    pieces = pa.Array.from_buffers(
        pa.large_binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return pieces.take(pa.array(2 * which, mask=None if has.all() else ~has))


def _tuples(data: Bytes, at: Places, kind: Bytes, in_key: Any) -> tuple[Cells, Cells, Places]:
    """Of each message the cells before it and after it, and where it ends."""
    rows, columns = len(at), len(in_key)
    old, new, reached = Cells.none(rows, columns), Cells.none(rows, columns), at.copy()
    mark = data[at]
    has_old, has_new = np.isin(mark, (KEY, OLD)), kind != DELETE
    if not (has_old | (mark == NEW)).all() or (has_old & (kind == INSERT)).any() or (~has_old & ~has_new).any():
        raise ValueError("a message with a tuple of another kind")
    found, reached[has_old] = _split(data, at[has_old] + 1, columns)
    is_key = mark[has_old] == KEY
    old.put(has_old, Cells.none(len(is_key), columns).where(is_key[:, None] & ~in_key, found))
    if not (data[reached[has_new]] == NEW).all():
        raise ValueError("a change without its row")
    found, reached[has_new] = _split(data, reached[has_new] + 1, columns)
    new.put(has_new, found)
    keeps = (kind == UPDATE) & ~has_old
    old.put(keeps, new.of(keeps).where(in_key, Cells.none(int(keeps.sum()), columns)))
    is_known = (new.tags == UNCHANGED) & (mark == OLD)[:, None]
    return old, old.where(is_known, new), reached


def _split(data: Bytes, at: Places, columns: int) -> tuple[Cells, Places]:
    """Tuples that begin at `at`: their cells, and where each ends."""
    found, last = Cells.none(len(at), columns), len(data) - _PAD
    if (at > last).any() or (_number(data, at, 2) != columns).any():
        raise ValueError("a tuple with another number of columns than its relation")
    at = at + 2
    for place in range(columns):
        tags = data[at]
        has = (tags == TEXT) | (tags == BINARY)
        if not (has | (tags == NULL) | (tags == UNCHANGED)).all():
            raise ValueError(f"a value of unknown kind in column {place + 1}")
        lengths = np.where(has, _number(data, at + 1, 4), 0)
        starts = at + np.where(has, 5, 1)
        at = starts + lengths
        if (at > last).any():
            raise ValueError(f"a value of column {place + 1} that is longer than its message")
        found.tags[:, place], found.starts[:, place], found.lengths[:, place] = tags, starts, lengths
    return found, at


def _number(data: Bytes, at: Places, width: int) -> Places:
    """Of `width` bytes each, the highest first."""
    number = data[at].astype(np.int64)
    for place in range(1, width):
        number = number << 8 | data[at + place]
    return number
