"""Rows of an event with values that no target holds: they go on without these values, each marked with words for it.

What does not live here: what becomes of such rows (apply/unconverted.py), the decoding itself (`rows_decode.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from anabranch.connectors.mysql.source.rows_decode import Decoder, TableDecoders
from anabranch.connectors.mysql.source.values import bad_values
from anabranch.rows.builder import Marks, TableBuffer
from anabranch.rows.chunk import Op

Run = tuple[Op, int, int, int]
"""Op, shape, shape of every second image, number of images."""


def carry_on(found: TableDecoders, decoder: Decoder, rows: list[list[Any]]) -> Iterator[Run]:
    """Add `rows`, all of an event by column, to the buffer, and tells the runs of them. `decoder` has stopped at the first
    that has a bad value: what it has added goes."""
    _, op, *shapes = decoder
    bad = bad_values(rows)
    marks: dict[int, list[tuple[int, str]]] = {}
    for row, column in bad:
        marks.setdefault(row, []).append((column, rows[column][row].what))
        rows[column][row] = None
    wanted = [place for place, column in enumerate(found.schema.columns) if column.type is not None]
    # Behind the images that runs tell of stand the whole ones before the first bad value, and a part of its own.
    known, images = min(len(found.lists[place]) for place in wanted) - bad[0][0], len(rows[wanted[0]])
    for place in wanted:
        found.lists[place][known:] = rows[place]
    found.buffer.came(images)
    step = 2 if op is Op.BEFORE else 1
    yield from _runs(found.buffer, op, shapes, {row: tuple(one) for row, one in marks.items()}, range(0, images, step))


def _runs(buffer: TableBuffer, op: Op, shapes: list[int], marks: Mapping[int, Marks], images: range) -> Iterator[Run]:
    def shapes_of(image: int) -> tuple[int, int]:
        of_each = [marks.get(image + place, ()) for place in range(images.step)]
        marked = [buffer.marked(shape, one) if one else shape for shape, one in zip(shapes, of_each, strict=False)]
        return marked[0], marked[-1] if images.step == 2 else marked[0]

    for (shape, second), some in groupby(images, shapes_of):
        yield op, shape, second, images.step * sum(1 for _ in some)
