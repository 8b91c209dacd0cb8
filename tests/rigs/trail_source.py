"""A make-believe source: transaction n always has the same rows, so that what the trail holds can be told right or wrong.

Loaded by conftest.py, and imported by trail_process.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import Barrier, Chunk, Op, Part, Shape, TableRows
from anabranch.rows.chunk_schema import META_FIELDS, TRANSACTION_SCHEMA

ORDERS = TableId("shop", "orders")
NOTES = TableId("shop", "odd.name")
JOB = {"job": "shop", "job_uuid": "uuid-1", "source_identity": "server-1"}
FULL, PARTIAL = Shape((True, True)), Shape((True, False))


def definition(table: TableId = ORDERS, version: int = 1) -> TableSchema:
    columns = (
        Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),
        Column("note", LogicalType(Kind.TEXT), "text", charset="utf8mb4"),
    )
    return TableSchema(table, columns, ("id",), version=version)


ARROW = pa.schema([*META_FIELDS, pa.field("id", pa.int64()), pa.field("note", pa.string())])


def row_count(number: int) -> int:
    return number % 4


def source_rows(number: int) -> list[tuple[str, int, str | None]]:
    """(table, id, note) of source transaction `number`."""
    names = [str(NOTES) if (number + i) % 5 == 0 else str(ORDERS) for i in range(row_count(number))]
    return [(name, number * 10 + i, None if i == 2 else f"note {number}/{i} ü") for i, name in enumerate(names)]


def chunk(first: int, last: int, *, part: Part = Part.WHOLE, barriers: tuple[Barrier, ...] = ()) -> Chunk:
    """The source's transactions `first` to `last`."""
    numbers = range(first, last + 1)
    rows: dict[TableId, list[tuple[int, int, int, int, int, str | None]]] = {}
    for tx, number in enumerate(numbers):
        for i, (name, key, note) in enumerate(source_rows(number)):
            shape = 1 if note is None else 0
            rows.setdefault(TableId.parse(name), []).append((Op.INSERT, tx, i, shape, key, note))
    return Chunk(
        transactions([(f"log:{n}", f"gtid-{n}" if n % 2 else None, n * 1000, row_count(n)) for n in numbers]),
        tuple(TableRows(table, 1, batch(found), (FULL, PARTIAL)) for table, found in rows.items()),
        barriers,
        part,
        resume=str(last),
    )


def transactions(found: list[tuple[str, str | None, int, int]], origin: str | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(TRANSACTION_SCHEMA.names, (*f, origin), strict=True)) for f in found], TRANSACTION_SCHEMA
    )


def batch(found: list[tuple[int, int, int, int, int, str | None]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(ARROW.names, f, strict=True)) for f in found], ARROW)


LARGE_FRAGMENTS = 4


def is_large(number: int) -> bool:
    return number % 40 == 7


def large(number: int) -> Iterator[Chunk]:
    """Transaction `number` in fragments: row i of it is (id, note) = (number * 10 + i, "large …")."""
    for i in range(LARGE_FRAGMENTS):
        is_last = i == LARGE_FRAGMENTS - 1
        rows = batch([(Op.INSERT, 0, i * 2 + j, 0, number * 10 + i * 2 + j, f"large {number}") for j in range(2)])
        yield Chunk(
            transactions([(f"log:{number}" if is_last else "", None, number * 1000 if is_last else 0, 2)]),
            (TableRows(ORDERS, 1, rows, (FULL,)),),
            part=Part.LAST if is_last else Part.FRAGMENT,
            resume=str(number) if is_last else "",
        )


def large_rows(number: int) -> list[tuple[str, int, str | None]]:
    return [(str(ORDERS), number * 10 + i, f"large {number}") for i in range(2 * LARGE_FRAGMENTS)]


def mark(number: int) -> LogMark:
    return LogMark(f"log:{number}", str(number), number * 1000)


def found_rows(chunks: list[Chunk]) -> dict[int, list[tuple[str, int, str | None]]]:
    """Rows by sequence, in their ordinal."""
    rows: dict[int, list[tuple[int, str, int, str | None]]] = {}
    for c in chunks:
        for tx in range(c.transactions.num_rows):
            rows.setdefault(c.first_sequence + tx, [])
        for part in c.tables:
            for r in part.batch.to_pylist():
                present = part.shapes[r["_shape"]].present
                assert present[1] or r["note"] is None
                rows[c.first_sequence + r["_tx"]].append((r["_ordinal"], str(part.table), r["id"], r["note"]))
    return {sequence: [r[1:] for r in sorted(found)] for sequence, found in rows.items()}


def expected_rows(first: int, last: int, *, with_large: bool = False) -> dict[int, list[tuple[str, int, str | None]]]:
    return {n: large_rows(n) if with_large and is_large(n) else source_rows(n) for n in range(first, last + 1)}
