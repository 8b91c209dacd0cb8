"""Changes as they happened, for targets that keep changes and not states: whole source transactions, columns by table.

Values that the apply engine makes (`apply/appending.py`) and an Appender takes. What does not live here: net changes
(`net.py`), reading images of a trail (`apply/images.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.rows.chunk import META, Chunk, Op, Part, TableRows
from anabranch.rows.net import TargetTable

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Committed:
    """A source transaction: `position` is the native place just after it, `commit_time` in microseconds since 1970 UTC by the
    source's clock, `origin` where it was made first (None: at the source, or not told)."""

    sequence: int
    position: str
    commit_time: int
    gtid: str | None = None
    origin: str | None = None


@dataclass(frozen=True)
class TableChanges:
    """n row images of one table in log order: INSERT, DELETE, or an update's BEFORE and AFTER, one behind the other.

    Image i belongs to transaction `sequence[i]` and is its `ordinal[i]`-th over all tables. `rows` has the columns by target
    name; image i carries column c iff `presence[shape[i], c]`: what it does not carry is not NULL, but not told."""

    table: TargetTable
    op: npt.NDArray[np.int8]
    sequence: npt.NDArray[np.int64]
    ordinal: npt.NDArray[np.int64]
    shape: npt.NDArray[np.int16]
    presence: npt.NDArray[np.bool_]
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Emptied:
    """A table that the source has emptied by one statement, as the `ordinal`-th change of a transaction."""

    table: TargetTable
    sequence: int
    ordinal: int


@dataclass(frozen=True)
class ChangeBatch:
    """Source transactions in the log's order, with what each of them did to the tables that are followed.

    A large transaction may come in several batches; each of them names it in `transactions`."""

    transactions: Sequence[Committed]
    tables: Sequence[TableChanges] = ()
    emptied: Sequence[Emptied] = field(default=())
    is_first: bool = False  # rows that were there before the first change, as inserts of a transaction that none is


@dataclass(frozen=True, slots=True)
class Appended:
    """One change of a batch, by itself. `before` and `after` have the columns that the image carries; both are None where a
    table was emptied."""

    table: TargetTable
    transaction: Committed
    ordinal: int
    before: Row | None
    after: Row | None


def committed(chunks: Sequence[Chunk]) -> list[Committed]:
    """Return the transactions of chunks in their order, each once: a large one is told by its last fragment."""
    found = []
    for chunk in chunks:
        if chunk.part is Part.FRAGMENT or chunk.is_ours:
            continue
        for place, row in enumerate(chunk.transactions.to_pylist()):
            sequence = chunk.first_sequence + place
            found.append(Committed(sequence, row["native"], row["commit_time"], row["gtid"], row["origin"]))
    return found


def changes_of(chunk: Chunk, rows: TableRows, table: TargetTable, places: Sequence[int]) -> TableChanges:
    """Return the row images that a chunk has of one table, by its names. `places`: of its columns in the definition."""
    op, tx, ordinal, shape = (rows.batch.column(at).to_numpy(zero_copy_only=False) for at in range(META))
    presence = np.array([[one.present[place] for place in places] for one in rows.shapes], dtype=bool)
    columns = [rows.batch.column(META + place) for place in places]
    return TableChanges(
        table,
        op,
        tx.astype(np.int64) + chunk.first_sequence,
        ordinal,
        shape,
        presence.reshape(len(rows.shapes), len(places)),
        pa.Table.from_arrays(columns, names=list(table.columns)),
    )


def each_change(batch: ChangeBatch) -> Iterator[Appended]:
    """Yield the changes of a batch over all tables, in the log's order."""
    known = {one.sequence: one for one in batch.transactions}
    found = [
        (one.sequence, one.ordinal, Appended(one.table, known[one.sequence], one.ordinal, None, None))
        for one in batch.emptied
    ]
    for changes in batch.tables:
        found += [(one.transaction.sequence, one.ordinal, one) for one in _of_table(changes, known)]
    yield from (one for _, _, one in sorted(found, key=lambda each: each[:2]))


def _of_table(changes: TableChanges, known: Mapping[int, Committed]) -> Iterator[Appended]:
    before: Row | None = None
    values = changes.rows.to_pylist()
    for place, op in enumerate(changes.op):
        carried = changes.presence[changes.shape[place]]
        row = {name: values[place][name] for at, name in enumerate(changes.table.columns) if carried[at]}
        if op == Op.BEFORE:
            before = row
            continue
        transaction, ordinal = known[int(changes.sequence[place])], int(changes.ordinal[place])
        old, new = (row, None) if op == Op.DELETE else (before, row)
        yield Appended(changes.table, transaction, ordinal, old, new)
        before = None
