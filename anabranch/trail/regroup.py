"""Chunks cut and joined: what stays of one from a sequence on, and many small ones as one large one.

Rows of a table are in log order, so `_tx` never falls inside a batch: cutting is slicing, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.model.ids import TableId
from anabranch.rows.chunk import Barrier, Chunk, Part, Shape, TableRows, Unconverted
from anabranch.rows.chunk_schema import META_FIELDS

_LOOSE = 500  # small chunks are joined as they gather: each costs kilobytes beside its rows
_TX, _ORDINAL, _SHAPE = ([f.name for f in META_FIELDS].index(name) for name in ("_tx", "_ordinal", "_shape"))


def rows_after(chunk: Chunk, sequence: int) -> Chunk:
    """Return the chunk without the transactions up to `sequence`; the chunk itself when it has none of them."""
    gone = sequence - chunk.first_sequence + 1
    return chunk if gone <= 0 else _cut(chunk, min(gone, chunk.transactions.num_rows), chunk.transactions.num_rows)


def rows_until(chunk: Chunk, sequence: int) -> Chunk:
    """Return the chunk without the transactions behind `sequence`; the chunk itself when it has none of them.

    A cut chunk has no `resume`.
    """
    count = sequence - chunk.first_sequence + 1
    return chunk if count >= chunk.transactions.num_rows else replace(_cut(chunk, 0, max(0, count)), resume="")


def ordinals(chunk: Chunk) -> tuple[int, int] | None:
    """Return the first and the last, of rows and barriers of a chunk of one transaction; None where it has neither."""
    columns = [rows.batch.column(_ORDINAL).to_numpy() for rows in chunk.tables if rows.batch.num_rows]
    ends = [int(column[place]) for column in columns for place in (0, -1)] + [b.ordinal for b in chunk.barriers]
    return (min(ends), max(ends)) if ends else None


def before_ordinal(chunk: Chunk, ordinal: int) -> Chunk:
    """Cut a chunk of one transaction before that ordinal; returns the chunk itself where that is all of it."""
    found = ordinals(chunk)
    if found is None or found[1] < ordinal:
        return chunk
    cut = [_first(rows, int(np.searchsorted(rows.batch.column(_ORDINAL).to_numpy(), ordinal))) for rows in chunk.tables]
    return replace(
        chunk,
        tables=tuple(rows for rows in cut if rows.batch.num_rows),
        barriers=tuple(barrier for barrier in chunk.barriers if barrier.ordinal < ordinal),
    )


def _first(rows: TableRows, count: int) -> TableRows:
    left = tuple(one for one in rows.unconverted if one.row < count)
    return replace(rows, batch=rows.batch.slice(0, count), unconverted=left)


def shifted(chunk: Chunk, by: int) -> Chunk:
    """Add `by` to all ordinals."""
    if not by:
        return chunk
    tables = (
        replace(rows, batch=_with_meta(rows.batch, _ORDINAL, rows.batch.column(_ORDINAL).to_numpy() + np.int64(by)))
        for rows in chunk.tables
    )
    barriers = (replace(barrier, ordinal=barrier.ordinal + by) for barrier in chunk.barriers)
    return replace(chunk, tables=tuple(tables), barriers=tuple(barriers))


class ChunkGroup:
    """Whole chunks in a row that can become one: the same version of a table in all of them."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.rows = self.transactions = self.bytes = 0
        self._schemas: dict[TableId, tuple[int, pa.Schema]] = {}

    def accepts(self, chunk: Chunk) -> bool:
        if chunk.part is not Part.WHOLE:
            return False
        if self.chunks and chunk.first_sequence != self.chunks[-1].last_sequence + 1:
            return False
        versions = ((rows.table, (rows.version, rows.batch.schema)) for rows in chunk.tables)
        return all(self._schemas.get(table, version) == version for table, version in versions)

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.rows += chunk.row_count
        self.transactions += chunk.transactions.num_rows
        self.bytes += sum(rows.batch.nbytes for rows in chunk.tables)
        self._schemas |= {rows.table: (rows.version, rows.batch.schema) for rows in chunk.tables}
        if len(self.chunks) >= _LOOSE:
            self.chunks = [join(self.chunks)]


def join(chunks: Sequence[Chunk]) -> Chunk:
    """Join chunks that form a Group into one, with the transactions of all in their order."""
    if len(chunks) == 1:
        return chunks[0]
    starts = np.cumsum([0, *(chunk.transactions.num_rows for chunk in chunks)]).tolist()
    collected: dict[object, list[tuple[TableRows, int]]] = {}
    barriers: list[Barrier] = []
    for chunk, start in zip(chunks, starts, strict=False):
        for rows in chunk.tables:
            collected.setdefault(rows.table, []).append((rows, start))
        barriers += (replace(b, tx=b.tx + start) for b in chunk.barriers)
    return Chunk(
        transactions=_concat([chunk.transactions for chunk in chunks]),
        tables=tuple(_join_table(pieces) for pieces in collected.values()),
        barriers=tuple(barriers),
        first_sequence=chunks[0].first_sequence,
        resume=chunks[-1].resume,
    )


def _cut(chunk: Chunk, begin: int, end: int) -> Chunk:
    tables = (_cut_table(rows, begin, end) for rows in chunk.tables)
    return replace(
        chunk,
        transactions=chunk.transactions.slice(begin, end - begin),
        tables=tuple(rows for rows in tables if rows.batch.num_rows),
        barriers=tuple(replace(b, tx=b.tx - begin) for b in chunk.barriers if begin <= b.tx < end),
        first_sequence=chunk.first_sequence + begin,
    )


def _cut_table(rows: TableRows, begin: int, end: int) -> TableRows:
    tx = rows.batch.column(_TX).to_numpy()
    first, last = np.searchsorted(tx, [begin, end]).tolist()
    batch = rows.batch.slice(first, last - first)
    left = tuple(replace(one, row=one.row - first) for one in rows.unconverted if first <= one.row < last)
    batch = _with_meta(batch, _TX, tx[first:last] - np.int32(begin)) if begin else batch
    return replace(rows, batch=batch, unconverted=left)


def _join_table(pieces: list[tuple[TableRows, int]]) -> TableRows:
    shapes: dict[Shape, int] = {}
    tx, shape = [], []
    for rows, start in pieces:
        places = np.array([shapes.setdefault(s, len(shapes)) for s in rows.shapes], np.int16)
        tx.append(rows.batch.column(_TX).to_numpy() + np.int32(start))
        shape.append(places[rows.batch.column(_SHAPE).to_numpy()])
    batch = _concat([rows.batch for rows, _ in pieces])
    batch = _with_meta(_with_meta(batch, _TX, np.concatenate(tx)), _SHAPE, np.concatenate(shape))
    return replace(pieces[0][0], batch=batch, shapes=tuple(shapes), unconverted=_joined(rows for rows, _ in pieces))


def _joined(pieces: Iterable[TableRows]) -> tuple[Unconverted, ...]:
    found: list[Unconverted] = []
    before = 0
    for rows in pieces:
        found += (replace(one, row=one.row + before) for one in rows.unconverted)
        before += rows.batch.num_rows
    return tuple(found)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)


def _with_meta(batch: pa.RecordBatch, place: int, values: np.ndarray) -> pa.RecordBatch:
    columns = batch.columns
    columns[place] = pa.array(values, batch.schema.field(place).type)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
