"""A chunk as head and body of a frame, and back.

Head (JSON): the place after the chunk (`native`, `resume`, `time`), the lengths of the messages in the body, per table
where in the segment its schema frame is, the shapes, and (only where there are any) values that could not be converted, the
barriers. Body: Arrow IPC messages one after another, the
transactions first; large ones are compressed with zstd, tiny ones are not. A length is [stored, raw], raw 0 if plain.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from anabranch.model.column_changes import Untold
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Part, Shape, TableRows, Unconverted
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.trail.format import Frame, FrameKind, encode_prefix, to_json
from anabranch.trail.storage import Data

COMPRESS_FROM = 4096  # bytes; below, zstd costs more than it saves
_ZSTD = pa.Codec("zstd", compression_level=1)
_WITHOUT_ORIGINS = TRANSACTION_SCHEMA.remove(TRANSACTION_SCHEMA.get_field_index("origin"))  # format 1


@dataclass(frozen=True, slots=True)
class TableFrame:
    """A schema frame: a table's definition and the Arrow schema of its batches."""

    table: TableSchema
    arrow: pa.Schema


def encode_schema(frame: TableFrame) -> list[Data]:
    head = to_json(
        {"table": frame.table.to_json(), "arrow": base64.b64encode(frame.arrow.serialize().to_pybytes()).decode()}
    )
    return [encode_prefix(FrameKind.SCHEMA, head), head]


def decode_schema(head: bytes) -> TableFrame:
    data = json.loads(head)
    arrow = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["arrow"])))
    return TableFrame(TableSchema.from_json(data["table"]), arrow)


def encode_chunk(chunk: Chunk, schema_at: Callable[[TableRows], int], fragment: int) -> list[Data]:
    """Return the frame's bytes in parts, not copied together. `schema_at`: offset of the table's schema frame."""
    transactions, transactions_length = _message(chunk.transactions)
    parts: list[Data] = [transactions]
    tables = []
    for rows in chunk.tables:
        message, length = _message(rows.batch)
        parts.append(message)
        shapes = [_shape_text(shape) for shape in rows.shapes]
        more = [[[one.row, one.column, one.what] for one in rows.unconverted]] if rows.unconverted else []
        tables.append([str(rows.table), rows.version, rows.batch.num_rows, schema_at(rows), length, shapes, *more])
    native, time = last_place(chunk)
    head = to_json(
        {
            "native": native,
            "time": time,
            "resume": chunk.resume,
            "transactions": transactions_length,
            "tables": tables,
            "barriers": [_barrier_json(b) for b in chunk.barriers],
        }
    )
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    prefix = encode_prefix(
        FrameKind.CHUNK,
        head,
        sum(map(len, parts)),
        crc,
        part=chunk.part,
        first=chunk.first_sequence,
        transactions=chunk.transactions.num_rows,
        rows=chunk.row_count,
        fragment=fragment,
    )
    return [prefix, head, *parts]


def decode_chunk(frame: Frame, head: bytes, body: bytes, schema_at: Callable[[int], TableFrame], format: int) -> Chunk:
    """Decode what `encode_chunk` gives. `body` has been checked against its CRC, `format` is from the file's header."""
    data = json.loads(head)
    buffer = pa.py_buffer(body)
    offset = data["transactions"][0]
    tables = []
    for name, version, _, schema, length, shapes, *more in data["tables"]:
        batch = pa.ipc.read_record_batch(_raw(buffer, offset, length), schema_at(schema).arrow)
        unconverted = tuple(Unconverted(*one) for one in more[0]) if more else ()
        tables.append(TableRows(_table(name), version, batch, tuple(map(_shape, shapes)), unconverted))
        offset += length[0]
    return Chunk(
        transactions=_transactions(buffer, data, format),
        tables=tuple(tables),
        barriers=tuple(_barrier(b) for b in data["barriers"]),
        part=frame.part,
        first_sequence=frame.first,
        resume=data["resume"],
    )


def decode_transactions(head: bytes, body: bytes, format: int) -> pa.RecordBatch:
    """Decode only the directory of transactions."""
    return _transactions(pa.py_buffer(body), json.loads(head), format)


def last_place(chunk: Chunk) -> tuple[str, int]:
    """Return native position and commit time just after the chunk; ("", 0) after a fragment."""
    count = chunk.transactions.num_rows
    if not count or chunk.part is Part.FRAGMENT:
        return "", 0
    return (
        chunk.transactions.column(0)[count - 1].as_py(),
        chunk.transactions.column(2)[count - 1].as_py(),
    )


def has_dictionaries(schema: pa.Schema) -> bool:
    """Return whether a column is dictionary-encoded: it would need messages of its own, which frames have no place for."""
    return any(pa.types.is_dictionary(field.type) for field in schema)


def _transactions(buffer: pa.Buffer, data: dict[str, Any], format: int) -> pa.RecordBatch:
    raw = _raw(buffer, 0, data["transactions"])
    if format > 1:
        return pa.ipc.read_record_batch(raw, TRANSACTION_SCHEMA)
    found = pa.ipc.read_record_batch(raw, _WITHOUT_ORIGINS)
    origins = pa.nulls(found.num_rows, TRANSACTION_SCHEMA.field("origin").type)
    return pa.RecordBatch.from_arrays([*found.columns, origins], schema=TRANSACTION_SCHEMA)


def _message(batch: pa.RecordBatch) -> tuple[Data, list[int]]:
    raw = batch.serialize()
    if raw.size < COMPRESS_FROM:
        return memoryview(raw), [raw.size, 0]
    packed: bytes = _ZSTD.compress(raw, asbytes=True)  # memoryview shows a wrong length of the Buffer it makes
    return packed, [len(packed), raw.size]


def _raw(buffer: pa.Buffer, offset: int, length: list[int]) -> pa.Buffer:
    stored, raw = length
    piece = buffer.slice(offset, stored)
    # A small one lies wherever the one before it ends; Arrow's kernels want values on their own boundaries, and warn.
    return _ZSTD.decompress(piece, raw) if raw else pa.py_buffer(piece.to_pybytes())


@lru_cache(4096)
def _shape_text(shape: Shape) -> str:
    present = "".join("01"[p] for p in shape.present)
    unchanged = "".join("01"[u] for u in shape.unchanged)
    return "/".join([present, unchanged, "off"] if shape.keys_off else [present, unchanged] if unchanged else [present])


@lru_cache(4096)
def _shape(text: str) -> Shape:
    present, unchanged, keys = (*text.split("/"), "", "")[:3]
    return Shape(tuple(c == "1" for c in present), tuple(c == "1" for c in unchanged), keys == "off")


@lru_cache(4096)
def _table(text: str) -> TableId:
    return TableId.parse(text)


def _barrier_json(barrier: Barrier) -> list[Any]:
    schema = barrier.schema.to_json() if barrier.schema else None
    untold = [barrier.untold.to_json()] if barrier.untold else []  # most have none, as all of a trail of before
    return [
        barrier.tx, barrier.ordinal, barrier.kind.value, str(barrier.table), barrier.statement, barrier.reason, schema, *untold
    ]  # fmt: skip


def _barrier(data: Sequence[Any]) -> Barrier:
    tx, ordinal, kind, table, statement, reason, schema, *untold = data
    definition = TableSchema.from_json(schema) if schema else None
    more = [Untold.from_json(one) for one in untold]
    return Barrier(tx, ordinal, BarrierKind(kind), _table(table), statement, reason, definition, *more)
