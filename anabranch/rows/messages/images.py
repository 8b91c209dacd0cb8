"""Row images as JSON objects, and the events that they are made into: inserts, updates, deletes.

A change of a key is a delete and an insert, so that all messages of a key tell of one row. Where a table has no key the whole
image stands for it. What does not live here: what a message has beside its images (each format).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import RowRefused
from anabranch.model.datatype import LogicalType
from anabranch.rows.appended import TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.messages.json_text import objects

NONE = -1
INSERT, UPDATE, DELETE, TOMBSTONE = range(4)
NEEDS_KEYS = (
    "the source's log needs the key of every changed row: binlog_row_image = FULL, or a REPLICA IDENTITY with the key"
)
WHOLE_ROWS = "write whole rows to the source's log: binlog_row_image = FULL, or ALTER TABLE … REPLICA IDENTITY FULL"

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Cell = Callable[[LogicalType, Any], Any]  # a column's JSON texts


@dataclass(frozen=True)
class Images:
    """n images of a table: `keys` (None: the table has no key) and `rows` are JSON objects, `partial` says of each whether it
    lacks columns."""

    keys: Any
    rows: Any
    partial: Bools


@dataclass(frozen=True)
class Events:
    """n events of a table in log order. `before` and `after` are indexes of images, NONE where there is none; `keyed` that of
    the image which has the key. `place` counts those of one change."""

    kind: npt.NDArray[np.int8]
    before: Ints
    after: Ints
    keyed: Ints
    sequence: Ints
    ordinal: Ints
    place: npt.NDArray[np.int8]


def images_of(changes: TableChanges, cell: Cell, absent: Callable[[LogicalType], str] | None = None) -> Images:
    """Return the images of a table's changes. What an update's new image leaves out is taken from its old one, where that has
    it; else the object does not have it, or has what `absent` gives for its type, and null in an old image."""
    table = changes.table
    new = (changes.op == Op.AFTER) | (changes.op == Op.INSERT)
    after, places = changes.op == Op.AFTER, np.arange(len(changes.op))
    after[0] = False  # nothing is in front of the first one
    after[1:] &= changes.op[:-1] == Op.BEFORE
    carried = changes.presence[changes.shape].copy()
    columns = []
    for at, (name, type) in enumerate(zip(table.columns, table.types, strict=True)):
        try:
            column = cell(type, changes.rows.column(name).combine_chunks())
        except RowRefused as refused:
            what = f"column {name}: {refused.message}"
            raise RowRefused(what, table=str(changes.table.source), hint=refused.hint) from refused
        filled = after & ~carried[:, at] & carried[places - 1, at]
        if filled.any():
            column = column.take(pa.array(np.where(filled, places - 1, places)))
            carried[:, at] |= filled
        missing = new & ~carried[:, at]
        if absent is not None and missing.any():
            column = pc.if_else(pa.array(missing), pa.scalar(absent(type), column.type), column)
        columns.append(column)
    keys = _keys(changes, columns, carried) if table.key else None
    rows = _objects(table.columns, columns, carried if absent is None else np.ones_like(carried))
    return Images(keys, rows, np.logical_not(carried.all(axis=1)))


def _keys(changes: TableChanges, columns: Sequence[Any], carried: Bools) -> Any:
    places = [changes.table.columns.index(name) for name in changes.table.key]
    if not carried[:, places].all():
        raise RowRefused("an image has no key", table=str(changes.table.source), hint=NEEDS_KEYS)
    return objects(changes.table.key, [columns[at] for at in places])


def _objects(names: Sequence[str], columns: Sequence[Any], carried: Bools) -> Any:
    """Return an object for each image with the columns that it carries, those of one pattern together."""
    if carried.all():
        return objects(names, columns)
    patterns, which = np.unique(carried, axis=0, return_inverse=True)
    which = which.reshape(-1)
    parts, order = [], []
    for at, pattern in enumerate(patterns):
        chosen = np.flatnonzero(which == at)
        order.append(chosen)
        there, rows = np.flatnonzero(pattern).tolist(), pa.array(chosen)
        if len(there):
            parts.append(objects([names[c] for c in there], [columns[c].take(rows) for c in there]))
        else:
            parts.append(pa.array(["{}"] * len(chosen), pa.string()))
    kind = pa.large_string() if any(pa.types.is_large_string(part.type) for part in parts) else pa.string()
    whole = pa.concat_arrays([part.cast(kind) for part in parts])
    return whole.take(pa.array(np.argsort(np.concatenate(order))))


def events_of(changes: TableChanges, images: Images, tombstones: bool, splits: bool = True) -> Events:
    """Return the events of a table's changes. `tombstones`: each delete of a key is followed by one. `splits`: a changed key
    is a delete and an insert."""
    op, places = changes.op, np.arange(len(changes.op), dtype=np.int64)
    new = op == Op.AFTER
    old = np.full(len(op), NONE, np.int64)
    told = np.flatnonzero(new[1:] & (op[:-1] == Op.BEFORE)) + 1
    old[told] = told - 1
    moved = np.zeros(len(op), np.bool_)
    if splits and len(told):
        identity = images.keys if images.keys is not None else images.rows
        moved[told] = pc.not_equal(identity.take(pa.array(told)), identity.take(pa.array(told - 1))).to_numpy(
            zero_copy_only=False
        )
    gone = (op == Op.DELETE) | moved
    left = np.where(moved, old, places)  # the image of a row that goes
    buried = gone if tombstones and images.keys is not None else np.zeros_like(gone)
    nothing = np.full(len(op), NONE, np.int64)
    return _ordered(
        [
            (DELETE, 0, gone, left, nothing, left),
            (TOMBSTONE, 1, buried, nothing, nothing, left),
            (INSERT, 2, (op == Op.INSERT) | moved, nothing, places, places),
            (UPDATE, 0, new & ~moved, old, places, places),
        ],
        changes,
    )


def _ordered(kinds: Sequence[tuple[int, int, Bools, Ints, Ints, Ints]], changes: TableChanges) -> Events:
    chosen = [np.flatnonzero(mask) for _, _, mask, *_ in kinds]
    images, size = np.concatenate(chosen), [len(one) for one in chosen]
    place = np.repeat(np.array([place for _, place, *_ in kinds], np.int8), size)
    order = np.lexsort((place, images))
    kind = np.repeat(np.array([kind for kind, *_ in kinds], np.int8), size)[order]
    columns = zip(*[three for _, _, _, *three in kinds], strict=True)
    before, after, keyed = (
        np.concatenate([one[rows] for one, rows in zip(column, chosen, strict=True)])[order] for column in columns
    )
    images, place = images[order], place[order]
    return Events(kind, before, after, keyed, changes.sequence[images], changes.ordinal[images], place)


def picked(array: Any, places: Ints) -> Any:
    """Return the values at these places, null at NONE."""
    return array.take(pa.array(places, mask=places == NONE))
