"""The way of a change from the trail to a target that takes changes: chunks, images, a batch, the twin's Appender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.apply import feed as feeds
from anabranch.apply.appending import batch_of, with_open
from anabranch.apply.feed import Feed
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target import MemoryTarget
from anabranch.contracts import Begun, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.appended import Appended, ChangeBatch, Committed
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Part
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.chunks import ITEMS, KEYLESS, chunk_of, followed

JOB = "shop"
TABLES = {one.id: (one, followed(one).table) for one in (ITEMS, KEYLESS)}


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[TrailWriter]:
    writer = TrailWriter.open(tmp_path / "trail", job=JOB, job_uuid="u", source_identity="s", pack=False)
    for one in (ITEMS, KEYLESS):
        writer.schema(one)
    yield writer
    writer.close()
    forget(["appending"])


def committed(chunk: Chunk, *facts: tuple[str, int, str | None]) -> Chunk:
    """The chunk with these positions, times and origins of its transactions."""
    rows = [
        {"native": at, "gtid": None, "commit_time": time, "rows": 1, "origin": origin} for at, time, origin in facts
    ]
    return replace(chunk, transactions=pa.RecordBatch.from_pylist(rows, schema=TRANSACTION_SCHEMA))


def appended(trail: TrailWriter) -> Sequence[Appended]:
    """Everything that the trail has, appended in one epoch."""
    trail.flush()
    target = MemoryTarget(Endpoint("memory", "", 0, "", "", "appending"))
    with closing(target.store()) as store:
        store.jobs.create_checkpoint(JOB, Position(0, ""), 0)
    with TrailReader(trail.directory) as reader, closing(target.appender(ValueRules())) as appender:
        feed = Feed(reader, 0, reader.end().position.sequence)
        end, time = feed.end()
        now = appender.claim(JOB, "me")
        assert appender.begin(now, Checkpoint("me", 1, end, time)) is Begun.OPEN
        for stretch in feed.stretches():
            appender.append(batch_of(stretch if isinstance(stretch, list) else list(stretch.chunks()), TABLES))
        appender.commit()
    return database("appending").appended


def test_changes_come_in_the_log_s_order_with_position_and_time_of_their_transaction(trail: TrailWriter) -> None:
    truncate = Barrier(1, 0, BarrierKind.TRUNCATE, KEYLESS.id)
    first = [("i", {"id": 1, "a": 1, "b": "x"}), ("items", "u", {"id": 1}, {"a": 2})]
    chunk = chunk_of([first, [("heap", "i", {"a": 5, "b": "y"})]], first=0, barriers=[replace(truncate, ordinal=9)])
    trail.append(committed(chunk, ("log.1:10", 111, None), ("log.1:20", 222, "north")))
    trail.append(committed(chunk_of([[("d", {"id": 1})]], first=0), ("log.1:30", 333, None)))
    inserted, updated, heaped, emptied, deleted = appended(trail)
    one, two, three = (
        Committed(1, "log.1:10", 111),
        Committed(2, "log.1:20", 222, origin="north"),
        Committed(3, "log.1:30", 333),
    )
    assert [c.transaction for c in (inserted, updated, heaped, emptied, deleted)] == [one, one, two, two, three]
    assert (inserted.before, inserted.after) == (None, {"id": 1, "a": 1, "b": "x"})
    assert (updated.before, updated.after) == ({"id": 1}, {"a": 2})
    assert heaped.after == {"a": 5, "b": "y"}
    assert (emptied.table.source, emptied.before, emptied.after) == (KEYLESS.id, None, None)
    assert (deleted.before, deleted.after) == ({"id": 1}, None)


def test_all_parts_of_a_large_transaction_are_of_the_place_where_it_committed(trail: TrailWriter) -> None:
    def part(part: Part, number: int, at: str, time: int) -> Chunk:
        chunk = committed(chunk_of([[("i", {"id": number, "a": 0, "b": ""})]], [ITEMS], 0), (at, time, None))
        (rows,) = chunk.tables
        batch = rows.batch.set_column(2, rows.batch.schema.field(2), pa.array([number], pa.int64()))
        return replace(chunk, part=part, tables=(replace(rows, batch=batch),))

    trail.append(part(Part.FRAGMENT, 0, "", 0))
    trail.append(part(Part.FRAGMENT, 1, "", 0))
    trail.append(part(Part.LAST, 2, "log.1:90", 900))
    found = appended(trail)
    assert [one.after["id"] for one in found if one.after] == [0, 1, 2]
    assert {one.transaction for one in found} == {Committed(1, "log.1:90", 900)}


def test_each_batch_of_a_large_transaction_names_it(trail: TrailWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments are planned in bounded groups: one that ends in front of the last fragment knows the place of its rows."""
    monkeypatch.setattr(feeds, "GROUP_ROWS", 1)
    trail.append(committed(chunk_of([[("i", {"id": 7, "a": 0, "b": ""})]], [ITEMS], 0), ("log.1:10", 100, None)))
    for number, (part, at, time) in enumerate(
        [(Part.FRAGMENT, "", 0), (Part.FRAGMENT, "", 0), (Part.LAST, "log.1:90", 900)]
    ):
        chunk = committed(chunk_of([[("i", {"id": number, "a": 0, "b": ""})]], [ITEMS], 0), (at, time, None))
        trail.append(replace(chunk, part=part))
    trail.flush()
    with TrailReader(trail.directory) as reader:
        feed = Feed(reader, 0, reader.end().position.sequence)
        found = [with_open(batch_of(chunks, TABLES), chunks, feed).transactions for chunks in feed.groups()]
    small, large = Committed(1, "log.1:10", 100), Committed(2, "log.1:90", 900)
    assert [list(one) for one in found] == [[small], [large], [large], [large]]


def test_nothing_makes_an_empty_batch() -> None:
    assert batch_of([], TABLES) == ChangeBatch(())
