"""Planning, marks and hand-over of the load, on the memory twin: no server, no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import connectors
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.load import MemoryLoader
from anabranch.contracts import Bounds, LoadedChunk, SnapshotReader, SourceConnector, ValueRules
from anabranch.errors import SchemaError, SourceError, StateError, TargetBusy
from anabranch.load.copy import TRIES, ChunkWork
from anabranch.load.handover import loaded
from anabranch.load.plan import Knot, LoadTable, PlannedLoad, chunk_rows, plan
from anabranch.load.run import load_tables
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import Life, TableState, park, stream, take_out
from anabranch.rows.net import TargetTable
from anabranch.spark.work import do

JOB = "job"
NUMBER = LogicalType(Kind.INT32)


@pytest.fixture
def source() -> Iterator[SourceConnector]:
    yield connectors.source(Endpoint("memory", "", 0, "", "", "plan-source"))
    forget()


TARGET = connectors.target(Endpoint("memory", "", 0, "", "", "plan-target"))


def create(name: str, rows: int, has_key: bool = True) -> LoadTable:
    columns = (Column("id", NUMBER, "int", nullable=False), Column("n", NUMBER, "int"))
    schema = TableSchema(TableId("shop", name), columns, ("id",) if has_key else ())
    database("plan-source").create(schema)
    with database("plan-source").transaction() as t:
        for number in range(rows):
            t.insert(schema.id, {"id": str(number), "n": None})
    target = TargetTable(
        schema.id, TableId("public", name), ("id", "n"), (NUMBER, NUMBER), schema.primary_key, ("id", "n")
    )
    return LoadTable(schema, target)


def planned(source: SourceConnector, *tables: LoadTable) -> list[PlannedLoad]:
    return plan(JOB, source, TARGET, list(tables), rows_per_chunk=10, rules=ValueRules(), expected_identity="")


def work(source: SourceConnector, **changes: object) -> ChunkWork:
    return replace(ChunkWork(JOB, source, TARGET, ValueRules()), **changes)


def state(table: LoadTable) -> TableState:
    with closing(TARGET.store()) as store:
        return store.tables(JOB)[table.schema.id]


def test_large_tables_come_first_and_every_chunk_is_open(source: SourceConnector) -> None:
    small, large = create("small", 5), create("large", 45)
    first, second = planned(source, small, large)
    assert (first.load, second.load) == (large, small)
    assert [piece.number for piece in first.pieces] == [0, 1, 2, 3, 4] and len(second.pieces) == 1
    assert state(large).state == "loading" and state(large).schema == large.schema


def test_a_plan_goes_on_where_the_ledger_stands(source: SourceConnector) -> None:
    table = create("a", 45)
    pieces = planned(source, table)[0].pieces
    assert do(work(source), pieces[2]).value == (10,)
    again = planned(source, table)[0]
    assert [piece.number for piece in again.pieces] == [0, 1, 3, 4] and again.rows == 10
    assert [piece.bounds for piece in again.pieces] == [pieces[n].bounds for n in (0, 1, 3, 4)]


def test_what_is_handed_over_or_streams_is_left_out(source: SourceConnector) -> None:
    table = create("a", 3)
    (one,) = planned(source, table)
    do(work(source), one.pieces[0])
    with closing(TARGET.store()) as store, closing(TARGET.loader(ValueRules())) as loader:
        done = loaded(state(table), loader.chunks(JOB, table.schema.id, 1))
        store.save_table(JOB, done, state(table))
    assert planned(source, table) == []
    with closing(TARGET.store()) as store:
        store.save_table(JOB, stream(done), done)
    assert planned(source, table) == []
    with closing(TARGET.store()) as store:
        store.save_table(JOB, take_out(stream(done)), stream(done))
    assert len(planned(source, replace(table, generation=2, empty=True))) == 1


def test_rule_15_a_table_whose_load_died_while_it_was_made_anew_does_not_go_on_from_its_place(
    source: SourceConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is dropped, and what the load begins with is not saved yet: to resume would follow an empty table."""
    table = create("a", 3)
    planned(source, table)
    database("plan-target").job(JOB).tables[table.schema.id] = park(stream(state(table)), "refused (at 7)", resumes=7)
    again, seen = replace(table, generation=2, recreate=True), list[TableState]()

    def dies(*given: Any) -> None:
        seen.append(state(table))
        raise KeyboardInterrupt

    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(MemoryLoader, "create_table", dies)
        planned(source, again)
    assert seen == [state(table)] and state(table).is_parked and state(table).facts.resumes is None
    (one,) = planned(source, again)
    assert one.load.generation == 2 and state(table).is_loading


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_load_that_begins_anew_goes_on_when_others_were_in_the_way(
    source: SourceConnector, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    """Half a table that was cut by place is there. Where it begins anew in several transactions, the target is busy behind the
    first of them, or behind the last: it is neither left out nor taken for a load that somebody has replaced."""
    table, job = create("a", 20, has_key=False), database("plan-target").job(JOB)
    planned(source, table)
    job.chunks[table.schema.id, 1] = [LoadedChunk(0, Bounds(None, ("5",)), 5), LoadedChunk(1, Bounds(("5",)))]
    begin, refusals = MemoryLoader.begin_generation, [TargetBusy("deadlock detected")]

    def busy(*args: Any) -> None:
        if refusals and not is_begun:
            job.tables[table.schema.id] = replace(state(table), state=Life.PENDING)
        else:
            begin(*args)
        if refusals:
            raise refusals.pop()

    monkeypatch.setattr(MemoryLoader, "begin_generation", busy)
    wanted = [table]
    with pytest.raises(TargetBusy):
        plan(JOB, source, TARGET, wanted, rules=ValueRules(), expected_identity="")
    (again,) = plan(JOB, source, TARGET, wanted, rules=ValueRules(), expected_identity="")
    assert again.load == wanted[0] == replace(table, generation=2, empty=True, anew=True)
    assert (state(table).state, state(table).generation, len(again.pieces)) == ("loading", 2, 1)


def test_rule_19_a_changed_definition_stops_the_load_that_goes_on(source: SourceConnector) -> None:
    table = create("a", 3)
    planned(source, table)
    other = replace(table.schema, columns=(*table.schema.columns, Column("more", NUMBER, "int")))
    with pytest.raises(SchemaError, match="changed while"):
        planned(source, replace(table, schema=other))


def test_rule_05_the_window_has_every_mark_once() -> None:
    chunks = [
        LoadedChunk(n, Bounds(), 10, low, high) for n, (low, high) in enumerate([("a", "b"), ("a", "c"), ("b", "c")])
    ]
    done = loaded(TableState(TableId("s", "t"), TableId("p", "t"), "loading", 1), chunks)
    assert (json.loads(done.low), json.loads(done.high), done.rows_loaded) == (["a", "b"], ["b", "c"], 30)
    assert done.state == "loading" and done.facts == Facts(loaded=True)


# --- K1: tables of the same moment ---------------------------------------------------------------------------------------


def knot(source: SourceConnector, *names: str) -> Knot:
    ids = frozenset(TableId("shop", name) for name in names)
    loads = [replace(create(name, 4), exact=True, together=ids) for name in names]
    return Knot(tuple(one.pieces[0] for one in planned(source, *loads)))


def test_rule_01_tables_that_belong_together_are_of_one_snapshot(source: SourceConnector) -> None:
    tables, inexact = knot(source, "a", "b", "c"), Inexact(source)
    asked: list[frozenset[TableId]] = []

    def is_quiet(about: frozenset[TableId], low: LogMark, high: LogMark) -> bool:
        asked.append(about)
        return len(asked) > 1

    assert do(work(inexact, quiet=is_quiet), tables).value == (4, 4, 4)
    assert inexact.opened == 2 and asked == [tables.load.together] * 2, "nobody changed any of them meanwhile"
    with closing(TARGET.loader(ValueRules())) as loader:
        chunks = [loader.chunks(JOB, piece.load.schema.id, 1)[0] for piece in tables.pieces]
    assert {(c.rows, c.low, c.high) for c in chunks} == {(4, "high-2", "high-2")}
    assert do(work(source), tables).value == (4, 4, 4), "done already"
    failed = do(work(inexact, lock="table", quiet=lambda *_: False), tables)
    assert failed.failure is not None and 'lock = "global"' in failed.failure.hint


def test_rule_01_of_tables_that_belong_together_all_are_loaded_or_none(source: SourceConnector) -> None:
    tables = knot(source, "a", "b")
    target = database("plan-target").table(TableId("public", "b"))
    target.put(target.row({"id": "2", "n": None}))
    failed = do(work(source), tables)
    assert failed.failure is not None and "the key is there already" in failed.failure.message
    with closing(TARGET.loader(ValueRules())) as loader:
        assert [loader.chunks(JOB, piece.load.schema.id, 1)[0].rows for piece in tables.pieces] == [None, None]
    assert not database("plan-target").table(TableId("public", "a")).rows


def test_rule_01_tables_that_belong_together_and_were_begun_apart_are_refused(source: SourceConnector) -> None:
    ids = frozenset(TableId("shop", name) for name in ("a", "b"))
    loads = [replace(create(name, 4), exact=True) for name in ("a", "b")]
    first, _ = sorted(planned(source, *loads), key=lambda one: str(one.load.schema.id))
    do(work(source), first.pieces[0])
    with pytest.raises(
        StateError, match=r"shop\.a, shop\.b have to be read at one moment, and shop\.a was read before"
    ):
        nobody: Any = SimpleNamespace(run=None)  # is asked to load
        load_tables(JOB, nobody, source, TARGET, [replace(load, together=ids) for load in loads])


# --- K4: keyless tables -----------------------------------------------------------------------------------------------


class Inexact:
    """A source whose snapshots lie between two marks, counted."""

    def __init__(self, source: SourceConnector) -> None:
        self.source, self.opened = source, 0

    def snapshot(self, expected: str = "") -> SnapshotReader:
        reader = self.source.snapshot(expected)
        opened = reader.open

        def open_(table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
            self.opened += 1
            low, _ = opened(table, lock)
            return low, LogMark(str(self.opened), f"high-{self.opened}")

        reader.open = open_
        return reader


def quiet(verdicts: list[bool | None]) -> object:
    return lambda table, low, high: verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]


def test_rule_04_the_snapshot_is_opened_until_nothing_happened(source: SourceConnector) -> None:
    table = create("k", 4, has_key=False)
    inexact = Inexact(source)
    (one,) = planned(source, table)
    outcome = do(work(inexact, quiet=quiet([False, None, False, True])), one.pieces[0])
    assert outcome.value == (4,) and inexact.opened == 3
    with closing(TARGET.loader(ValueRules())) as loader:
        (chunk,) = loader.chunks(JOB, table.schema.id, 1)
    assert chunk.low == chunk.high == "high-3"


def test_rule_04_a_busy_table_offers_the_lock(source: SourceConnector) -> None:
    table = create("k", 4, has_key=False)
    (one,) = planned(source, table)
    inexact = Inexact(source)
    failed = do(work(inexact, quiet=quiet([False])), one.pieces[0])
    assert failed.failure is not None and inexact.opened == TRIES
    assert isinstance(failed.failure.error(), SourceError) and 'lock = "table"' in failed.failure.hint
    without_capture = do(work(Inexact(source)), one.pieces[0])
    assert without_capture.failure is not None


def test_rule_04_a_piece_waits_for_capture(source: SourceConnector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.load.copy.PATIENCE", 0.3)
    table = create("k", 4, has_key=False)
    (one,) = planned(source, table)
    assert do(work(Inexact(source), quiet=quiet([None])), one.pieces[0]).value is None
    assert len(planned(source, table)[0].pieces) == 1


def test_chunks_grow_with_the_table_between_two_ends() -> None:
    assert [chunk_rows(rows) for rows in (0, 100, 1_600_000, 4_000_000, 8_000_000, 10**9)] == [
        200_000,
        200_000,
        200_000,
        500_000,
        1_000_000,
        1_000_000,
    ]
