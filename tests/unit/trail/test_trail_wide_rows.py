"""Rows of any width: what is planned or packed together is bounded by its bytes, not by its rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.apply.feed import GROUP_BYTES, GROUP_ROWS, Feed, grouped
from anabranch.rows.chunk import Chunk, Op, TableRows
from anabranch.trail import pack
from anabranch.trail.chunk_refs import LEAST_ROWS, ChunkRef

WIDE = 1 << 20


def wide(samples: Any, number: int, width: int = WIDE, rows: int = 1) -> Chunk:
    found = [(Op.INSERT, 0, at, 0, number * 10 + at, "x" * width) for at in range(rows)]
    transactions = samples.transactions([(f"log:{number}", None, number * 1000, rows)])
    return Chunk(
        transactions, (TableRows(samples.ORDERS, 1, samples.batch(found), (samples.FULL,)),), resume=str(number)
    )


def write(writer: Any, samples: Any, count: int, **facts: int) -> None:
    writer.heartbeat(samples.mark(0))
    for number in range(1, count + 1):
        writer.append(wide(samples, number, **facts))
    writer.flush()


def test_a_ref_tells_the_bytes_in_memory_not_those_in_the_file(
    open_writer: Any, open_reader: Any, samples: Any
) -> None:
    write(open_writer(), samples, 1)
    reader = open_reader()
    (ref,) = reader.descriptors(0)
    loaded = sum(rows.batch.nbytes for rows in reader.load(ref).tables)
    assert ref.length < 10_000 < WIDE <= loaded <= ref.bytes < loaded + 10_000


def test_groups_of_wide_rows_have_few_of_them(open_writer: Any, open_reader: Any, samples: Any) -> None:
    write(open_writer(), samples, 70)
    reader = open_reader()
    groups = list(Feed(reader, 0, 70).groups())
    sizes = [sum(rows.batch.nbytes for chunk in group for rows in chunk.tables) for group in groups]
    assert len(groups) == 3 and max(sizes) <= GROUP_BYTES
    assert [chunk.first_sequence for group in groups for chunk in group] == list(range(1, 71))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([], []),
        ([(1, GROUP_BYTES * 3)], [1]),
        ([(1, 10), (1, GROUP_BYTES * 3), (1, 10)], [1, 1, 1]),
        ([(GROUP_ROWS - 1, 10), (1, 10), (1, 10)], [2, 1]),
        ([(GROUP_ROWS, 10), (GROUP_ROWS, 10)], [1, 1]),
        ([(1, GROUP_BYTES // 2)] * 5, [2, 2, 1]),
        ([(1, 10)] * (GROUP_ROWS // LEAST_ROWS + 1), [GROUP_ROWS // LEAST_ROWS, 1]),  # live, each takes kilobytes
    ],
)
def test_groups_end_at_rows_or_at_bytes(facts: list[tuple[int, int]], expected: list[int]) -> None:
    class Ref:
        cost = ChunkRef.cost

        def __init__(self, rows: int, size: int) -> None:
            self.rows, self.bytes = rows, size

    refs: list[ChunkRef] = [Ref(*one) for one in facts]  # type: ignore[misc]  # tuples of literals
    groups = list(grouped(refs))
    assert [len(group) for group in groups] == expected
    assert [ref for group in groups for ref in group] == refs


def test_packing_joins_wide_rows_up_to_a_frames_bytes(
    open_writer: Any, open_reader: Any, samples: Any, tmp_path: Path
) -> None:
    """They compress well here, so the segment is worth packing; in memory they are large all the same."""
    write(open_writer(segment_bytes=16_000), samples, 40)
    assert pack.pack_all(tmp_path / "trail")
    refs = open_reader().descriptors(0)
    packed = [ref for ref in refs if ref.segment.endswith(".packed")]
    assert packed and max(ref.bytes for ref in packed) <= pack.CHUNK_BYTES + 2 * WIDE
    assert min(ref.transactions for ref in packed[:-1]) > 1 and refs[0].first_sequence == 1


def test_frames_that_are_large_already_are_not_rewritten() -> None:
    assert pack.is_worthwhile(1000, 1000, 1000 * 500)
    assert not pack.is_worthwhile(16, 16 * 60, 16 * (4 << 20))
