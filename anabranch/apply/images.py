"""Row images of one table, over several chunks, in log order, with target names. No decisions here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import StateError
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op, TableRows
from anabranch.rows.net import TargetTable

END = (1 << 63) - 1
ORDINAL_BITS = 40  # order = (sequence - base) << 40 | ordinal: 8 million transactions of 10^12 images in a group

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def order_of(sequence: int, base: int, ordinal: int = 0) -> int:
    """Return the place of (sequence, ordinal) on the axis that everything in a group of chunks is sorted by. A place
    far outside the group is before or after all of it."""
    return max(-END, min(END, ((sequence - base) << ORDINAL_BITS) + ordinal))


def sequence_of(order: int, base: int) -> int:
    return (order >> ORDINAL_BITS) + base


@dataclass(frozen=True)
class Images:
    """Row images of one table.

    - `op`: Op values. `order` rises strictly.
    - `presence`: row i carries column c if and only if `presence[shape[i], c]`.
    - `keys_off`: the source's foreign keys were off for row i if and only if `keys_off[shape[i]]`.
    - `rows`: the replicated columns, by target name.
    - `unconverted`: by order (also of images that are not among these), the target columns whose value could not be
      converted, with words for it; the image does not carry them.
    """

    op: npt.NDArray[np.int8]
    order: Ints
    shape: npt.NDArray[np.int16]
    presence: Bools
    keys_off: Bools
    rows: pa.Table
    unconverted: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.op)

    @property
    def is_full(self) -> bool:
        return bool(self.presence.all())

    @property
    def is_removal(self) -> Bools:
        """Return which images say what was there: DELETE or BEFORE."""
        removal: Bools = (self.op == Op.DELETE) | (self.op == Op.BEFORE)
        return removal

    @property
    def is_followed_by_keys(self) -> Bools:
        """Return for which images the source's foreign keys reacted to the change (K1)."""
        followed: Bools = ~self.keys_off[self.shape]
        return followed

    def present(self, column: int) -> Bools:
        """Return for every image whether it carries this column."""
        found: Bools = self.presence[self.shape, column]
        return found

    def between(self, start: int, stop: int) -> Images:
        """Return the images with start <= order < stop."""
        low, high = np.searchsorted(self.order, (start, stop))
        if low == 0 and high == len(self):
            return self
        cut = slice(low, high)
        rows = self.rows.slice(low, high - low)
        shapes = self.presence, self.keys_off
        return Images(self.op[cut], self.order[cut], self.shape[cut], *shapes, rows, self.unconverted)

    def where(self, keep: Bools, op: npt.NDArray[np.int8] | None = None) -> Images:
        """Return the images that `keep` marks. `op` replaces the operations (before the selection)."""
        ops = self.op if op is None else op
        rows = self.rows.filter(pa.array(keep))
        shapes = self.presence, self.keys_off
        return Images(ops[keep], self.order[keep], self.shape[keep], *shapes, rows, self.unconverted)

    def unconverted_at(self, place: int) -> Mapping[str, str]:
        """Tell which columns of one image could not be converted, with words for each; {} for most."""
        return self.unconverted.get(int(self.order[place]), {}) if self.unconverted else {}


def gather(
    chunks: Sequence[Chunk], table: TargetTable, schema: TableSchema, base: int, low: int = 0, parked: int = END
) -> Images | None:
    """Return all images of `table` in `chunks`; None for none.

    Images of another definition are left out up to sequence `low`, where they are in the loaded rows already, and from
    sequence `parked` on, where the table is no longer followed (another target had it brought in again). Between the
    two they raise StateError.
    """
    parts = [(chunk, rows) for chunk in chunks for rows in chunk.tables if rows.table == table.source]
    parts = [
        (chunk, rows) for chunk, rows in parts if rows.batch.num_rows and _is_readable(chunk, rows, schema, low, parked)
    ]
    if not parts:
        return None
    places = [schema.index_of(name) for name in table.source_columns]
    presence, keys_off, shapes = _merge_shapes((rows for _, rows in parts), places)
    return Images(
        op=np.concatenate([_meta(rows, 0) for _, rows in parts]),
        order=np.concatenate([_orders(chunk, rows, base) for chunk, rows in parts]),
        shape=np.concatenate(shapes),
        presence=presence,
        keys_off=keys_off,
        rows=_columns([rows for _, rows in parts], places, table),
        unconverted=_unconverted(parts, places, table, base),
    )


def _is_readable(chunk: Chunk, rows: TableRows, schema: TableSchema, low: int, parked: int) -> bool:
    if rows.version == schema.version:
        return True
    first, last = (chunk.first_sequence + int(rows.batch.column(1)[place].as_py()) for place in (0, -1))
    if last > low and first < parked:
        raise StateError(
            f"rows of definition version {rows.version} where version {schema.version} was loaded",
            table=str(schema.id),
            hint="load the table again",
        )
    return False


def _meta(rows: TableRows, place: int) -> npt.NDArray[np.int8]:
    values: npt.NDArray[np.int8] = rows.batch.column(place).to_numpy(zero_copy_only=False)
    return values


def _orders(chunk: Chunk, rows: TableRows, base: int) -> Ints:
    tx = rows.batch.column(1).to_numpy(zero_copy_only=False).astype(np.int64)
    ordinal = rows.batch.column(2).to_numpy(zero_copy_only=False)
    orders: Ints = ((tx + (chunk.first_sequence - base)) << ORDINAL_BITS) + ordinal
    return orders


def _unconverted(
    parts: Sequence[tuple[Chunk, TableRows]], places: Sequence[int], table: TargetTable, base: int
) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for chunk, rows in parts:
        if rows.unconverted:
            orders = _orders(chunk, rows, base)
            for one in rows.unconverted:
                names = [table.columns[at] for at, place in enumerate(places) if place == one.column]
                found.setdefault(int(orders[one.row]), {}).update(dict.fromkeys(names, one.what))
    return {order: columns for order, columns in found.items() if columns}


def _merge_shapes(
    parts: Iterable[TableRows], places: Sequence[int]
) -> tuple[Bools, Bools, list[npt.NDArray[np.int16]]]:
    known: dict[tuple[bool, ...], int] = {}
    shapes = []
    for rows in parts:
        facts = [(s.keys_off, *(s.present[p] for p in places)) for s in rows.shapes]
        local = np.array([known.setdefault(fact, len(known)) for fact in facts], dtype=np.int16)
        shapes.append(local[rows.batch.column(3).to_numpy(zero_copy_only=False)])
    merged = np.array(list(known), dtype=bool).reshape(len(known), 1 + len(places))
    return merged[:, 1:], merged[:, 0], shapes


def _columns(parts: Sequence[TableRows], places: Sequence[int], table: TargetTable) -> pa.Table:
    columns = []
    for place in places:
        arrays = [rows.batch.column(META + place) for rows in parts]
        columns.append(arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays))
    return pa.Table.from_arrays(columns, names=list(table.columns))
