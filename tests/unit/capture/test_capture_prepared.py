"""Prepared transactions on their way into the trail: whatever dies in between, each comes once, whole, at its commit (K6)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.capture.run import Capture
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.capture import MemoryLog, mark, number_of
from anabranch.errors import TrailCorrupt, UnknownLogEvent
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import META, BarrierKind, Chunk, Op, Part
from anabranch.rows.log_items import LogDecided, LogItem, LogPrepared
from anabranch.trail.format import FrameKind
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.segment import SegmentReader
from anabranch.trail.staging import staged
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter
from rigs.storage import Died, Dying

A, B = TableId("shop", "a"), TableId("shop", "b")


def definition(table: TableId) -> TableSchema:
    return TableSchema(table, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",))


def rows(ids: Sequence[int], part: Part, place: LogMark | None, park: TableId | None = None) -> Chunk:
    builder, buffer = ChunkBuilder(), None
    buffer = builder.table(definition(A))
    buffer.columns[0].extend(ids)
    buffer.runs.append((Op.INSERT, 0, 0, *[buffer.shape((True,))] * 2, len(ids)))
    if park:
        builder.barrier(0, BarrierKind.PARK, park, "cannot be read")
    if part is Part.FRAGMENT:
        builder.images = len(ids)
        return builder.build("", part)
    builder.commit(place.native if place else "", None, 0, len(ids))
    return builder.build(place.resume if place else "", part)


class TwoPhaseLog(MemoryLog):
    """Gives `items`: (where it ends in the log, item)."""

    items: Sequence[tuple[int, LogItem]]

    def start(self, after: LogMark, select: Any) -> None:
        self.left = [item for number, item in self.items if number > number_of(after)]

    def read(self, timeout: float) -> LogItem | None:
        return self.left.pop(0) if self.left else None


class Nobody:
    def read(self, *_: Any) -> None: ...

    follows = log_end = at_end = written = waiting = read


@pytest.fixture
def shop() -> Any:
    made = database("capture_prepared")
    made.create(definition(A))
    made.create(definition(B))
    yield made
    forget(["capture_prepared"])


def follow(shop: Database, directory: Path, items: Sequence[tuple[int, LogItem]], storage: Any = None) -> None:
    source, reader = MemorySource(Endpoint("memory", "", 0, "", "", shop.name)), TwoPhaseLog(shop)
    reader.items, reader.left = items, [(0, None)]
    with TrailWriter.open(
        directory, job="j", job_uuid="u", source_identity=shop.identity, pack=False, storage=storage
    ) as trail:
        Capture(
            source, reader, trail, {A, B}.__contains__, lambda: not reader.left, Nobody(), shop.identity, lambda *_: None
        ).run()  # fmt: skip


def found(directory: Path) -> list[tuple[str, list[int]]]:
    """Place and ids of the trail's transactions."""
    result: list[tuple[str, list[int]]] = []
    held: list[int] = []
    with TrailReader(directory) as trail:
        assert trail.check().is_good
        for chunk in chunks(trail, 0):
            for part in chunk.tables:
                held += part.batch.column(META).to_pylist()
            if chunk.part is not Part.FRAGMENT:
                result.append((chunk.transactions["native"][0].as_py(), held))
                held = []
    return result


def log(shop: Database) -> list[tuple[int, LogItem]]:
    """x and y are prepared, x in three parts; y is rolled back, x committed; z has no rows; x comes again."""
    place = [mark(shop.identity, number) for number in range(12)]

    def decided(number: int, xid: str, committed: bool = True) -> tuple[int, LogItem]:
        return number, LogDecided(xid, committed, place[number], None)

    def prepared(number: int, xid: str, *parts: list[int]) -> list[tuple[int, LogItem]]:
        whole = [(number, LogPrepared(rows(ids, Part.FRAGMENT, None), place[number - 1])) for ids in parts[:-1]]
        return [*whole, (number, LogPrepared(rows(parts[-1], Part.LAST, None), place[number], xid))]

    return [
        *prepared(1, "x", [1, 2], [3], [4, 5]),
        (2, rows([6], Part.WHOLE, place[2])),
        *prepared(3, "y", [7]),
        *prepared(4, "z", []),
        decided(5, "x"),
        decided(6, "y", False),
        *prepared(7, "x", [8], []),
        (8, rows([9], Part.WHOLE, place[8])),
        decided(9, "z"),
        decided(10, "x"),
        (11, rows([10], Part.WHOLE, place[11])),
    ]


EXPECTED = [("2", [6]), ("5", [1, 2, 3, 4, 5]), ("8", [9]), ("10", [8]), ("11", [10])]


@pytest.mark.parametrize("after", [False, True])
def test_rule_06_killed_at_any_step_each_comes_once_at_its_commit(shop: Database, tmp_path: Path, after: bool) -> None:
    items = log(shop)
    for step in range(1, 200):
        directory = tmp_path / str(step)
        directory.mkdir()
        try:
            follow(shop, directory, items, Dying(directory, step, after))
            break
        except Died:
            follow(shop, directory, items, Dying(directory))
        assert found(directory) == EXPECTED, f"killed at step {step}"
        assert staged(directory) == [], f"killed at step {step}"
    assert found(directory) == EXPECTED and 40 < step < 199


def test_rule_06_a_commit_of_what_was_never_prepared_stops_and_a_rollback_does_not(
    shop: Database, tmp_path: Path
) -> None:
    here = mark(shop.identity, 1)
    follow(shop, tmp_path, [(1, LogDecided("x", False, here))])
    assert found(tmp_path) == []
    with pytest.raises(UnknownLogEvent, match="does not have its rows") as stopped:
        follow(shop, tmp_path, [(2, LogDecided("x", True, mark(shop.identity, 2)))])
    assert stopped.value.position == "2" and stopped.value.hint


def test_rule_19_a_table_that_cannot_be_read_any_more_is_parked_where_it_was_prepared(
    shop: Database, tmp_path: Path
) -> None:
    """Not where it is committed: rows in between are left out already. Its rows before that place do not count either."""
    place = [mark(shop.identity, number) for number in range(4)]
    items: list[tuple[int, LogItem]] = [
        (1, LogPrepared(rows([1], Part.LAST, None, park=A), place[1], "x", (A,))),
        (2, LogDecided("x", True, place[2])),
    ]
    follow(shop, tmp_path, items)
    with TrailReader(tmp_path) as trail:
        (parked,) = [(chunk, barrier) for chunk in chunks(trail, 0) for barrier in chunk.barriers]
        assert parked[1].kind is BarrierKind.PARK and parked[0].transactions["native"][0].as_py() == "1"
        assert set(trail.history.parked()) == {A} and found(tmp_path) == [("1", [])]


def test_staged_rows_that_are_damaged_are_refused(shop: Database, tmp_path: Path) -> None:
    follow(shop, tmp_path, log(shop)[:3])
    (file,) = (tmp_path / "staging").iterdir()
    whole = file.read_bytes()
    data = bytearray(whole)
    with TrailReader(tmp_path) as trail:
        assert trail.check().is_good
        data[data.index(b"ARROW") if b"ARROW" in data else len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
        assert len(trail.check().problems) == 1 and "staging" in trail.check().problems[0]
    data = bytearray(whole)
    data[-20] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(TrailCorrupt, match="damaged"):
        follow(shop, tmp_path, log(shop))


def test_staged_rows_that_end_early_are_not_taken_for_all(shop: Database, tmp_path: Path) -> None:
    """The head of a frame is damaged while capture has the transaction in mind."""
    place = mark(shop.identity, 1)
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity=shop.identity, pack=False) as trail:
        trail.schema(definition(A))
        for ids in ([1, 2], [3]):
            trail.staging.add(rows(ids, Part.FRAGMENT, None))
        trail.staging.prepare("x", place)
        assert sum(chunk.row_count for chunk in trail.staging.chunks("x")) == 3
        (file,) = (tmp_path / "staging").iterdir()
        data = bytearray(file.read_bytes())
        with closing(SegmentReader(LocalStorage(tmp_path), f"staging/{file.name}")) as segment:
            starts = [at for at, frame, _ in segment.frames(0, len(data)) if frame.kind == FrameKind.CHUNK]
        data[starts[1] + 2] ^= 1
        file.write_bytes(bytes(data))
        with pytest.raises(TrailCorrupt, match="2 rows of the prepared transaction x, not 3"):
            list(trail.staging.chunks("x"))


def test_what_was_decided_before_the_trails_end_is_removed(shop: Database, tmp_path: Path) -> None:
    """Its removal failed, and the trail went on; what was decided behind the end is decided again."""
    place = [mark(shop.identity, number) for number in range(4)]
    follow(shop, tmp_path, [(2, rows([1], Part.WHOLE, place[2]))])
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity=shop.identity, pack=False) as trail:
        for xid, decided in (("over", place[1]), ("open", place[3])):
            trail.staging.prepare(xid, place[0])
            trail.staging.decide(xid, decided)
    follow(shop, tmp_path, [])
    assert [one.xid for one in staged(tmp_path)] == ["open"]
