"""A log that has uncommitted work in it: whatever dies in between, each transaction is in the trail once, whole, where it
was committed; what waits for its end is bounded in memory, and is not read again from the log's start (K6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.capture.run import Capture
from anabranch.capture.uncommitted import MemoryLimits
from anabranch.connectors.memory.database import Database, Image, database, forget
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.redo import Record, RedoLog, RedoOrder
from anabranch.errors import TrailCorrupt
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import META, Part
from anabranch.trail import requests
from anabranch.trail.open_staging import kept
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.writer import TrailWriter
from rigs.storage import Died, Dying

A, B, OTHER = TableId("shop", "a"), TableId("shop", "b"), TableId("shop", "other")
NAME = "capture_uncommitted"
ONE_BYTE = MemoryLimits(bytes=1, seconds=1e9)


class Nobody:
    def read(self, *_: Any) -> None: ...

    follows = log_end = at_end = written = waiting = read


@dataclass
class Rig:
    """A source with a log of records, and capture in this process."""

    directory: Path
    records: list[Record] = field(default_factory=list)
    limits: MemoryLimits = ONE_BYTE
    full: int = 3
    wanted: frozenset[TableId] = frozenset({A, B})

    def __post_init__(self) -> None:
        self.shop: Database = database(NAME)
        self.reader = self.log()

    def log(self) -> RedoLog:
        return RedoLog(self.shop, self.records, self.full)

    def follow(self, upto: int | None = None, storage: Dying | None = None) -> None:
        """Until so many records are read, which is a stop that is in order."""
        source, self.reader = MemorySource(Endpoint("memory", "", 0, "", "", NAME)), self.log()
        source.order = RedoOrder()
        goal = len(self.records) if upto is None else upto
        trail = TrailWriter.open(
            self.directory,
            job="j",
            job_uuid="u",
            source_identity=self.shop.identity,
            pack=False,
            storage=storage or Dying(self.directory),
        )
        capture = Capture(
            source,
            self.reader,
            trail,
            self.wanted.__contains__,
            lambda: self.reader.next_read >= goal and bool(self.reader.began),
            Nobody(),
            self.shop.identity,
            lambda *_: None,
            limits=self.limits,
        )
        try:
            capture.run()
            trail.close()
        except BaseException:  # a kill may stand anywhere
            trail._failed = True  # a process that dies flushes nothing
            with suppress(Died):
                trail.close()
            raise

    def found(self) -> list[tuple[int, list[int]]]:
        """Place and ids of the trail's transactions, in the order of their ordinals."""
        result: list[tuple[int, list[int]]] = []
        rows: list[tuple[int, int]] = []
        with TrailReader(self.directory) as trail:
            assert trail.check().is_good
            for chunk in chunks(trail, 0):
                for one in chunk.tables:
                    rows += zip(one.batch["_ordinal"].to_pylist(), one.batch.column(META).to_pylist(), strict=True)
                if chunk.part is not Part.FRAGMENT:
                    assert len({ordinal for ordinal, _ in rows}) == len(rows)
                    result.append((int(chunk.transactions["native"][0].as_py()), [row for _, row in sorted(rows)]))
                    rows = []
        return result

    def expected(self) -> list[tuple[int, list[int]]]:
        open_: dict[str, list[int]] = {}
        result = []
        for number, record in enumerate(self.records, 1):
            if record.image is not None:
                if record.image.table != OTHER:
                    open_.setdefault(record.xid, []).append(int(record.image.after[0]))  # type: ignore[index,arg-type]  # records of rows have an image
            elif (ids := open_.pop(record.xid, [])) and record.is_committed:
                result.append((number, ids))
        return result


@pytest.fixture(autouse=True)
def shop() -> Iterator[Database]:
    made = database(NAME)
    for table in (A, B, OTHER):
        made.create(TableSchema(table, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",)))
    yield made
    forget([NAME])


def change(xid: str, number: int, table: TableId = A) -> Record:
    return Record(xid, Image(table, None, (str(number),)))


def history(drawn: list[tuple[int, int]]) -> list[Record]:
    """(transaction, what): 0 commits it, 1 rolls it back, 2 changes a table that is not replicated, others are changes. An id
    is used again once its transaction has ended."""
    records = []
    for number, (xid, what) in enumerate(drawn):
        name = f"tx{xid}"
        if what < 2:
            records.append(Record(name, is_committed=what == 0))
        else:
            records.append(change(name, number, OTHER if what == 2 else A if what % 2 else B))
    return records


HISTORIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40).map(history)


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(HISTORIES, st.integers(1, 120), st.booleans(), st.sampled_from([1, 200, 1 << 30]), st.integers(0, 40))
def test_pitfall_15_interleaved_transactions_come_once_each_at_its_commit(
    tmp_path_factory: Any, records: list[Record], step: int, after: bool, limit: int, stop_at: int
) -> None:
    """A start, a stop in order, a death at any operation of the disk, a start that comes to the end."""
    rig = Rig(tmp_path_factory.mktemp("trail"), records, MemoryLimits(limit, 1e9))
    rig.follow(min(stop_at, len(records)))
    with suppress(Died):
        rig.follow(storage=Dying(rig.directory, step, after))
    rig.follow()
    assert rig.found() == rig.expected()
    ends = {record.xid: number for number, record in enumerate(records) if record.image is None}
    open_ = {r.xid for n, r in enumerate(records) if r.image and r.image.table != OTHER and n > ends.get(r.xid, -1)}
    assert {one.xid for one in kept(rig.directory)} == open_


def test_killed_at_any_operation_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    records = [change("long", 1), change("x", 2), change("long", 3), Record("x", is_committed=True), change("y", 4)]
    records += [change("long", 5), Record("y"), change("x", 6), Record("long", is_committed=True), change("x", 7)]
    records += [Record("x", is_committed=True), change("last", 8)]
    for after in (False, True):
        for step in range(1, 300, 3):
            rig = Rig(tmp_path / f"{after}{step}", records, full=1)
            rig.directory.mkdir()
            try:
                rig.follow(storage=Dying(rig.directory, step, after))
                break
            except Died:
                rig.follow()
            assert rig.found() == rig.expected() == [(4, [2]), (9, [1, 3, 5]), (11, [6, 7])], f"killed at {step}"
            assert [one.xid for one in kept(rig.directory)] == ["last"]
        assert 50 < step < 299


def test_a_start_reads_from_what_is_not_on_disk_and_not_from_the_beginning(tmp_path: Path) -> None:
    """Stopped in order, from where it stopped; killed, from the first row that was in memory only."""
    records = [change("old", number) for number in range(100)]
    rig = Rig(tmp_path, records, MemoryLimits(8 * 40, 1e9), full=10)
    with pytest.raises(Died):
        rig.follow(storage=Dying(tmp_path, 40))
    (staged,) = kept(tmp_path)
    rig.follow()
    assert rig.reader.began == [json.loads(staged.upto)["number"]] and 0 < rig.reader.began[0] < 100
    records += [change("young", 200), *[change("old", number) for number in range(100, 150)]]
    rig.follow()
    assert rig.reader.began == [100]
    rig.reader.purged = 151  # the log may go up to there
    records += [Record("old", is_committed=True), Record("young", is_committed=True)]
    rig.follow()
    assert rig.reader.began == [151]
    assert rig.found() == [(152, list(range(150))), (153, [200])] and kept(tmp_path) == []


def test_what_is_small_and_young_stays_in_memory_and_what_is_old_does_not(tmp_path: Path) -> None:
    rig = Rig(tmp_path, [change("x", 1), change("y", 2), Record("y", is_committed=True)], MemoryLimits(1 << 30, 1e9))
    seen: list[int] = []
    stopping = RedoLog.read

    class Looking(RedoLog):
        def read(self, timeout: float) -> Any:
            seen.append(len(kept(tmp_path)))
            return stopping(self, timeout)

    rig.log = lambda: Looking(rig.shop, rig.records, 3)  # type: ignore[method-assign]  # instead of the real one
    rig.follow()
    assert set(seen) == {0}
    seen.clear()
    rig.limits = MemoryLimits(1 << 30, 0.0)
    rig.records += [change("z", 3), change("z", 4, B), Record("other")]
    rig.follow()
    assert max(seen) == 2  # x, from the stop, and z, as soon as it was looked for


def test_rule_06_a_table_joins_when_no_open_transaction_has_rows_of_it_that_were_left_out(tmp_path: Path) -> None:
    """They would be missing at its commit. That it has such rows is on disk at once: a restart must know it."""
    rig = Rig(tmp_path, limits=MemoryLimits(1 << 30, 1e9), full=1)
    rig.follow()
    rig.wanted |= {OTHER}
    rig.records += [change("x", 1), change("x", 2, OTHER), change("x", 3)]
    rig.follow()
    requests.request_table(tmp_path, OTHER)
    assert [one.left_out for one in kept(tmp_path)] == [(str(OTHER),)]
    rig.follow()
    assert [one.table for one in requests.pending(tmp_path)] == [OTHER]
    rig.records += [Record("x", is_committed=True), change("z", 4, OTHER), Record("z", is_committed=True)]
    rig.follow()
    parked, *found = rig.found()
    assert parked == (0, []), "the table is new to the rules, and nobody has asked for it yet"
    assert found == [(4, [1, 3]), (4, []), (6, [4])] and not requests.pending(tmp_path)


def test_an_id_that_is_used_again_is_another_transaction(tmp_path: Path) -> None:
    """The first one is read again for the row of "old", which is in memory only when capture dies; the second is on disk."""
    records = [change("old", 1), change("x", 2), Record("x", is_committed=True), *[change("x", n) for n in range(3, 9)]]
    rig = Rig(tmp_path, records, MemoryLimits(80, 1e9), full=1)
    with pytest.raises(Died):
        rig.follow(storage=Dying(tmp_path, 40))
    (staged,) = kept(tmp_path)
    assert staged.xid == "x" and staged.rows[0] > 1
    records += [Record("x", is_committed=True), Record("old", is_committed=True)]
    rig.follow()
    assert rig.reader.began == [0] and rig.found() == rig.expected()


def test_a_part_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path, [change("x", number) for number in range(6)], full=2)
    rig.follow()
    first, second, third = sorted((tmp_path / "staging").iterdir())
    whole = second.read_bytes()
    second.unlink()
    with pytest.raises(TrailCorrupt, match="a part of the open transaction x before"):
        rig.follow()
    second.write_bytes(whole[:-10])
    with pytest.raises(TrailCorrupt, match="is damaged"):
        rig.follow()
    second.write_bytes(whole)
    data = bytearray(third.read_bytes())
    data[len(data) // 2] ^= 1
    third.write_bytes(bytes(data))
    with TrailReader(tmp_path) as trail:
        assert len(trail.check().problems) == 1 and first.exists()
    rig.records.append(Record("x", is_committed=True))
    with pytest.raises(TrailCorrupt):
        rig.follow()
