"""Changes as rows of a change table, as SQL Server's change data capture has them: one row for an insert and a delete, two for
an update, each with the place of its transaction, its place there, and a mask of the columns that changed.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql describes the layout.
Pure: columns in, columns out. What does not live here: the tables and functions of a database (its `target/change_tables/`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import RowRefused
from anabranch.rows.appended import TableChanges
from anabranch.rows.chunk import Op

LSN_BYTES = 10
SEQUENCE_BYTES = 7  # the transaction's number in the trail; the rest counts places between it and the next one
FIRST_PLACE = 1  # so that no place is all zeros, which readers take for "none"
OPERATIONS = {Op.DELETE: 1, Op.INSERT: 2, Op.BEFORE: 3, Op.AFTER: 4}
LARGEST_INT = (1 << 31) - 1
WHOLE_ROWS = (
    "change tables need whole rows in the source's log: binlog_row_image = FULL, or ALTER TABLE … REPLICA IDENTITY FULL"
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ChangeRows:
    """n rows of a change table: `lsn`, `seqval` (10 bytes each) and `mask` as binary, `operation` and `command` as int32,
    `values` the table's columns, in its order."""

    lsn: pa.Array
    seqval: pa.Array
    operation: pa.Array
    mask: pa.Array
    command: pa.Array
    values: list[pa.Array]


def lsns(sequences: Ints) -> pa.Array:
    """Return the places of transactions, n times 10 bytes, which compare as the log's order does: 7 bytes of the sequence, 3
    for places between two transactions."""
    out = np.zeros((len(sequences), LSN_BYTES), dtype=np.uint8)
    out[:, :SEQUENCE_BYTES] = _big_endian(sequences)[:, 8 - SEQUENCE_BYTES :]
    out[:, -1] = FIRST_PLACE
    return _binary(out)


def change_rows(changes: TableChanges) -> ChangeRows:
    """Return the rows for these images. What an update's new image leaves out, since it did not change, is taken from the old
    one. Raises RowRefused where an image lacks a column, or an update its old image: what the row was is then not known."""
    ops = changes.op.astype(np.int64)
    after = _after(changes)
    places = np.arange(len(ops))
    first = np.where(after, places - 1, places)  # the two images of an update have one place
    values = _whole(changes, after, places)
    seqval = np.zeros((len(ops), LSN_BYTES), dtype=np.uint8)
    seqval[:, 2:] = _big_endian(changes.ordinal[first] + 1)
    command = np.minimum(changes.ordinal[first] + 1, LARGEST_INT)
    operation = np.select([ops == op for op in OPERATIONS], list(OPERATIONS.values()))
    return ChangeRows(
        lsns(changes.sequence),
        _binary(seqval),
        pa.array(operation, pa.int32()),
        _binary(_masks(values, after)),
        pa.array(command, pa.int32()),
        values,
    )


def same_values(changes: TableChanges) -> Bools:
    """Return which images are an update's new one in which no column has another value. Raises RowRefused as `change_rows`."""
    after = _after(changes)
    new, same = np.flatnonzero(after), after.copy()
    if len(new):
        for column in _whole(changes, after, np.arange(len(after))):
            same[new] &= ~_differ(column.take(pa.array(new - 1)), column.take(pa.array(new)))
    return same


def _after(changes: TableChanges) -> Bools:
    """Return which images are an update's new one. Raises RowRefused where one comes without the old one."""
    after: Bools = changes.op == Op.AFTER
    old = np.flatnonzero(after) - 1
    if len(old) and (old[0] < 0 or not np.all(changes.op[old] == Op.BEFORE)):
        raise RowRefused("an update has no old image", table=str(changes.table.source), hint=WHOLE_ROWS)
    return after


def _whole(changes: TableChanges, after: Bools, places: Ints) -> list[pa.Array]:
    """Return each column with a value in every image."""
    found = []
    for at, name in enumerate(changes.table.columns):
        carried = changes.presence[changes.shape, at]
        column = changes.rows.column(name).combine_chunks()
        if not carried.all():
            source = np.where(after & ~carried, places - 1, places)
            if not carried[source].all():
                what = f"the log does not have column {name} of a changed row"
                raise RowRefused(what, table=str(changes.table.source), hint=WHOLE_ROWS)
            column = column.take(pa.array(source))
        found.append(column)
    return found


def _masks(values: list[pa.Array], after: Bools) -> npt.NDArray[np.uint8]:
    """Return for each row which columns changed: the first column is the lowest bit of the last byte. All bits are set for what
    is no update."""
    width = (len(values) + 7) // 8 * 8
    bits = np.zeros((len(after), width), dtype=np.bool_)
    new = np.flatnonzero(after)
    for at, column in enumerate(values):
        changed = np.ones(len(after), dtype=np.bool_)
        if len(new):
            differs = _differ(column.take(pa.array(new - 1)), column.take(pa.array(new)))
            changed[new], changed[new - 1] = differs, differs
        bits[:, width - 1 - at] = changed
    return np.packbits(bits, axis=1)


def _differ(old: pa.Array, new: pa.Array) -> Bools:
    """Return where two values differ; NULL is equal to NULL, and NaN to NaN. 0.0 is not equal to -0.0."""
    if pa.types.is_floating(old.type):
        bits = pa.int32() if pa.types.is_float32(old.type) else pa.int64()
        old, new = old.view(bits), new.view(bits)
    unlike = pc.fill_null(pc.not_equal(old, new), False).to_numpy(zero_copy_only=False)
    found: Bools = unlike | (
        pc.is_null(old).to_numpy(zero_copy_only=False) != pc.is_null(new).to_numpy(zero_copy_only=False)
    )
    return found


def _big_endian(numbers: Ints) -> npt.NDArray[np.uint8]:
    """Return whole numbers as 8 bytes each, which compare as the numbers do."""
    return numbers.astype(">u8").view(np.uint8).reshape(len(numbers), 8)


def _binary(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a matrix of bytes as values."""
    size = rows.shape[1]
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(rows), [None, pa.py_buffer(rows.tobytes())])
    return fixed.cast(pa.binary())
