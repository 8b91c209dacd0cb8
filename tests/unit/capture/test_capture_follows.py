"""The capture loop over the memory twin: what comes between reads, and what must not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import pace
from anabranch.capture import run
from anabranch.capture.run import Capture, CaptureWatcher
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source import MemorySource, capture
from anabranch.connectors.memory.source.capture import MemoryLog, mark, number_of
from anabranch.connectors.memory.source.catalog import MemoryCatalog
from anabranch.contracts import Select
from anabranch.errors import SourceError, SourceUnavailable, StorageFull
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.schema import Column, TableSchema
from anabranch.pace import Pace
from anabranch.rows.chunk import BarrierKind, Part
from anabranch.rows.log_items import LogAbandoned, LogItem
from anabranch.trail import identity, requests
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter

A, B = TableId("shop", "a"), TableId("shop", "b")
JOB = {"job": "shop", "job_uuid": "uuid-1"}


def definition(table: TableId) -> TableSchema:
    return TableSchema(table, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",))


class SlowLog(MemoryLog):
    """Gives what `script` says: "item", what comes next; "none", nothing yet, as a line does that is slower than the
    loop. Any other entry is called before, and may give something itself. Each read takes half a second of the loop's clock."""

    script: deque[Any]
    clock = 0.0
    away = 0  # starts that find no server

    def start(self, after: LogMark, select: Select) -> None:
        """Any server of the test has the whole log (K18)."""
        if self.away:
            self.away, self.clock = self.away - 1, self.clock + 100
            raise SourceUnavailable("no server")
        super().start(mark(self.identity(), number_of(after)), select)

    def read(self, timeout: float) -> LogItem | None:
        self.clock += 0.5
        while not isinstance(step := self.script.popleft(), str):
            if (found := step(self)) is not None:
                return found
        return super().read(0.0) if step == "item" else None


class Nobody:
    def follows(self, decoder: str) -> None: ...

    def read(self, position: Position, commit_time: int) -> None: ...

    def log_end(self, mark: object) -> None: ...

    def at_end(self, trail: TrailWriter) -> None: ...

    def written(self, trail: TrailWriter) -> None: ...

    def waiting(self, why: str, on: object) -> None: ...


def trail_identity(directory: Path) -> str:
    found = identity.load(LocalStorage(directory))
    return found.source_identity if found else ""


@pytest.fixture
def shop() -> Iterator[Database]:
    made = database("capture_follows")
    made.create(definition(A))
    made.create(definition(B))
    yield made
    forget(["capture_follows"])


@pytest.fixture
def follow(shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Capture of table `a`, for as long as the script of its reads is."""

    def make(
        *script: Any,
        refuse_switch: Callable[[str, str], None] = lambda followed, now: None,
        watcher: CaptureWatcher = Nobody(),  # noqa: B008 - it has no state
        away: int = 0,
        waits_at_start: bool = False,
    ) -> None:
        source, log = MemorySource(Endpoint("memory", "", 0, "", "", shop.name)), SlowLog(shop)
        log.script, log.away = deque(script), away
        monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: log.clock, sleep=lambda seconds: None))
        followed, stop = trail_identity(tmp_path) or shop.identity, lambda: not log.script
        with TrailWriter.open(tmp_path, **JOB, source_identity=followed, pack=False) as trail:
            reads = Capture(source, log, trail, {A}.__contains__, stop, watcher, followed, refuse_switch)
            replace(reads, waits_at_start=waits_at_start).run()

    return make


def insert(shop: Database, table: TableId, *ids: int) -> None:
    with shop.transaction() as open_:
        for id in ids:
            open_.insert(table, {"id": str(id)})


def inserts(shop: Database, table: TableId, *ids: int) -> Callable[[SlowLog], None]:
    return lambda log: insert(shop, table, *ids)


def test_rule_15_a_table_joins_behind_a_large_transaction_never_inside(
    shop: Database, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its definition holds from just before the transaction on, so it is ready to join when the line pauses in it."""
    monkeypatch.setattr(capture, "FULL_IMAGES", 2)
    monkeypatch.setattr(pace, "current", Pace(capture_requests=0.8))
    follow("none")
    insert(shop, A, 1)
    requests.request_table(tmp_path, B)
    steps = (inserts(shop, A, 2, 3, 4, 5, 6), "item", "item", "none", "item", "none", "item", "none")
    follow("none", *steps, inserts(shop, B, 9), "item")
    with TrailReader(tmp_path) as trail:
        found = list(chunks(trail, 0))
    parts = [Part.WHOLE, Part.FRAGMENT, Part.FRAGMENT, Part.LAST, Part.WHOLE, Part.WHOLE]
    assert [chunk.part for chunk in found] == parts
    assert [[barrier.kind for barrier in chunk.barriers] for chunk in found[4:]] == [[BarrierKind.SCHEMA], []]
    assert [rows.table for rows in found[5].tables] == [B]
    answered = requests.answer(tmp_path, B)
    assert answered and answered.sequence == found[4].first_sequence


def test_rule_18_another_server_behind_the_same_name_is_asked_about_when_the_line_comes_back(
    shop: Database, follow: Callable, tmp_path: Path
) -> None:
    """The line is lost, and the name leads to another server that has the whole log: not while tables are loading."""

    def refuse(followed: str, now: str) -> None:
        raise SourceError(f"{followed} -> {now}")

    def fail_over(log: SlowLog) -> None:
        shop.identity = "another"
        raise SourceUnavailable("the line broke")

    follow("none")
    before, script = shop.identity, (inserts(shop, A, 1), "item", fail_over, "none", "item")
    with pytest.raises(SourceError, match=f"{before} -> another"):
        follow(*script, refuse_switch=refuse)
    assert trail_identity(tmp_path) == before
    insert(shop, A, 2)
    follow("item", "none")
    with TrailReader(tmp_path) as trail:
        assert [chunk.row_count for chunk in chunks(trail, 0)] == [1, 1] and trail.identity.source_identity == "another"


def test_fragments_of_a_transaction_that_has_no_end_do_not_count(
    shop: Database, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source crashed in it: what came of it stays in the trail's file and is nobody's; the next one has its number."""
    monkeypatch.setattr(capture, "FULL_IMAGES", 2)

    def crash(log: SlowLog) -> LogAbandoned:
        log._read, log._images, log._ordinal = 1, [], 0
        return LogAbandoned(log._mark())

    follow("none")
    insert(shop, A, 1, 2, 3, 4, 5)
    follow("item", "item", crash, inserts(shop, A, 6), "item", inserts(shop, A, 7, 8, 9), "item", "item")
    with TrailReader(tmp_path) as trail:
        found = list(chunks(trail, 0))
        assert trail.check().problems == []
    assert [(chunk.part, chunk.first_sequence) for chunk in found] == [
        (Part.WHOLE, 1), (Part.FRAGMENT, 2), (Part.LAST, 2),
    ]  # fmt: skip
    assert [id for chunk in found for id in chunk.tables[0].batch["id"].to_pylist()] == [6, 7, 8, 9]


def test_torture_seed_50000_what_a_full_disk_kept_from_being_published_is_not_read_again(
    shop: Database, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [StorageFull("no room left for the published end")]
    publish = TrailWriter._publish

    def once(trail: TrailWriter, place: Any) -> None:
        if trail.appended.position.sequence and full:
            raise full.pop()
        publish(trail, place)

    follow("none")
    monkeypatch.setattr(TrailWriter, "_publish", once)
    follow(inserts(shop, A, 1), "item", inserts(shop, A, 2), "item", "none")
    assert not full
    with TrailReader(tmp_path) as trail:
        assert [chunk.tables[0].batch["id"].to_pylist() for chunk in chunks(trail, 0)] == [[1], [2]]


def test_torture_seed_80015_a_beginning_that_came_to_nothing_binds_nobody(
    shop: Database, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture died when definitions were noted and nothing else; when it starts again, one of them is another."""

    def dies(trail: TrailWriter, mark: LogMark) -> None:
        raise MemoryError

    for columns in (definition(A).columns, (*definition(A).columns, Column("more", LogicalType(Kind.INT64), "bigint"))):
        shop.create(replace(definition(A), columns=columns))
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(TrailWriter, "heartbeat", dies)
            follow("none")
    follow("none")
    with TrailReader(tmp_path) as trail:
        assert trail.history.in_force()[A] == replace(definition(A), columns=columns, version=2)


class Noting(Nobody):
    """`heard`: what capture has read, what of it is written, and "end" where the source had no more."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def read(self, position: Position, commit_time: int) -> None:
        self.heard.append(f"read {position}")

    def written(self, trail: TrailWriter) -> None:
        self.heard.append(f"written {trail.end.position}")

    def at_end(self, trail: TrailWriter) -> None:
        self.heard.append("end")


def test_what_was_read_is_told_before_it_is_written_and_the_end_only_where_the_source_has_no_more(
    shop: Database, follow: Callable
) -> None:
    noting = Noting()
    follow("none", inserts(shop, A, 1), "item", watcher=noting)
    assert noting.heard == ["end", "read 1@1", "written 1@1"]
    noting.heard.clear()
    insert(shop, A, 2)
    follow("none", "none", "item", *["none"] * 5, "none", watcher=noting)
    assert noting.heard == ["read 2@2", "written 2@2", "end"], "the line was slow, then it was the end"


def test_a_source_that_is_away_at_the_start_is_an_error_at_once_one_that_goes_away_is_waited_for(
    shop: Database, follow: Callable, tmp_path: Path
) -> None:
    """Also at the start where a supervisor has reached it before: for five minutes."""

    def lose(log: SlowLog) -> None:
        log.away = 2
        raise SourceUnavailable("the line broke")

    follow("none")
    with pytest.raises(SourceUnavailable):
        follow("item", away=1)
    follow("none", lose, inserts(shop, A, 1), "item")
    follow(inserts(shop, A, 2), "item", away=3, waits_at_start=True)
    with TrailReader(tmp_path) as trail:
        assert trail.end().position.sequence == 2
    with pytest.raises(SourceUnavailable):
        follow("item", away=5, waits_at_start=True)


def test_rule_01_whether_the_source_logs_cascades_is_noted_at_the_begin_and_whenever_its_log_is_opened(
    shop: Database, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted() -> bool | None:
        with TrailReader(tmp_path) as trail:
            return trail.identity.logs_cascades

    follow("none")
    assert noted() is True
    monkeypatch.setattr(MemoryCatalog, "logs_cascades", lambda catalog: False)
    follow("none")
    assert noted() is False


@pytest.mark.parametrize("is_told", [False, True])
def test_rule_19_what_was_altered_behind_the_logs_back_parks_before_a_row_of_it_is_read(
    shop: Database, follow: Callable, tmp_path: Path, is_told: bool
) -> None:
    """Where a statement tells, the rows before it are read as ever."""
    follow("none", inserts(shop, A, 1), "item")
    insert(shop, A, 2)
    shop.tables[A].schema = replace(definition(A), columns=(replace(definition(A).columns[0], name="other"),))
    if is_told:
        shop.execute("ALTER TABLE a", A.schema)
    follow(*["item"] * 6)
    with TrailReader(tmp_path) as trail:
        found, why = list(chunks(trail, 0)), trail.history.parked()[A]
    assert [chunk.row_count for chunk in found] == ([1, 1, 0] if is_told else [1, 0])
    assert [[barrier.kind for barrier in chunk.barriers] for chunk in found][-1] == [BarrierKind.PARK]
    assert ("no statement of the log" in why) is not is_told
