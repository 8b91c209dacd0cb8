"""A table that capture parks while it is loaded, on the memory twin: what the load leaves at the target."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace

import pytest

from anabranch import connectors
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import add_aside
from anabranch.contracts import Bounds, SourceConnector, ValueRules
from anabranch.errors import AnabranchError, SourceBusy, TargetBusy
from anabranch.load.copy import ChunkWork
from anabranch.load.handover import hand_over, hand_over_all
from anabranch.load.plan import LoadPiece, LoadTable, PlannedLoad, plan
from anabranch.load.run import begun_patiently
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import USUAL, EndLimits, Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.counted import Told
from anabranch.rows.net import TargetTable
from anabranch.spark.work import do

JOB = "job"
NUMBER = LogicalType(Kind.INT32)
TARGET = connectors.target(Endpoint("memory", "", 0, "", "", "parked-target"))


@pytest.fixture
def source() -> Iterator[SourceConnector]:
    yield connectors.source(Endpoint("memory", "", 0, "", "", "parked-source"))
    forget()


def loaded_table(source: SourceConnector) -> tuple[ChunkWork, LoadTable]:
    """Every chunk is at the target; the table is not handed over."""
    schema = TableSchema(TableId("shop", "a"), (Column("id", NUMBER, "int", nullable=False),), ("id",))
    database("parked-source").create(schema)
    with database("parked-source").transaction() as transaction:
        transaction.insert(schema.id, {"id": "1"})
    load = LoadTable(schema, TargetTable(schema.id, TableId("public", "a"), ("id",), (NUMBER,), ("id",), ("id",)))
    work = ChunkWork(JOB, source, TARGET, ValueRules())
    for one in plan(JOB, source, TARGET, [load], rows_per_chunk=10, rules=ValueRules(), expected_identity=""):
        for piece in one.pieces:
            do(work, piece)
    return work, load


def state() -> TableState:
    with closing(TARGET.store()) as store:
        return store.tables(JOB)[TableId("shop", "a")]


def hand(work: ChunkWork, load: LoadTable, parked: str = "") -> None:
    tables = TARGET.tables(work.rules)
    with closing(TARGET.store()) as store, closing(TARGET.loader(work.rules)) as loader:
        hand_over(store, tables, loader, work.job, load, parked)


def test_it_is_handed_over(source: SourceConnector) -> None:
    hand(*loaded_table(source))
    assert (state().state, state().facts.loaded, state().rows_loaded) == ("loading", True, 1)


def test_what_the_stream_noted_since_stays(source: SourceConnector) -> None:
    """An answer was lost, or somebody else handed the table over, and apply follows it already."""
    work, load = loaded_table(source)
    hand(work, load)
    with closing(TARGET.store()) as store:
        noted = state().with_waiting([{"id": "1"}])
        store.save_table(JOB, noted, state())
    hand(work, load)
    assert state() == noted


def test_rule_15_one_that_is_parked_by_then_is_not_handed_over(source: SourceConnector) -> None:
    """Its first chunk may lie behind the statement that parked it: the stream would follow rows that nobody writes."""
    hand(*loaded_table(source), "its definition changed")
    assert (state().state, state().low, state().high) == ("parked", "", "")
    assert state().reason == "its definition changed (while it was being loaded)"


def test_it_is_asked_whether_it_is_parked_behind_the_indexes_which_may_take_long(
    source: SourceConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, load = loaded_table(source)
    asked: list[str] = []
    tables = TARGET.tables(work.rules)
    with closing(TARGET.store()) as store, closing(TARGET.loader(work.rules)) as loader:
        monkeypatch.setattr(tables, "index_cascades", lambda *_: asked.append("index"))
        hand_over_all(store, tables, loader, work.job, [load], lambda _: asked.append("parked") or "ALTER TABLE a")
    assert asked[:2] == ["index", "parked"]
    assert state().state == "parked" and "ALTER TABLE a" in state().reason


class Counting(ChunkWork):
    def blocks(self, *_: object) -> Generator[bytes, None, int | None]:
        yield b"block"
        return 42


def test_what_the_source_says_of_the_number_of_rows_reaches_the_loader(source: SourceConnector) -> None:
    """Alone, and in a task of several pieces."""
    _, load = loaded_table(source)
    counting = Counting(JOB, source, TARGET, ValueRules())
    piece = LoadPiece(load, 0, Bounds())
    for many in (False, True):
        with counting.lasting() if many else nullcontext(counting) as one, one.read(piece) as (_, blocks):
            told = Told(blocks)
            assert list(told) == [b"block"] and told.rows == 42


@pytest.mark.parametrize("busy", [SourceBusy, TargetBusy])
def test_a_load_that_meets_others_as_it_begins_tries_again(source: SourceConnector, busy: type[AnabranchError]) -> None:
    """A deadlock with apply, or with a statement of the source, of a table that it begins: what was begun before goes on."""
    _, load = loaded_table(source)
    refusals, told = [busy("deadlock detected")] * 2, []

    def begin() -> list[PlannedLoad]:
        if refusals:
            raise refusals.pop()
        return plan(JOB, source, TARGET, [load], rows_per_chunk=10, rules=ValueRules(), expected_identity="")

    (planned,) = begun_patiently(JOB, begin, lambda why, error: told.append(why), lambda: False, (USUAL, USUAL))
    assert planned.load == load and planned.pieces == []
    assert len(told) == 2 and all(why.startswith("the load waits: deadlock detected") for why in told)

    def never() -> list[PlannedLoad]:
        raise busy("deadlock detected")

    at_once, patient = EndLimits(lock=0.0), EndLimits(lock=math.inf)
    mine = (at_once, patient) if busy is SourceBusy else (patient, at_once)
    for stop, limits in ((lambda: True, (patient, patient)), (lambda: False, mine)):
        with pytest.raises(busy):
            begun_patiently(JOB, never, lambda why, error: None, stop, limits)


def test_rule_26_a_load_with_more_rows_set_aside_than_may_be_parks_and_forgets_them(source: SourceConnector) -> None:
    work, load = loaded_table(source)
    load = replace(load, aside_limit=2)
    with closing(TARGET.store()) as store:
        for number in range(3):
            row = AsideChange(0, "", 0, load.schema.id, load.table.target, {"id": str(number)}, "insert", None, {}, "")
            add_aside(database("parked-target").job(JOB), row)
        with closing(TARGET.loader(work.rules)) as loader:
            hand_over_all(store, TARGET.tables(work.rules), loader, JOB, [load], lambda table: "")
        assert store.set_aside(JOB) == [] and store.count_aside(JOB) == {}
    assert state().state == "parked" and "3 rows cannot be converted, of which 2 may be set aside" in state().reason
    assert state().facts.set_aside == 0
