"""Rows of open transactions beside the trail: what a savepoint takes back is not there any more, wherever it lies in a part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import TableBuffer
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Op, Part
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.trail.codec import TableFrame
from anabranch.trail.open_staging import OpenStaging, kept
from anabranch.trail.storage import LocalStorage

TABLES = [
    TableSchema(TableId("shop", name), (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",))
    for name in ("a", "b")
]
FRAMES = {table.id: table for table in TABLES}
MARK = LogMark("1", "1", 0)
NO_TRANSACTIONS = pa.RecordBatch.from_pylist([], schema=TRANSACTION_SCHEMA)


def part(ordinals: Sequence[int]) -> Chunk:
    """Rows of two tables in turn; every fifth is a TRUNCATE."""
    buffers = [TableBuffer(table) for table in TABLES]
    for ordinal in ordinals:
        if ordinal % 5:
            buffer = buffers[ordinal % 2]
            buffer.columns[0].append(ordinal)
            shape = buffer.shape((True,))
            buffer.runs.append((int(Op.INSERT), 0, ordinal, shape, shape, 1))
    barriers = tuple(Barrier(0, n, BarrierKind.TRUNCATE, TABLES[0].id) for n in ordinals if not n % 5)
    rows = tuple(found for buffer in buffers if (found := buffer.take(1)) is not None)
    return Chunk(NO_TRANSACTIONS, rows, barriers, Part.FRAGMENT)


def there(staging: OpenStaging, xid: str) -> list[int]:
    found: list[Any] = []
    for chunk in staging.chunks(xid) if xid in staging else ():
        ordinals = [n for rows in chunk.tables for n in rows.batch["_ordinal"].to_pylist()]
        found += sorted(ordinals + [barrier.ordinal for barrier in chunk.barriers])
    return found


STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=25)


@settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(STEPS)
def test_what_is_taken_back_is_not_there(tmp_path_factory: Any, steps: list[tuple[bool, int]]) -> None:
    """(grows, count): a part of so many ordinals, in two chunks; or back to before the last so many that are there."""
    directory: Path = tmp_path_factory.mktemp("trail")
    storage = LocalStorage(directory)
    staging = OpenStaging(storage, lambda rows: TableFrame(FRAMES[rows.table], rows.batch.schema))
    expected: list[int] = []
    following = 0
    for grows, count in steps:
        if grows:
            new = list(range(following, following + count))
            staging.keep("x", [part(new[: count // 2]), part(new[count // 2 :])], MARK, MARK, 0)
            expected, following = expected + new, following + count
        elif "x" in staging and expected:
            first = expected[-min(count, len(expected))]
            staging.take_back("x", first)
            expected = [n for n in expected if n < first]
        assert there(staging, "x") == expected
    assert len(kept(directory)) == ("x" in staging)
    if "x" in staging:
        staging.remove("x")
    assert kept(directory) == []
