"""Several appliers over a target in memory that locks rows: whatever the threads do, what is committed is a beginning of the
source's log, and all of it is there in the end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.appliers import InOrder
from anabranch.apply.dependencies import NOTHING, last_of_same, needed
from anabranch.errors import Fenced, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, UPDATE, ChangeShape, Operation, TargetTable
from anabranch.rows.small import SmallChanges, SmallTransactions, Values

SHOP = TableId("shop", "items")
NAMES, TYPES = ("id", "u"), (LogicalType(Kind.INT64), LogicalType(Kind.TEXT))
TABLE = TargetTable(SHOP, SHOP, NAMES, TYPES, ("id",), NAMES)
Change = tuple[Operation, tuple[str | None, ...]]
LOCK_S = 0.05


def insert(key: int, value: str) -> Change:
    return INSERT, (str(key), value)


def update(key: int, value: str) -> Change:
    return UPDATE, (value, str(key))


def move(key: int, to: int, value: str) -> Change:
    return UPDATE, (str(to), value, str(key))


def delete(key: int) -> Change:
    return DELETE, (str(key),)


def small(transactions: Sequence[Sequence[Change]]) -> SmallTransactions:
    parts: dict[ChangeShape, list[tuple[int, int, tuple[str | None, ...]]]] = {}
    order = 0
    for number, changes in enumerate(transactions):
        for operation, values in changes:
            sets = () if operation == DELETE else NAMES if len(values) != 2 or operation == INSERT else ("u",)
            parts.setdefault(ChangeShape(TABLE, operation, sets), []).append((number, order, values))
            order += 1
    made = []
    for shape, rows in parts.items():
        columns = tuple(pa.array(column, pa.string()) for column in zip(*(row[2] for row in rows), strict=True))
        places = [np.array([row[place] for row in rows], np.int64) for place in (0, 1)]
        made.append(SmallChanges(shape, places[0], places[1], columns))
    numbers = list(range(1, len(transactions) + 1))
    return SmallTransactions(numbers, [f"log.1:{n}" for n in numbers], numbers, made)


# --- a target in memory -------------------------------------------------------------------------------------------------


@dataclass
class Target:
    """Rows by key, each value once; a lock on each key and each value, held until the transaction ends."""

    rows: dict[str, str] = field(default_factory=dict)
    at: Checkpoint = field(default_factory=lambda: Checkpoint("me", 0, Position(0, ""), 0))
    held: dict[str, Any] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    draw: random.Random = field(default_factory=random.Random)
    sizes: list[int] = field(default_factory=list)  # transactions that were open at once

    def lock(self, session: Any, name: str) -> bool:
        with self.changed:
            free = self.changed.wait_for(lambda: self.held.get(name, session) is session, LOCK_S)
            if free:
                self.held[name] = session
            return bool(free)

    def release(self, session: Any) -> None:
        with self.changed:
            self.held = {name: one for name, one in self.held.items() if one is not session}
            self.changed.notify_all()


class Session:
    def __init__(self, target: Target, fails_at: int = -1) -> None:
        self.target, self.fails_at, self.mine, self.calls = target, fails_at, dict[str, str | None](), 0

    def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        self.calls += 1
        if self.calls == self.fails_at:
            raise TargetUnavailable("the line is lost")
        with self.target.changed:
            self.target.sizes.append(len({id(one) for one in self.target.held.values()}))
        for shape, values in changes:
            if self.target.draw.random() < 0.3:
                time.sleep(self.target.draw.random() / 500)
            if not self._change(shape, [None if one is None else one.decode() for one in values]):
                self.rollback()
                return False
        return True

    def _change(self, shape: ChangeShape, values: Sequence[str | None]) -> bool:
        sets = dict(zip(shape.sets, values, strict=False))
        old = str(values[-1]) if shape.operation != INSERT else None
        new = str(sets.get("id", old)) if shape.operation != DELETE else None
        for key in (old, new):
            if key is not None and not self.target.lock(self, f"key {key}"):
                return False
        there = None if old is None else self._row(old)
        if (old is not None and there is None) or (new not in (None, old) and self._row(str(new)) is not None):
            return False
        for value in {str(one) for one in (there, sets.get("u")) if one is not None}:
            if not self.target.lock(self, f"value {value}"):
                return False
        if old is not None:
            self.mine[old] = None
        if new is None:
            return True
        if sets["u"] in {value for value in {**self.target.rows, **self.mine}.values() if value is not None}:
            return False
        self.mine[new] = str(sets["u"])
        return True

    def _row(self, key: str) -> str | None:
        return self.mine[key] if key in self.mine else self.target.rows.get(key)

    def commit(self, now: Checkpoint, then: Checkpoint) -> bool:
        with self.target.changed:
            if self.target.at != now:
                return False
            rows = {**self.target.rows, **self.mine}
            self.target.rows = {key: value for key, value in rows.items() if value is not None}
            self.target.at = then
        self.rollback()
        return True

    def rollback(self) -> None:
        self.mine = {}
        self.target.release(self)


class Writer:
    """Has sessions, or none; what one session has to do alone is done here."""

    def __init__(self, target: Target, sessions: Sequence[Session]) -> None:
        self.target, self.sessions, self.closed, self.alone = target, sessions, 0, 0

    def appliers(self, number: int, tables: Sequence[TargetTable]) -> Sequence[Session]:
        assert set(tables) == {TABLE}
        return self.sessions[:number]

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        self.alone += 1
        return now

    def close(self) -> None:
        self.closed += 1


def in_order(target: Target, writer: Writer, unique: Sequence[str] = ()) -> InOrder:
    tables = {SHOP: SimpleNamespace(unique=frozenset(unique))}
    jobs = SimpleNamespace(checkpoint=lambda job: target.at)
    progress: Any = SimpleNamespace(
        job="shop", context=SimpleNamespace(tables=tables), store=SimpleNamespace(jobs=jobs)
    )
    return InOrder(progress, writer, len(writer.sessions))


def carried_out(
    target: Target, transactions: Sequence[Sequence[Change]], number: int, unique: Sequence[str] = ()
) -> int:
    """Carry all out, those at which a run ends alone; how often that was."""
    writer, alone = Writer(target, [Session(target) for _ in range(number)]), 0
    while (done := target.at.position.sequence) < len(transactions):
        left = small(transactions[done:])
        left = replace(left, sequences=[done + n for n in left.sequences])
        found = in_order(target, writer, unique).one_by_one(target.at, left)
        assert found == target.at and not target.held and not writer.closed
        if (done := found.position.sequence) < len(transactions):
            one, alone = Session(target), alone + 1
            changes = small(transactions[done : done + 1]).each()[0]
            then = Checkpoint("me", found.epoch + 1, Position(done + 1, f"log.1:{done + 1}"), done + 1)
            assert one.carry_out(changes) and one.commit(found, then)
    return alone


def drawn(seed: int, number: int = 60) -> tuple[list[list[Change]], dict[str, str]]:
    """Transactions that a source could have committed one after the other, and its rows behind them."""
    draw, rows, found = random.Random(seed), dict[int, str](), list[list[Change]]()
    while len(found) < number:
        changes: list[Change] = []
        for _ in range(draw.randint(1, 3)):
            key, value = draw.randint(1, 12), f"v{draw.randint(1, 15)}"
            if key in rows and draw.random() < 0.3:
                changes.append(delete(key))
                del rows[key]
            elif value in rows.values():
                continue
            elif key not in rows:
                changes.append(insert(key, value))
                rows[key] = value
            elif draw.random() < 0.3 and (to := draw.randint(1, 12)) not in rows:
                changes.append(move(key, to, value))
                del rows[key]
                rows[to] = value
            else:
                changes.append(update(key, value))
                rows[key] = value
        if changes:
            found.append(changes)
    return found, {str(key): value for key, value in rows.items()}


# --- tests ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unique", [(), ("u",)], ids=["blind", "told"])
@pytest.mark.parametrize("seed", range(12))
def test_rule_22_any_workload_ends_as_one_after_the_other(seed: int, unique: Sequence[str]) -> None:
    """Keys that move, values that go from row to row; also where nobody has said that values are unique, so that earlier
    transactions wait for locks of later ones."""
    transactions, rows = drawn(seed)
    target = Target(draw=random.Random(seed))
    carried_out(target, transactions, 2 + seed % 3, unique)
    assert target.rows == rows and target.at.epoch == len(transactions)


def test_transactions_that_have_nothing_in_common_are_open_at_once() -> None:
    target = Target()
    inside = threading.Barrier(3, timeout=20)

    class Meeting(Session):
        def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
            inside.wait()
            return super().carry_out(changes)

    writer = Writer(target, [Meeting(target) for _ in range(3)])
    found = in_order(target, writer).one_by_one(target.at, small([[insert(n, f"v{n}")] for n in range(30)]))
    assert found.epoch == 30 and len(target.rows) == 30


def test_gg_32_none_begins_before_one_that_it_depends_on_has_ended() -> None:
    target, seen = Target(), list[int]()

    class Noting(Session):
        def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
            seen.append(target.at.epoch)
            return super().carry_out(changes)

    writer = Writer(target, [Noting(target) for _ in range(4)])
    steps = [[insert(1, "a")], *[[update(1, f"v{n}")] for n in range(20)], [delete(1)]]
    assert in_order(target, writer).one_by_one(target.at, small(steps)).epoch == 22
    assert seen == list(range(22)) and target.rows == {}


def test_rule_09_a_lost_line_ends_the_run_and_what_was_committed_is_a_beginning() -> None:
    target = Target()
    writer = Writer(target, [Session(target), Session(target, fails_at=5), Session(target)])
    with pytest.raises(TargetUnavailable):
        in_order(target, writer).one_by_one(target.at, small([[insert(n, f"v{n}")] for n in range(200)]))
    assert writer.closed == 1
    assert target.rows == {str(n): f"v{n}" for n in range(target.at.epoch)} and target.at.epoch < 200


def test_rule_09_another_owner_ends_all_sessions() -> None:
    target = Target()
    writer, now = Writer(target, [Session(target) for _ in range(3)]), target.at
    target.at = replace(target.at, owner="another", epoch=7)
    with pytest.raises(Fenced):
        in_order(target, writer).one_by_one(now, small([[insert(n, f"v{n}")] for n in range(20)]))
    assert target.rows == {} and not target.held


def test_where_a_target_has_no_sessions_for_it_one_does_it() -> None:
    target = Target()
    writer = Writer(target, [])
    assert in_order(target, writer).one_by_one(target.at, small([[insert(1, "a")]])) == target.at and writer.alone == 1


@given(st.lists(st.sets(st.integers(0, 6), max_size=4), max_size=30))
@settings(deadline=None)
def test_gg_30_the_last_one_with_something_in_common(marks: list[set[int]]) -> None:
    found = last_of_same(marks)
    for number, each in enumerate(marks):
        before = [n for n in range(number) if marks[n] & each]
        assert found[number] == max(before, default=NOTHING)


def test_gg_30_keys_before_and_after_and_unique_values_are_what_two_may_have_in_common() -> None:
    steps = [
        [insert(1, "a")],  # 0
        [insert(2, "b")],
        [move(1, 3, "c")],  # 2: of 0, by the former key
        [insert(3, "d")],  # of 2, by the later key
        [insert(4, "B ")],  # of 1, by a value that another collation takes for equal
        [update(9, "e"), delete(2)],  # of 1
        [insert(1, "f")],  # of 2, which has left the key
    ]
    assert needed(small(steps), {SHOP: {"u"}}) == [NOTHING, NOTHING, 0, 2, 1, 1, 2]
    assert needed(small(steps), {})[4] == NOTHING


def test_values_that_are_no_utf_8_are_compared_by_their_bytes() -> None:
    texts = pa.array([b"\xe4b", b"\xe4B ", b"\xf6b"], pa.binary()).cast(pa.string(), safe=False)
    made = small([[insert(n, f"v{n}")] for n in range(3)])
    made = replace(made, changes=[replace(one, columns=(one.columns[0], texts)) for one in made.changes])
    assert needed(made, {SHOP: {"u"}}) == [NOTHING, 0, NOTHING]
