"""Rows of an event with values that no target holds: they go on without these values, each marked with words for it.

What does not live here: what becomes of such rows (apply/unconverted.py), the decoding itself (`rows_decode.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from anabranch.connectors.mysql.rows_decode import Decoder, TableDecoders
from anabranch.connectors.mysql.values import bad_values
from anabranch.rows.builder import Marks, TableBuffer
from anabranch.rows.chunk import Op

Run = tuple[Op, int, int, int]
"""Op, shape, shape of every second image, number of images."""


def carry_on(found: TableDecoders, decoder: Decoder, rows: list[list[Any]]) -> Iterator[Run]:
    """Adds `rows`, all of an event by column, to the buffer, and tells the runs of them. `decoder` has stopped at the first
    that has a bad value: what it has added goes."""
    _, op, *shapes = decoder
    bad = bad_values(rows)
    marks: dict[int, list[tuple[int, str]]] = {}
    for row, column in bad:
        marks.setdefault(row, []).append((column, rows[column][row].what))
        rows[column][row] = None
    _take_back(found.lists, rows, whole=bad[0][0])
    for into, values in zip(found.lists, rows, strict=True):
        into.extend(values)
    images = max(map(len, rows))
    found.buffer.came(images)
    step = 2 if op is Op.BEFORE else 1
    yield from _runs(found.buffer, op, shapes, {row: tuple(one) for row, one in marks.items()}, range(0, images, step))


def _take_back(lists: list[list[Any]], rows: list[list[Any]], whole: int) -> None:
    """Values of images behind those that runs tell of: `whole` images, and a part of one more. A column without values in
    `rows` is not replicated."""
    wanted = [values for values, some in zip(lists, rows, strict=True) if some]
    known = min(map(len, wanted)) - whole
    for values in wanted:
        del values[known:]


def _runs(buffer: TableBuffer, op: Op, shapes: list[int], marks: Mapping[int, Marks], images: range) -> Iterator[Run]:
    def shapes_of(image: int) -> tuple[int, int]:
        of_each = [marks.get(image + place, ()) for place in range(images.step)]
        marked = [buffer.marked(shape, one) if one else shape for shape, one in zip(shapes, of_each, strict=False)]
        return marked[0], marked[-1] if images.step == 2 else marked[0]

    for (shape, second), some in groupby(images, shapes_of):
        yield op, shape, second, images.step * sum(1 for _ in some)
