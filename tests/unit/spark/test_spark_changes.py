"""Changes out of a trail, as Spark's planner and its tasks ask for them: ranges, partitions, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError, RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.rows.chunk import META, Barrier, BarrierKind, Chunk, Part
from anabranch.rows.chunk import Unconverted as Unread
from anabranch.spark.changes import ChangesSource
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.chunks import ITEMS, KEYLESS, chunk_of

WIDE = LogicalType(Kind.DECIMAL, precision=65, scale=2)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TrailWriter]:
    open_one = TrailWriter.open(
        tmp_path / "trail", job="shop", job_uuid="u", source_identity="s", segment_bytes=2000, pack=False
    )
    with open_one as made:
        for one in (ITEMS, KEYLESS):
            made.schema(one)
        yield made


def put(writer: TrailWriter, *transactions: list[Any], **more: Any) -> None:
    for one in transactions:
        writer.append(chunk_of([one], **more))
    writer.flush()


def read(writer: TrailWriter, **options: object) -> list[dict[str, Any]]:
    """Return the rows, partition by partition, which the planner has in the trail's order."""
    said = {"path": str(writer.directory), "changes": "shop.items"}
    source = ChangesSource(said | {name.rstrip("_"): str(value) for name, value in options.items()})
    schema = source.schema()
    reader = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.schema.names == schema.names for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def places(rows: list[dict[str, Any]]) -> list[int]:
    return [int.from_bytes(row["__$start_lsn"][:7], "big") for row in rows]


def row(key: int, b: str | None = "x") -> dict[str, Any]:
    return {"id": key, "a": key, "b": b}


def test_rows_are_those_of_a_change_table_each_once_over_all_segments(writer: TrailWriter) -> None:
    put(writer, [("i", row(1)), ("heap", "i", {"a": 1, "b": "y"})], [("heap", "i", {"a": 1, "b": "y"})])
    put(writer, [("u", row(1), row(1, None)), ("d", row(1, None))], *([("i", row(key))] for key in range(2, 60)))
    with TrailReader(writer.directory) as trail:
        assert len(trail.starts()) > 5, "the range has several segments"
    found = read(writer)
    assert [one["__$operation"] for one in found[:4]] == [2, 3, 4, 1]
    assert [one["__$update_mask"] for one in found[:4]] == [b"\x07", b"\x04", b"\x04", b"\x07"]
    assert found[1]["__$seqval"] == found[2]["__$seqval"] < found[3]["__$seqval"]
    assert [one["__$command_id"] for one in found[:4]] == [1, 1, 1, 3]
    assert (found[2]["id"], found[2]["b"], found[2]["__$end_lsn"]) == (1, None, None)
    assert [one["id"] for one in found[4:]] == list(range(2, 60))
    assert places(found) == [1, 3, 3, 3, *range(4, 62)]
    assert places(read(writer, from_="3@log.1:3", to=5)) == [3, 3, 3, 4, 5]
    assert read(writer, from_=62) == [], "nothing has come since"


def piece(keys: range, part: Part) -> Chunk:
    """A part of one large transaction, which inserts rows with the numbers 1, 2, …"""
    chunk = chunk_of([[("i", row(key)) for key in keys]])
    (rows,) = chunk.tables
    ordinals = pa.array([key - 1 for key in keys], pa.int64())
    batch = rows.batch.set_column(META - 2, rows.batch.schema.field(META - 2), ordinals)
    return replace(chunk, part=part, tables=(replace(rows, batch=batch),))


def test_a_large_transaction_over_several_segments_is_there_whole_once_it_is_committed(writer: TrailWriter) -> None:
    put(writer, [("i", row(0))])
    for first in range(1, 401, 100):
        writer.append(piece(range(first, first + 100), Part.FRAGMENT))
    writer.flush()
    assert places(read(writer)) == [1]
    writer.append(piece(range(401, 501), Part.LAST))
    put(writer, [("i", row(501))])
    with TrailReader(writer.directory) as trail:
        assert len(trail.starts()) > 3
    found = read(writer)
    assert [one["id"] for one in found] == list(range(502))
    assert places(found) == [1, *[2] * 500, 3]
    assert [int.from_bytes(one["__$seqval"], "big") for one in found[1:-1]] == list(range(1, 501))
    assert [one["id"] for one in read(writer, from_=3)] == [501]


def test_a_range_has_one_definition_and_no_gap(writer: TrailWriter) -> None:
    put(writer, [("i", row(1))], [("i", row(2))])
    renamed_key = replace(ITEMS, version=1, primary_key=("a",))
    writer.alter(renamed_key, "ALTER TABLE items …")  # no column is another: it goes on
    put(writer, [("i", row(3))], schemas=(renamed_key,))
    wider = replace(ITEMS, version=2, columns=(*ITEMS.columns, Column("w", WIDE, "decimal(65,2)")))
    writer.alter(wider, "ALTER TABLE items ADD w …")
    put(writer, [("i", row(4) | {"w": None})], schemas=(wider,))
    assert places(read(writer, from_=1, to=3)) == [1, 2, 3]
    assert places(read(writer, to=2)) == [1, 2] and places(read(writer, to=3)) == [1, 2, 3]
    (last,) = read(writer)
    assert last["id"] == 4 and "w" in last and read(writer, to=4) == [last]
    writer.park(ITEMS.id, "its definition cannot be followed", "DROP TABLE items")
    put(writer, [("heap", "i", {"a": 1, "b": "y"})])
    assert places(read(writer, from_=4, to=4)) == [4]
    for options in ({}, {"from_": 1}, {"from_": 1, "to": 4}, {"from_": 5}, {"to": 5}):
        with pytest.raises(
            ConfigError, match="1 to 3, where its definition changed; 4 to 4, where the table was parked"
        ):
            read(writer, **options)
    for options, what in (
        ({"changes": "shop.other"}, "no table shop.other"),
        ({"to": 9}, "the trail ends at 5, before 9"),
        ({"from_": "now"}, "is no position"),
        ({"from_": 3, "to": 2}, "3 is behind 2"),
        ({"from_": 6, "to": 5}, "6 is behind 5"),
        ({"path": ""}, "no trail is named"),
    ):
        with pytest.raises(ConfigError, match=what):
            read(writer, **options)


def test_a_last_transaction_that_the_trail_no_longer_has_is_refused(
    writer: TrailWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(writer, *([("i", row(key))] for key in range(1, 4)))
    monkeypatch.setattr(TrailReader, "first", lambda self: 3)
    assert places(read(writer)) == [3] == places(read(writer, to=3))
    with pytest.raises(ConfigError, match="the trail begins at 3, behind 2"):
        read(writer, to=2)


def test_what_has_no_row_is_refused_with_its_place(writer: TrailWriter) -> None:
    put(writer, [("i", row(1))])
    emptied = Barrier(0, 0, BarrierKind.TRUNCATE, ITEMS.id, "TRUNCATE TABLE items")
    put(writer, [], barriers=(emptied,))
    put(writer, [("u", {"id": 1}, row(1))], [("i", row(3))])
    chunk = chunk_of([[("i", row(5, None))]])
    (rows,) = chunk.tables
    writer.append(replace(chunk, tables=(replace(rows, unconverted=(Unread(0, 2, "0xFF"),)),)))
    put(writer, [("i", row(6))])
    for place, what in ((2, "TRUNCATE.*at 2@"), (3, "does not have column a"), (5, "column b has 0xFF.*at 5@")):
        with pytest.raises(RowRefused, match=what):
            read(writer, from_=place, to=place)
    assert [places(read(writer, from_=at, to=at)) for at in (1, 4, 6)] == [[1], [4], [6]]


def test_a_dataframe_made_before_the_definition_changed_is_refused(writer: TrailWriter) -> None:
    put(writer, [("i", row(1))])
    source = ChangesSource({"path": str(writer.directory), "changes": "shop.items"})
    schema = source.schema()
    assert [field.dataType.simpleString() for field in schema] == [
        *("binary", "binary", "binary", "int", "binary", "bigint", "bigint", "string", "int")
    ]
    wider = replace(ITEMS, version=1, columns=(*ITEMS.columns, Column("w", WIDE, "decimal(65,2)")))
    writer.alter(wider, "ALTER TABLE items ADD w …")
    put(writer, [("i", row(4) | {"w": None})], schemas=(wider,))
    with pytest.raises(ConfigError, match="other columns than this DataFrame"):
        source.reader(schema).partitions()
    assert source.schema()["w"].dataType.simpleString() == "string", "Spark's decimals end at 38 digits"


def test_a_value_of_65_digits_is_text(writer: TrailWriter) -> None:
    wider = replace(ITEMS, version=1, columns=(*ITEMS.columns, Column("w", WIDE, "decimal(65,2)")))
    writer.alter(wider, "ALTER TABLE items ADD w …")
    value = pa.scalar("123456789012345678901234567890123456789012345678901234567890.25").cast(pa.decimal256(65, 2))
    put(writer, [("i", row(1) | {"w": value.as_py()})], schemas=(wider,))
    assert read(writer)[0]["w"] == "123456789012345678901234567890123456789012345678901234567890.25"
