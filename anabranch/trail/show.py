"""`trail show`: rows of chunks in readable form, chosen by position, table or key. For people, not for speed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.errors import TrailCorrupt
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op, Part, TableRows
from anabranch.rows.lines import texts
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.history import RESTORE
from anabranch.trail.reader import TrailReader

_KEYS_OFF = "(foreign keys were off)"
_OPERATIONS = {Op.INSERT: "insert", Op.DELETE: "delete", Op.BEFORE: "update from", Op.AFTER: "update to"}


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row image or a barrier. `values` has the columns that the log wrote, as text, None for NULL; `origin`: where its
    transaction was made first, None where that is the source, or not known."""

    position: Position
    gtid: str | None
    commit_time: int
    ordinal: int
    table: TableId
    operation: str
    values: dict[str, str | None] = field(default_factory=dict)
    note: str = ""
    origin: str | None = None

    def __str__(self) -> str:
        values = " ".join(f"{name}={'NULL' if value is None else repr(value)}" for name, value in self.values.items())
        origin = f"from {self.origin}" if self.origin is not None else ""
        what = [str(self.table), self.operation, values, self.note]
        parts = [str(self.position), shown_time(self.commit_time), origin, *what]
        return "  ".join(part for part in parts if part)


def show(
    reader: TrailReader,
    *,
    after: int,
    upto: int | None = None,
    table: TableId | None = None,
    key: Mapping[str, str] | None = None,
) -> Iterator[ShownRow]:
    """Yield rows behind sequence `after` up to `upto`, one chunk in memory at a time."""
    for ref in reader.descriptors(after, upto):
        yield from show_chunk(reader, ref, table=table, key=key)


def show_chunk(
    reader: TrailReader, ref: ChunkRef, *, table: TableId | None = None, key: Mapping[str, str] | None = None
) -> Iterator[ShownRow]:
    """Yield the rows of one chunk, as `show` does."""
    if table is None or ref.has_barriers or str(table) in dict(ref.tables):
        chunk = reader.load(ref)
        place = reader.position_at(ref.last_sequence) if ref.part is Part.FRAGMENT else None
        yield from rows(chunk, _definitions(reader, ref), table=table, key=key, place=place)


def _definitions(reader: TrailReader, ref: ChunkRef) -> Callable[[TableId, int], TableSchema]:
    history = reader.history

    def definition(table: TableId, version: int) -> TableSchema:
        try:
            return history.at(table, version)
        except KeyError:
            place = f"segment {ref.segment}, offset {ref.offset}"
            message = f"{place}: its rows have definition {version} of {table}, which the schema history does not have"
            raise TrailCorrupt(f"{message} ({reader.directory / HISTORY})", hint=RESTORE) from None

    return definition


def rows(
    chunk: Chunk,
    definition: Callable[[TableId, int], TableSchema],
    *,
    table: TableId | None = None,
    key: Mapping[str, str] | None = None,
    place: Position | None = None,
) -> Iterator[ShownRow]:
    """Yield row images and barriers of a chunk in the order of the log.

    `key`: only rows whose columns have these texts, e.g. {"id": "42"}. `place`: a fragment's position, which it does
    not know itself.
    """
    transactions = chunk.transactions.to_pylist()
    found = list(_images(chunk, definition, table, key or {}))
    if not key:
        found += _barriers(chunk, table)
    for tx, ordinal, shown_table, operation, values, note in sorted(found, key=lambda f: f[:2]):
        facts = transactions[tx]
        position = place or Position(chunk.first_sequence + tx, facts["native"])
        head = position, facts["gtid"], facts["commit_time"]
        yield ShownRow(*head, ordinal, shown_table, operation, values, note, facts["origin"])


_Found = tuple[int, int, TableId, str, dict[str, str | None], str]


def _barriers(chunk: Chunk, table: TableId | None) -> Iterator[_Found]:
    for b in chunk.barriers:
        if table in (None, b.table):
            yield b.tx, b.ordinal, b.table, b.kind.value, {}, b.statement or b.reason


def _images(
    chunk: Chunk, definition: Callable[[TableId, int], TableSchema], table: TableId | None, key: Mapping[str, str]
) -> Iterator[_Found]:
    for part in chunk.tables:
        if table in (None, part.table):
            yield from _images_of(part, definition(part.table, part.version), key)


def _images_of(part: TableRows, schema: TableSchema, key: Mapping[str, str]) -> Iterator[_Found]:
    meta = [part.batch.column(c).to_pylist() for c in range(META)]
    columns = [_texts(column.type, part.batch.column(META + c)) for c, column in enumerate(schema.columns)]
    names = [column.name for column in schema.columns]
    unconverted: dict[int, dict[str, str]] = {}
    for one in part.unconverted:
        unconverted.setdefault(one.row, {})[names[one.column]] = f"({one.what})"
    for i, (op, tx, ordinal, shape) in enumerate(zip(*meta, strict=True)):
        carried = part.shapes[shape]
        values = {name: columns[c][i] for c, name in enumerate(names) if carried.present[c]} | unconverted.get(i, {})
        if all(values.get(name) == wanted for name, wanted in key.items()):
            yield tx, ordinal, part.table, _OPERATIONS[Op(op)], values, _KEYS_OFF if carried.keys_off else ""


def _texts(type: LogicalType | None, column: pa.Array) -> list[str | None]:
    found: list[str | None] = texts(type, column).to_pylist() if type else [None] * len(column)
    return found


def shown_time(microseconds: int) -> str:
    """Write a time in ISO 8601, UTC; "" where unknown."""
    if not microseconds:
        return ""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (epoch + datetime.timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
