"""Epochs on the memory twin and a real trail: answers that are lost, commits that are lost, tables that park."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from anabranch import connectors, failpoints
from anabranch.apply import patience
from anabranch.apply.context import ApplyContext
from anabranch.apply.epoch import Applier
from anabranch.apply.plan import group, stages
from anabranch.apply.window import WindowResolver
from anabranch.apply.work import Work
from anabranch.connectors.memory.database import database, forget
from anabranch.contracts import ValueRules
from anabranch.errors import RowRefused, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Skipped
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import RowChange
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import ITEMS, chunk_of, context, followed

JOB = "shop"
PARK = Barrier(0, 0, BarrierKind.PARK, ITEMS.id, "ALTER TABLE items …", "the definition changed")


@dataclass
class Rig:
    """A trail under the test's pen, a target, an applier."""

    writer: TrailWriter
    applier: Applier

    def log(self, *transactions: list[tuple], barriers: tuple[Barrier, ...] = ()) -> int:
        for barrier in barriers:
            self.writer.park(barrier.table, barrier.reason, barrier.statement)
        self.writer.append(chunk_of(transactions, [ITEMS], 0, barriers))
        self.writer.flush()
        return self.writer.end.position.sequence

    def rows(self) -> list[int]:
        relation = database("epoch").tables[ITEMS.id]
        return sorted(int(relation.texts(row)["id"] or 0) for row in relation.rows.values())

    def states(self) -> dict[str, str]:
        return {table.name: state.state for table, state in self.applier.progress.store.tables(JOB).items()}


def item(number: int) -> list[tuple]:
    return [("i", {"id": number, "a": number, "b": "x"})]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        writer = TrailWriter.open(tmp_path / "trail", job=JOB, job_uuid="u", source_identity="s", pack=False)
        writer.schema(ITEMS)
        target = connectors.target(Endpoint("memory", "", 0, "", "", "epoch"))
        loader, store = target.loader(ValueRules()), target.store()
        loader.create_table(ITEMS, followed(ITEMS).table, ValueRules(), False)
        store.create_checkpoint(JOB, Position(0, ""), 0)
        store.save_table(JOB, TableState(ITEMS.id, ITEMS.id, "streaming", schema=ITEMS), None)
        ours = target.writer(ValueRules(), False)
        ours.claim(JOB, "me")
        trail = TrailReader(tmp_path / "trail")
        applier = an_applier(JOB, trail, ours, store, _context, **options)
        applier.progress.look()
        made.append(Rig(writer, applier))
        return made[-1]

    yield make
    for one in made:
        one.writer.close()
        one.applier.progress.trail.close()
    forget()


def _context(states: Any) -> ApplyContext:
    return context([ITEMS]) if states[ITEMS.id].is_followed else ApplyContext({})


def lose_the_answer(applier: Applier, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next COMMIT is done, and its answer does not arrive."""
    commit, lost = applier.progress.writer.commit, iter([True])

    def once() -> None:
        commit()
        if next(lost, False):
            raise TargetUnavailable("line cut")

    monkeypatch.setattr(applier.progress.writer, "commit", once)


def test_rule_09_a_commit_without_an_answer_is_taken_over_whole(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only where it stands: a table that parked in that epoch stays parked, whatever comes later."""
    one = rig()
    upto = one.log(item(1), barriers=(PARK,))
    lose_the_answer(one.applier, monkeypatch)
    one.applier.apply(upto)
    assert one.states() == {"items": "parked"} and not one.applier.progress.context.tables
    one.applier.apply(one.log([], []))
    assert one.states() == {"items": "parked"} and one.applier.progress.checkpoint.position.sequence == 3


@pytest.mark.parametrize("per_transaction", [False, True])
def test_rule_09_a_target_that_lost_its_last_commits_gets_them_again(
    rig: Callable[..., Rig], per_transaction: bool
) -> None:
    """A target without synchronous commits, or a promoted copy."""
    one = rig(per_transaction=per_transaction)
    one.applier.apply(one.log(item(1)))
    target = database("epoch")
    before = copy(target.job(JOB).checkpoint), {name: table.copy() for name, table in target.tables.items()}
    one.applier.apply(one.log(item(2), item(3)))
    target.job(JOB).checkpoint, target.tables = before[0], before[1]
    one.applier.apply(one.log(item(4), item(5)))
    assert one.rows() == [1, 2, 3, 4, 5] and one.applier.progress.checkpoint.position.sequence == 5


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[Callable[[], set[str]]]:
    """The failpoints that were reached so far."""
    log = tmp_path / "reached"
    failpoints.arm({failpoints.LOG_VARIABLE: str(log)})
    yield lambda: set(log.read_text().split())
    failpoints.arm({})


def test_rule_08_a_unique_key_that_is_new_costs_one_slow_epoch(
    rig: Callable[..., Rig], reached: Callable[[], set[str]]
) -> None:
    """Its columns are asked for again afterwards."""
    one = rig()
    target = database("epoch").tables[ITEMS.id]
    one.applier.progress.context_of = lambda states: _with_unique(target.unique)
    one.applier.apply(one.log([*item(1), *item(2)]))
    target.unique.append(("a",))

    def swapped(a: int, b: int) -> list[tuple]:
        rows = [{"id": 1, "a": x, "b": "x"} for x in (a, 0, b)], [{"id": 2, "a": x, "b": "x"} for x in (b, a)]
        return [("u", *rows[0][:2]), ("u", *rows[1]), ("u", *rows[0][1:])]

    one.applier.apply(one.log(swapped(1, 2)))
    assert {"apply.conflict", "apply.one"} <= reached()
    assert one.applier.progress.totals.slow_epochs == 1 and "unique key" in one.applier.progress.totals.last_slow
    one.applier.apply(one.log(swapped(2, 1)))
    one.applier.apply(one.log(swapped(1, 2)))
    assert one.applier.progress.totals.slow_epochs == 1
    rows = [target.texts(row) for row in database("epoch").tables[ITEMS.id].rows.values()]
    assert sorted((row["id"], row["a"]) for row in rows) == [("1", "2"), ("2", "1")]


def test_rule_08_pitfall_17_late_keys_beside_a_transaction_that_goes_row_by_row(rig: Callable[..., Rig]) -> None:
    """The source asked at the end of the second one: no order of its rows leads there, its net change does."""
    one = rig()
    target = database("epoch").tables[ITEMS.id]
    one.applier.progress.context_of = lambda states: _with_unique([("a",)])
    one.applier.progress.ask_again()
    rows = {n: {"id": n, "a": n, "b": str(n)} for n in (1, 2, 3, 4)}
    one.applier.apply(one.log([("i", row) for row in rows.values()]))
    target.unique += [("a",), ("b",)]  # of the second the job knows nothing yet
    steps = [rows[3], rows[3] | {"b": "x"}, rows[3] | {"b": "4"}]
    handed_on = [("u", *steps[:2]), ("u", rows[4], rows[4] | {"b": "3"}), ("u", *steps[1:])]
    late = [("u", rows[1], rows[1] | {"a": 2}), ("u", rows[2], rows[2] | {"a": 1})]
    one.applier.apply(one.log(handed_on, late))
    assert one.applier.progress.totals.slow_epochs == 1
    found = [target.texts(row) for row in database("epoch").tables[ITEMS.id].rows.values()]
    assert sorted((row["id"], row["a"], row["b"]) for row in found) == [
        ("1", "2", "1"),
        ("2", "1", "2"),
        ("3", "3", "4"),
        ("4", "4", "3"),
    ]


def test_rule_08_a_row_refused_by_keys_that_are_being_built_is_tried_again_behind_them(rig: Callable[..., Rig]) -> None:
    """An index asks at once what the constraint that it becomes asks at commit. What is refused then, too, is refused."""
    target, asked = database("epoch"), []

    def settled(table: TableId) -> bool:
        asked.append(table)
        target.tables[ITEMS.id].unique.clear()
        return len(asked) == 1

    one = rig(settled=settled)
    one.applier.apply(one.log([*item(1), *item(2)]))
    target.tables[ITEMS.id].unique.append(("a",))
    one.applier.apply(one.log([("i", {"id": 3, "a": 1, "b": "x"})]))
    assert asked == [ITEMS.id] and one.rows() == [1, 2, 3]
    with pytest.raises(RowRefused):
        one.applier.apply(one.log([("i", {"id": 3, "a": 7, "b": "x"})]))
    assert asked == [ITEMS.id, ITEMS.id] and one.rows() == [1, 2, 3]


def _with_unique(keys: list[tuple[str, ...]]) -> ApplyContext:
    found = context([ITEMS])
    unique = frozenset(UniqueKey(frozenset(key)) for key in keys)
    return found.over({ITEMS.id: replace(found.tables[ITEMS.id], unique_keys=unique)})


def test_patience_begins_when_the_target_is_lost(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch may have run longer than that when its line breaks."""
    one = rig()
    clock = iter([1_000.0, 1_000.1, 2_000.0])
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    begin, refused = one.applier.progress.writer.begin, iter([True, True])

    def away(now: Any, then: Any) -> str:
        if next(refused, False):
            raise TargetUnavailable("line cut")
        return begin(now, then)

    monkeypatch.setattr(one.applier.progress.writer, "begin", away)
    one.applier.apply(one.log(item(1)))
    assert one.rows() == [1]


def test_a_target_that_answers_but_never_commits_is_given_up(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds a lock on a table: each attempt begins, none comes through."""
    one, tries = rig(), []

    def locked(net: Any) -> Any:
        tries.append(net)
        raise TargetUnavailable("lock timeout")

    clock = SimpleNamespace(monotonic=lambda: 60.0 * len(tries), sleep=lambda seconds: None)
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(one.applier.progress.writer, "merge", locked)
    with pytest.raises(TargetUnavailable):
        one.applier.apply(one.log(item(1)))
    assert len(tries) == 10


@pytest.mark.parametrize("per_transaction", [False, True])
def test_rule_03_a_key_that_a_waiting_row_moves_to_waits_too(rig: Callable[..., Rig], per_transaction: bool) -> None:
    one = rig(per_transaction=per_transaction)
    applier = one.applier
    applier.progress.save(applier.progress.states[ITEMS.id].with_waiting([{"id": "1"}]))
    waiting = followed(ITEMS, waiting=frozenset([("1",)]))
    applier.progress.context = applier.progress.context.over({ITEMS.id: waiting})
    applier.apply(one.log([("u", {"id": 1, "a": 1, "b": ""}, {"id": 2, "a": 1, "b": ""})], item(3)))
    assert [key["id"] for key in applier.progress.states[ITEMS.id].facts.reread] == ["1", "2"] and one.rows() == [3]


def test_rule_15_a_table_that_a_promoted_target_has_again_parks_again(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was brought in behind the barrier; the target's copy was loaded long before."""
    one = rig()
    monkeypatch.setattr(one.applier.progress, "_has_joined", lambda table, sequence: True)
    one.applier.apply(one.log(item(1), barriers=(PARK,)))
    assert one.states() == {"items": "parked"}


def test_rule_19_a_table_that_parked_before_its_snapshot_parks(rig: Callable[..., Rig]) -> None:
    """Capture writes no rows of it any more, so that what the load read later would never change again."""
    one = rig()
    upto = one.log(item(1), barriers=(PARK,))
    one.applier.progress.context = context([ITEMS], {"items": (5, 6)})
    one.applier.apply(upto)
    assert one.states() == {"items": "parked"}


def test_rule_15_an_old_park_does_not_park_what_joined_since(rig: Callable[..., Rig]) -> None:
    one = rig()
    upto = one.log(item(1), barriers=(PARK,))
    one.writer.schema(replace(ITEMS, version=2), joined=True)
    one.log(item(2))
    one.applier.progress.context = context([ITEMS], {"items": (5, 6)})
    one.applier.apply(upto)
    assert one.states() == {"items": "streaming"}


EXTRA = TableId("shop", "extra")
GONE = f"{DROPPED}, or renamed there"


def drop(table: TableId) -> Barrier:
    return Barrier(0, 0, BarrierKind.PARK, table, "", GONE)


def test_what_the_source_dropped_and_the_target_never_had_is_forgotten(rig: Callable[..., Rig]) -> None:
    one = rig()
    one.applier.progress.store.save_table(JOB, TableState(EXTRA, EXTRA, "parked", reason="created after start"), None)
    one.applier.progress.ask_again()
    hold = one.applier.progress.settings.names.table(EXTRA)
    retention.hold(one.applier.progress.trail.directory, hold, 0)
    one.applier.apply(one.log(item(1), barriers=(drop(EXTRA),)))
    assert one.states() == {"items": "streaming"} and one.rows() == [1]
    assert hold not in retention.readers(one.applier.progress.trail.directory), "nobody waits for it any more"
    one.applier.apply(one.log(item(2), barriers=(drop(EXTRA),)))
    assert one.states() == {"items": "streaming"} and EXTRA not in one.applier.progress.states


def test_what_the_source_dropped_and_the_target_has_stays_with_the_rows_before(rig: Callable[..., Rig]) -> None:
    one = rig()
    one.applier.apply(one.log(item(1), item(2), barriers=(Barrier(1, 9, BarrierKind.PARK, ITEMS.id, "", GONE),)))
    assert one.states() == {"items": "parked"} and one.rows() == [1, 2]
    assert one.applier.progress.states[ITEMS.id].is_dropped
    one.applier.apply(one.log(item(3), barriers=(drop(ITEMS.id),)))  # as it is found gone once more
    assert len(one.applier.progress.store.journal.ddl_changes(JOB)) == 1


@pytest.mark.parametrize(
    "begun",
    [
        TableState(EXTRA, EXTRA, "pending"),
        TableState(EXTRA, EXTRA, "loading", 1),
        TableState(EXTRA, EXTRA, "parked", 1),
        TableState(EXTRA, EXTRA, "parked", schema=ITEMS),  # its target table is made
    ],
)
def test_a_table_whose_load_has_begun_is_never_forgotten(rig: Callable[..., Rig], begun: TableState) -> None:
    one = rig()
    one.applier.progress.store.save_table(JOB, begun, None)
    one.applier.progress.ask_again()
    one.applier.apply(one.log(item(1), barriers=(drop(EXTRA),)))
    assert one.states() == {"items": "streaming", "extra": "parked"} and one.applier.progress.states[EXTRA].is_dropped


def test_a_load_that_begins_while_its_table_is_forgotten_keeps_row_and_hold(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig()
    parked = TableState(EXTRA, EXTRA, "parked", reason="created after start")
    one.applier.progress.store.save_table(JOB, parked, None)
    one.applier.progress.ask_again()
    hold = one.applier.progress.settings.names.table(EXTRA)
    retention.hold(one.applier.progress.trail.directory, hold, 0)
    begun = TableState(EXTRA, EXTRA, "pending", schema=replace(ITEMS, id=EXTRA))
    commit = one.applier.progress.writer.commit

    def begins_before() -> None:
        one.applier.progress.store.save_table(JOB, begun, parked)
        commit()

    monkeypatch.setattr(one.applier.progress.writer, "commit", begins_before)
    one.applier.apply(one.log(item(1), barriers=(drop(EXTRA),)))
    assert (
        one.states() == {"items": "streaming", "extra": "pending"}
        and one.applier.progress.states[EXTRA].state == "pending"
    )
    assert hold in retention.readers(one.applier.progress.trail.directory)


def test_a_table_that_joins_behind_the_place_where_it_was_gone_is_not_forgotten(rig: Callable[..., Rig]) -> None:
    one = rig()
    one.applier.progress.store.save_table(JOB, TableState(EXTRA, EXTRA, "parked", reason="created after start"), None)
    one.applier.progress.ask_again()
    upto = one.log(item(1), barriers=(drop(EXTRA),))
    one.writer.schema(replace(ITEMS, id=EXTRA), joined=True)
    one.log(item(2))
    one.applier.apply(upto)
    assert one.states() == {"items": "streaming", "extra": "parked"}


def waiting_for(*keys: int) -> Work:
    state = TableState(ITEMS.id, ITEMS.id, "loading", schema=ITEMS)
    work = Work(context([ITEMS], {"items": (1, 2)}), {ITEMS.id: state}, lambda table: None)
    work.reread(ITEMS.id, [{"id": str(key)} for key in keys])
    return work


def test_rule_03_a_table_streams_when_its_rows_were_read_again() -> None:
    work = waiting_for(5)
    work.pass_windows(10)
    assert work.states[ITEMS.id].state == "loading" and work.states[ITEMS.id].facts.reread == ({"id": "5"},)
    work.states[ITEMS.id] = work.states[ITEMS.id].with_waiting([])
    work.pass_windows(10)
    assert work.states[ITEMS.id].state == "streaming"


def test_rule_03_what_happens_to_rows_that_wait_is_left_out_and_followed_by_key() -> None:
    """Row 5 is not there. What moves from it, or meets it, waits as well; the others are as strict as ever."""
    work = waiting_for(5)
    moved = [("u", {"id": 5}, {"id": 6}), ("u", {"id": 6}, {"b": "y"}), ("u", {"id": 1}, {"id": 5}), *item(2)]
    part = group([chunk_of([[change] for change in moved], [ITEMS], 10)], work.context)
    (stage,) = stages(part, work.context)
    (net,) = stage.nets
    assert net.checked and net.inserts and net.inserts.column("id").to_pylist() == [2] and not net.updates
    work.reread_waiting(part)
    assert sorted(key["id"] or "" for key in work.states[ITEMS.id].facts.reread) == ["1", "5", "6"]


def test_rule_03_a_row_alone_that_waits_is_left_out() -> None:
    work, table = waiting_for(5), followed(ITEMS).table
    assert not work.leaves_out(RowChange(table, "insert", values={"id": "1"}))
    assert work.leaves_out(RowChange(table, "update", {"id": "5"}, {"id": "6"}))
    assert work.leaves_out(RowChange(table, "delete", {"id": "6"}))


# --- windows ----------------------------------------------------------------------------------------------------------


class Order:
    """Marks and positions are numbers; GTIDs there are none."""

    def mark(self, resume: str) -> LogMark:
        return LogMark(resume, resume)

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        return int(native.rpartition(":")[2] or 0) <= int(mark.resume or 0)

    def is_set(self, mark: LogMark) -> bool:
        return False

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        return ""

    def bytes_between(self, native: str, later: LogMark) -> int | None:
        return None


def test_rule_02_a_barrier_behind_the_mark_ends_the_window(rig: Callable[..., Rig]) -> None:
    """A TRUNCATE has no rows and, without GTIDs, nothing but its place: it is outside the mark all the same. What brings
    a definition in stands in no log and says nothing."""
    one = rig()
    one.log(item(1))
    state = TableState(ITEMS.id, ITEMS.id, "loading", low='["1"]', high='["1"]', schema=ITEMS)
    joined = Barrier(0, 0, BarrierKind.SCHEMA, ITEMS.id, schema=replace(ITEMS, version=2))
    truncate = Barrier(0, 0, BarrierKind.TRUNCATE, ITEMS.id)
    one.writer.append(_at(1, chunk_of([[]], [ITEMS], 0, [joined])))
    one.writer.append(_at(2, chunk_of([[]], [ITEMS], 0, [truncate])))
    for number in (3, 4):
        one.writer.append(_at(number, chunk_of([item(number)], [ITEMS], 0)))
    one.writer.flush()
    low, high = WindowResolver(TrailReader(one.writer.directory), Order()).window(state)
    assert (low, high) == (2, 2)


def _at(number: int, chunk: Chunk) -> Chunk:
    facts = {"native": f"log.1:{number}", "gtid": None, "commit_time": 0, "rows": chunk.row_count}
    return replace(chunk, transactions=pa.RecordBatch.from_pylist([facts], schema=TRANSACTION_SCHEMA))


@pytest.mark.parametrize("per_transaction", [False, True])
def test_what_a_person_told_to_leave_out_is_left_out_whole(rig: Callable[..., Rig], per_transaction: bool) -> None:
    """Also two of them in a row, and one that has nothing behind it."""
    one = rig(per_transaction=per_transaction)
    upto = one.log(item(1), [*item(2), *item(3)], item(2), item(4), item(2))  # of which the fifth cannot be applied
    for sequence in (2, 4, 5):
        one.applier.progress.store.skip(JOB, Skipped(sequence, f"{sequence}@log.1:{sequence}", 0, {"shop.items": 1}))
    one.applier.progress.ask_again()  # as at a start
    one.applier.apply(upto)
    assert one.rows() == [1, 2]
    assert one.applier.progress.checkpoint.position.sequence == 5
