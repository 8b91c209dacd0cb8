"""Chunks from runs of row images: whole transactions leave, the open one stays."""

from __future__ import annotations

import pytest

from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import MOST_SHAPES, ChunkBuilder
from anabranch.rows.chunk import BarrierKind, Op, Part
from anabranch.rows.refused import NO_TEXT

T = TableId("s", "t")
SCHEMA = TableSchema(
    T,
    (
        Column("id", LogicalType(Kind.INT32), "int", nullable=False),
        Column("refused", None, "geometry"),
        Column("v", LogicalType(Kind.TEXT), "varchar(5)"),
    ),
    primary_key=("id",),
)
FULL, PART = (True, True, True), (True, False, False)


def images(builder: ChunkBuilder, op: Op, ordinal: int, *rows: tuple[int, bytes | None], shapes=(FULL, FULL)) -> None:
    buffer = builder.table(SCHEMA)
    for number, text in rows:
        buffer.columns[0].append(number)
        buffer.columns[2].append(text)
    first, second = (buffer.shape(shape) for shape in shapes)
    buffer.runs.append((op, builder.transaction, ordinal, first, second, len(rows)))
    builder.images += len(rows)
    builder.size += 10 * len(rows)


def test_runs_become_images() -> None:
    builder = ChunkBuilder()
    images(builder, Op.INSERT, 0, (1, b"a"), (2, None))
    images(builder, Op.BEFORE, 2, (1, None), (5, b"x"), (2, None), (6, b"y"), shapes=(PART, FULL))
    builder.commit("f:1", "g:1", 7, 6)
    images(builder, Op.DELETE, 0, (5, b"x"))
    builder.commit("f:2", None, 8, 1, "north")
    chunk = builder.build("resume")
    (rows,) = chunk.tables
    table = rows.batch.to_pydict()
    assert table["_op"] == [1, 1, 3, 4, 3, 4, 2]
    assert table["_tx"] == [0, 0, 0, 0, 0, 0, 1]
    assert table["_ordinal"] == [0, 1, 2, 3, 4, 5, 0]
    assert [rows.shapes[n].present for n in table["_shape"]] == [FULL, FULL, PART, FULL, PART, FULL, FULL]
    assert table["id"] == [1, 2, 1, 5, 2, 6, 5] and table["v"] == ["a", None, None, "x", None, "y", "x"]
    assert table["refused"] == [None] * 7
    second = {"native": "f:2", "gtid": None, "commit_time": 8, "rows": 1, "origin": "north"}
    assert chunk.transactions.to_pylist()[1] == second
    assert chunk.transactions.column("origin").to_pylist() == [None, "north"]
    assert (chunk.part, chunk.resume, builder.images, builder.size) == (Part.WHOLE, "resume", 0, 0)


def test_the_open_transaction_stays() -> None:
    builder = ChunkBuilder()
    images(builder, Op.INSERT, 0, (1, b"a"))
    builder.commit("f:1", None, 7, 1)
    images(builder, Op.INSERT, 0, (2, b"b"))
    builder.barrier(1, BarrierKind.PARK, T, "because")
    first = builder.build("one")
    assert first.row_count == 1 and first.barriers == () and builder.images == 1
    images(builder, Op.INSERT, 1, (3, b"c"))
    builder.commit("f:2", None, 8, 2)
    second = builder.build("two")
    (rows,) = second.tables
    assert rows.batch.to_pydict()["id"] == [2, 3] and rows.batch.to_pydict()["_tx"] == [0, 0]
    assert [(b.tx, b.ordinal, b.reason) for b in second.barriers] == [(0, 1, "because")]


def test_fragments() -> None:
    builder = ChunkBuilder()
    images(builder, Op.INSERT, 0, (1, b"a"))
    fragment = builder.build("before", Part.FRAGMENT)
    images(builder, Op.INSERT, 1, (2, b"b"))
    builder.commit("f:9", "g", 5, 1)
    last = builder.build("after", Part.LAST)
    assert fragment.transactions.to_pylist() == [
        {"native": "", "gtid": None, "commit_time": 0, "rows": 1, "origin": None}
    ]
    assert last.transactions.to_pylist() == [
        {"native": "f:9", "gtid": "g", "commit_time": 5, "rows": 1, "origin": None}
    ]
    assert (fragment.part, last.part, fragment.row_count, last.row_count) == (Part.FRAGMENT, Part.LAST, 1, 1)


def test_an_abandoned_transaction_leaves_nothing() -> None:
    builder = ChunkBuilder()
    images(builder, Op.INSERT, 0, (1, b"a"))
    builder.commit("f:1", None, 7, 1)
    images(builder, Op.INSERT, 0, (2, b"b"))
    builder.barrier(0, BarrierKind.PARK, T)
    builder.abandon()
    images(builder, Op.INSERT, 0, (3, b"c"))
    builder.commit("f:2", None, 8, 1)
    chunk = builder.build("r")
    assert chunk.tables[0].batch.to_pydict()["id"] == [1, 3] and chunk.barriers == ()


def test_many_shapes_are_told_only_where_they_occur() -> None:
    builder = ChunkBuilder()
    buffer = builder.table(SCHEMA)
    for shape in [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]:
        buffer.shape(shape)
    images(builder, Op.DELETE, 0, (1, b"a"), shapes=(PART, PART))
    builder.commit("f:1", None, 7, 1)
    (rows,) = builder.build("r").tables
    assert [shape.present for shape in rows.shapes] == [PART] and rows.batch["_shape"].to_pylist() == [0]


def test_text_that_is_none_is_refused_with_its_column() -> None:
    builder = ChunkBuilder()
    images(builder, Op.INSERT, 0, (1, b"\xff"))
    builder.commit("f:1", None, 7, 1)
    with pytest.raises(ValueRefused, match="column v of the row with id=1 holds bytes that are no text") as refused:
        builder.build("r")
    assert refused.value.table == "s.t"


def test_rule_26_a_value_that_is_none_of_its_type_is_left_out_where_the_job_wants_that() -> None:
    builder = ChunkBuilder()
    builder.carries = True
    images(builder, Op.INSERT, 0, (1, b"a"), (2, b"\xff"), (3, b"b"))
    images(builder, Op.BEFORE, 3, (1, b"a"), (1, b"\xfe"))
    builder.commit("f:1", None, 7, 5)
    (rows,) = builder.build("").tables
    assert rows.batch.column("v").to_pylist() == ["a", None, "b", "a", None]
    assert [(one.row, one.column) for one in rows.unconverted] == [(1, 2), (4, 2)]
    assert {one.what for one in rows.unconverted} == {NO_TEXT}
    present = [rows.shapes[number].present for number in rows.batch.column("_shape").to_pylist()]
    assert present == [FULL, (True, True, False), FULL, FULL, (True, True, False)]


def test_rule_26_words_for_what_is_left_out_are_bounded() -> None:
    """Each value with words of its own would be a shape, of which a chunk has no end of."""
    buffer = ChunkBuilder().table(SCHEMA)
    numbers = {buffer.shape(FULL, marks=((2, f"what {number}"),)) for number in range(3 * MOST_SHAPES)}
    assert MOST_SHAPES <= len(numbers) <= MOST_SHAPES + 2
