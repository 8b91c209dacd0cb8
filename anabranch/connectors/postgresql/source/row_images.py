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
    """Values by tuple and column, a column's side by side in memory: `tags`, and where in the messages' bytes a value `starts`,
    how many it has."""

    tags: Bytes
    starts: Places
    lengths: Places

    @classmethod
    def of(cls, tuples: int, columns: int) -> Cells:
        """Return empty cells, to be filled."""
        shape = columns, tuples
        return cls(np.empty(shape, np.uint8).T, np.empty(shape, np.int64).T, np.empty(shape, np.int64).T)

    def column(self, place: int) -> Cells:
        return Cells(self.tags[:, place], self.starts[:, place], self.lengths[:, place])

    def take(self, tuples: Places) -> Cells:
        return Cells(self.tags.T[:, tuples].T, self.starts.T[:, tuples].T, self.lengths.T[:, tuples].T)

    def then(self, other: Cells) -> Cells:
        """Append the other's tuples to these."""
        return Cells(
            np.concatenate((self.tags.T, other.tags.T), axis=1).T,
            np.concatenate((self.starts.T, other.starts.T), axis=1).T,
            np.concatenate((self.lengths.T, other.lengths.T), axis=1).T,
        )


@dataclass(frozen=True, slots=True)
class Images:
    """Row images in the messages' order, an update's as BEFORE and AFTER. `op`: Op of each; `message`: which message it is
    of; `cells`: a tuple for each."""

    data: Bytes
    op: np.ndarray[Any, np.dtype[np.int8]]
    message: Places
    cells: Cells

    def column(self, place: int) -> pa.Array:
        """Return the bytes of a column's values; null where there is none."""
        return values(self.data, self.cells.column(place))


def images(messages: Sequence[bytes], key: Sequence[bool], head: int = _HEAD) -> Images:
    """Decode Insert, Update and Delete messages of one relation, whose columns are in its replica identity where
    `key` is true. `head`: bytes before the first tuple's mark, four more within a streamed transaction.

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
    cells, olds, news, reached = _tuples(data, begins + head, kind, len(in_key))
    if not np.array_equal(reached, ends):
        raise ValueError("a message that is longer or shorter than its tuples")
    has_old, has_new = olds >= 0, news >= 0
    message = np.repeat(np.arange(len(messages)), np.where(kind == UPDATE, 2, 1))
    is_after = np.zeros(len(message), bool)
    is_after[1:] = message[1:] == message[:-1]
    op = np.select([kind == INSERT, kind == DELETE], [int(Op.INSERT), int(Op.DELETE)], int(Op.BEFORE))[message]
    op[is_after] = int(Op.AFTER)
    if has_old.any() or is_after.any():
        first = np.where(has_old, olds, news)
        cells = cells.take(np.where(is_after, news[message], first[message]))
        is_key = has_new & ~has_old | (data[begins + head] == KEY)
        _leave_out(cells, in_key, is_key[message] & (op != Op.INSERT) & ~is_after)
        _fill_in(cells, is_after & (data[begins + head] == OLD)[message])
    return Images(data, op.astype(np.int8), message, cells)


def _leave_out(cells: Cells, in_key: Any, images: Any) -> None:
    """Mark images that have only an identity."""
    cells.tags[np.ix_(images, ~in_key)] = ABSENT


def _fill_in(cells: Cells, images: Any) -> None:
    """Copy unchanged values of these images from the image before, which is a whole row."""
    rows, columns = np.nonzero((cells.tags == UNCHANGED) & images[:, None])
    for part in (cells.tags, cells.starts, cells.lengths):
        part[rows, columns] = part[rows - 1, columns]


def values(data: Bytes, cells: Cells) -> pa.Array:
    """Return the bytes of one column's cells, as Arrow's binary; null where there are none.

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


def _tuples(data: Bytes, at: Places, kind: Bytes, columns: int) -> tuple[Cells, Places, Places, Places]:
    """Return all tuples, those of before first, and where each message has its old and new one there (-1: none), and
    where it ends.
    """
    mark = data[at]
    has_old, has_new = np.isin(mark, (KEY, OLD)), kind != DELETE
    if not (has_old | (mark == NEW)).all() or (has_old & (kind == INSERT)).any() or (~has_old & ~has_new).any():
        raise ValueError("a message with a tuple of another kind")
    reached = at.copy()
    old, reached[has_old] = _split(data, at[has_old] + 1, columns)
    if not (data[reached[has_new]] == NEW).all():
        raise ValueError("a change without its row")
    new, reached[has_new] = _split(data, reached[has_new] + 1, columns)
    count = int(has_old.sum())
    olds = np.where(has_old, np.cumsum(has_old) - 1, -1)
    news = np.where(has_new, np.cumsum(has_new) - 1 + count, -1)
    return old.then(new) if count else new, olds, news, reached


def _split(data: Bytes, at: Places, columns: int) -> tuple[Cells, Places]:
    """Split tuples that begin at `at`: their cells, and where each ends."""
    found, last = Cells.of(len(at), columns), len(data) - _PAD
    if (at > last).any() or (_numbers(data, ">u2")[at] != columns).any():
        raise ValueError("a tuple with another number of columns than its relation")
    at = at + 2
    sizes = _numbers(data, ">u4")
    for place in range(columns):
        tags = data[at]
        has = (tags == TEXT) | (tags == BINARY)
        if not (has | (tags == NULL) | (tags == UNCHANGED)).all():
            raise ValueError(f"a value of unknown kind in column {place + 1}")
        lengths = np.where(has, sizes[at + 1], 0).astype(np.int64)
        starts = at + np.where(has, 5, 1)
        at = starts + lengths
        if (at > last).any():
            raise ValueError(f"a value of column {place + 1} that is longer than its message")
        found.tags[:, place], found.starts[:, place], found.lengths[:, place] = tags, starts, lengths
    return found, at


def _numbers(data: Bytes, form: str) -> np.ndarray[Any, Any]:
    """Read the numbers that begin at each byte, the highest byte first."""
    return np.ndarray(len(data) - np.dtype(form).itemsize + 1, form, data, strides=(1,))
