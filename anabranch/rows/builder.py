"""Collects row images column by column and makes chunks of them: the hot half of every log reader.

A reader appends raw values (rows/arrow.py) to `TableBuffer.columns` and says by a `Run` what the images are. Rows of
the transaction that is still open stay behind when a chunk is made, unless they are asked for as a fragment.
What does not live here: how values are decoded, where a log stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import ValueRefused
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.arrow import array, arrow_type
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Op, Part, Shape, TableRows, Unconverted
from anabranch.rows.chunk_schema import META_FIELDS, TRANSACTION_SCHEMA
from anabranch.rows.refused import NO_WORDS, all_refused, first_refused, raw_text, refused, what_is_wrong

Run = tuple[int, int, int, int, int, int]
"""Consecutive images of one kind: op, transaction, ordinal of the first, shape, shape of every second image, images.
With op BEFORE the images are pairs, BEFORE and AFTER; else both shapes are the same."""

_OP, _TX, _ORDINAL, _SHAPE, _SECOND_SHAPE, _IMAGES = range(6)

Marks = tuple[tuple[int, str], ...]
"""Columns of an image whose values could not be converted, and words for what stands there."""

MOST_SHAPES = 1000  # of a table: values that could not be converted are told apart by words until then


class TableBuffer:
    """The rows of one version of a table: a list per column, and the runs that say what their values are.

    The lists are never replaced by others, so that decoders may hold on to their `append`.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.columns: list[list[Any]] = [[] for _ in schema.columns]
        self.runs: list[Run] = []
        self.carries = False  # a value that is none of its type is left out, and marked
        self._shapes: dict[tuple[Shape, Marks], int] = {}
        self._late: list[Unconverted] = []  # of the images that are being taken
        fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
        self._arrow = pa.schema([*META_FIELDS, *fields])

    def shape(self, present: tuple[bool, ...], keys_off: bool = False, marks: Marks = ()) -> int:
        """Return the number of the shape with these columns, of which those of `marks` are left out."""
        if marks and len(self._shapes) >= MOST_SHAPES:
            marks = tuple((column, NO_WORDS) for column, _ in marks)
        left_out = {column for column, _ in marks}
        shape = Shape(tuple(is_there and place not in left_out for place, is_there in enumerate(present)), (), keys_off)
        return self._shapes.setdefault((shape, marks), len(self._shapes))

    def marked(self, number: int, marks: Marks) -> int:
        """Return the number of the shape that is shape `number` without the columns of `marks`."""
        shape, _ = list(self._shapes)[number]
        return self.shape(shape.present, shape.keys_off, marks)

    def came(self, images: int) -> None:
        """Note that a caller other than a decoder added so many images to `columns`."""

    def take(self, before_tx: int) -> TableRows | None:
        """Remove and return the images of transactions below `before_tx`; the open transaction, which stays, then has
        number 0.
        """
        runs = self._leaving(before_tx)
        if not any(run[_IMAGES] for run in runs):
            return None
        op, tx, ordinal, shape = _meta(np.array(runs, np.int64))
        used, shape = np.unique(shape, return_inverse=True)
        every = tuple(self._shapes)
        return self._rows((op, tx, ordinal, shape), self._every(len(op)), [every[number] for number in used])

    def _leaving(self, before_tx: int) -> list[Run]:
        """Remove and return the runs of transactions below `before_tx`."""
        stay = next((i for i, run in enumerate(reversed(self.runs)) if run[_TX] < before_tx), len(self.runs))
        kept = len(self.runs) - stay
        runs, rest = self.runs[:kept], self.runs[kept:]
        self.runs[:] = [(op, 0, ordinal, first, second, images) for op, _, ordinal, first, second, images in rest]
        return runs

    def _rows(
        self, meta: Sequence[Any], values: Sequence[pa.Array], shapes: Sequence[tuple[Shape, Marks]]
    ) -> TableRows:
        """Build the rows. `meta`: op, tx, ordinal and shape of each image."""
        every = [shape for shape, _ in shapes]
        marked = {number: marks for number, (_, marks) in enumerate(shapes) if marks}
        found, self._late = self._late, []
        if marked or found:
            found += _unconverted(meta[3], marked)
            meta = [*meta[:3], _without(meta[3], every, found)]
        head = [pa.array(part, field.type) for part, field in zip(meta, META_FIELDS, strict=True)]
        batch = pa.RecordBatch.from_arrays([*head, *values], schema=self._arrow)
        found = sorted(found, key=lambda one: (one.row, one.column))
        return TableRows(self.schema.id, self.schema.version, batch, tuple(every), tuple(found))

    def drop(self, tx: int, first: int = 0) -> int:
        """Forget the images of `tx`, the last transaction, from ordinal `first` on; returns how many."""
        gone = [run for run in self.runs if run[_TX] == tx and run[_ORDINAL] >= first]
        dropped = sum(run[_IMAGES] for run in gone)
        del self.runs[len(self.runs) - len(gone) :]
        for column in self.columns:
            del column[len(column) - dropped :]
        return dropped

    def _every(self, count: int) -> list[pa.Array]:
        """Remove and return the first `count` values of each column. Raises ValueRefused, and then removes nothing."""
        heads = [values if len(values) == count else values[:count] for values in self.columns]
        made = [self._made(index, heads, count) for index in range(len(heads))]
        for values in self.columns:
            del values[:count]
        return made

    def _made(self, index: int, columns: Sequence[Sequence[Any]], count: int, before: int = 0) -> pa.Array:
        """Build one column of raw values, `before` images behind the first. Raises ValueRefused."""
        type = self.schema.columns[index].type
        if type is None:
            return pa.nulls(count)
        try:
            return array(type, columns[index])
        except ValueError as error:
            if not self.carries:
                raise misfit(self.schema, index, columns) from error
        return self._made_without(index, type, list(columns[index]), before)

    def _made_without(self, index: int, type: LogicalType, values: list[Any], before: int) -> pa.Array:
        """Build a column without the values that its type does not hold."""
        for place in all_refused(type, values):
            self._late.append(Unconverted(before + place, index, what_is_wrong(type, values[place])))
            values[place] = None
        return array(type, values)


def _unconverted(shape: Any, marked: Mapping[int, Marks]) -> Iterator[Unconverted]:
    """Yield the values that images of these shapes lack."""
    for row in np.flatnonzero(np.isin(shape, list(marked))).tolist():
        yield from (Unconverted(row, column, what) for column, what in marked[int(shape[row])])


def _without(shape: Any, shapes: list[Shape], found: Iterable[Unconverted]) -> Any:
    """Return the shape of each image without the columns that were not converted. Adds new shapes to `shapes`."""
    shape = np.array(shape, np.int64)
    for one in found:
        now = shapes[shape[one.row]]
        if now.present[one.column]:
            without = replace(now, present=(*now.present[: one.column], False, *now.present[one.column + 1 :]))
            if without not in shapes:
                shapes.append(without)
            shape[one.row] = shapes.index(without)
    return shape


def misfit(schema: TableSchema, index: int, columns: Sequence[Sequence[Any]]) -> ValueRefused:
    """Return the error for the first value of a column that its type does not hold. `columns`: raw values, of key
    columns at least.
    """
    column = schema.columns[index]
    assert column.type is not None
    place = first_refused(column.type, columns[index])
    key = {
        schema.columns[one].name: _key_value(schema.columns[one].type, columns[one], place)
        for one in schema.key_indexes
    }
    return refused(schema.id, column.name, key, what_is_wrong(column.type, columns[index][place]))


def _key_value(type: LogicalType | None, values: Sequence[Any], place: int) -> str | None:
    """Return a key value as text. The after image of an update may lack it: it is then in the image before."""
    raw = values[place]
    return raw_text(type, values[place - 1] if raw is None and place else raw)


class Directory:
    """The transactions that are complete."""

    def __init__(self) -> None:
        self._columns: tuple[list[Any], ...] = tuple([] for _ in TRANSACTION_SCHEMA)

    def add(self, native: str, gtid: str | None, commit_time: int, rows: int, origin: str | None) -> None:
        for column, value in zip(self._columns, (native, gtid, commit_time, rows, origin), strict=True):
            column.append(value)

    def take(self) -> pa.RecordBatch:
        """Remove and return the transactions, as TRANSACTION_SCHEMA says."""
        arrays = [pa.array(column, field.type) for column, field in zip(self._columns, TRANSACTION_SCHEMA, strict=True)]
        for column in self._columns:
            column.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=TRANSACTION_SCHEMA)


class ChunkBuilder:
    """Transactions in log order, whole ones and the one that is open.

    `transaction` is the number that a run of the open transaction carries; `images` and `size` (bytes, roughly, as the
    reader counts them) cover all that was not taken yet. `make`: the buffer of a table. `carries`: values that are none of
    their type are left out and marked; else they stop the reader."""

    def __init__(
        self, make: Callable[[TableSchema], TableBuffer] = TableBuffer, directory: Directory | None = None
    ) -> None:
        self._make = make
        self.carries = False
        self._directory = directory or Directory()
        self.transaction = 0
        self.images = 0
        self.size = 0
        self._barriers: list[Barrier] = []
        self._tables: dict[tuple[TableId, int], TableBuffer] = {}

    def table(self, schema: TableSchema) -> TableBuffer:
        """Return the buffer of a table's version. A caller that goes on with another schema object gets a fresh one."""
        key = (schema.id, schema.version)
        found = self._tables.get(key)
        if found is None or (found.schema is not schema and not found.runs):
            found = self._tables[key] = self._make(schema)
            found.carries = self.carries
        return found

    def barrier(self, ordinal: int, kind: BarrierKind, table: TableId, reason: str = "") -> None:
        """Add a barrier for `table` at `ordinal` of the open transaction."""
        self._barriers.append(Barrier(self.transaction, ordinal, kind, table, reason=reason))

    def commit(self, native: str, gtid: str | None, commit_time: int, rows: int, origin: str | None = None) -> None:
        """Complete the open transaction, with `rows` images since the last fragment. `origin`: where it was made first,
        None for the source itself.
        """
        self._directory.add(native, gtid, commit_time, rows, origin)
        self.transaction += 1

    def abandon(self) -> None:
        """Discard rows and barriers of the open transaction, which never ended."""
        self._barriers = [barrier for barrier in self._barriers if barrier.tx < self.transaction]
        self.images -= sum(table.drop(self.transaction) for table in self._tables.values())

    def has_some(self, accepts: Callable[[TableSchema], bool]) -> bool:
        """Return whether there is a table that `accepts` accepts, with rows or without."""
        return any(accepts(table.schema) for table in self._tables.values())

    def take_back(self, first: int, keeps: Callable[[TableSchema], bool]) -> int:
        """Discard the rows of the open transaction from ordinal `first` on, except those of tables that `keeps`
        accepts. Returns how many.
        """
        tables = [table for table in self._tables.values() if not keeps(table.schema)]
        gone = sum(table.drop(self.transaction, first) for table in tables)
        self.images -= gone
        return gone

    def build(self, resume: str, part: Part = Part.WHOLE) -> Chunk:
        """Build a chunk of the whole transactions so far; as FRAGMENT, of the rows of the open one, which must be alone."""
        if part is Part.FRAGMENT:
            self.commit("", None, 0, self.images)
        transactions = self._directory.take()
        try:
            found = [table.take(self.transaction) for table in self._tables.values()]
        except ValueRefused:
            self.transaction = 0  # what waits has lost rows: none of it may leave as whole transactions
            raise
        taken = [rows for rows in found if rows is not None]
        barriers = self._take_barriers()
        self._forget(sum(rows.batch.num_rows for rows in taken))
        return Chunk(transactions, tuple(taken), barriers, part, resume=resume)

    def _take_barriers(self) -> tuple[Barrier, ...]:
        done = tuple(b for b in self._barriers if b.tx < self.transaction)
        stay = self._barriers[len(done) :]
        self._barriers = [Barrier(0, b.ordinal, b.kind, b.table, b.statement, b.reason, b.schema) for b in stay]
        return done

    def _forget(self, images: int) -> None:
        self.size = self.size * (self.images - images) // self.images if self.images else 0
        self.images -= images
        self.transaction = 0


def _meta(runs: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return op, transaction, ordinal and shape of every image in `runs`."""
    counts = runs[:, _IMAGES]
    run = np.repeat(np.arange(len(runs)), counts)
    place = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    op = runs[run, _OP]
    after = (op == Op.BEFORE) & (place % 2 == 1)
    return (
        np.where(after, int(Op.AFTER), op),
        runs[run, _TX],
        runs[run, _ORDINAL] + place,
        np.where(after, runs[run, _SECOND_SHAPE], runs[run, _SHAPE]),
    )
