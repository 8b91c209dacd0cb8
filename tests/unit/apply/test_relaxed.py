"""Commits that keep no order: whatever comes first, and wherever it ends, the rest brings the target to what the source is;
nobody sees a child without its parent meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.relaxed import Relaxed
from anabranch.apply.scheduling import ALONE, order_of, ordered
from anabranch.apply.small import Planned
from anabranch.errors import TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Action, ForeignKey, Index
from anabranch.model.state import Checkpoint
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import DELETE, INSERT, UPDATE, ChangeShape, Operation, TargetTable
from anabranch.rows.small import SmallChanges, SmallTransactions, Values
from rigs.chunks import INT, TEXT, followed, schema

UNIQUE = replace(schema("parent", {"id": INT, "u": TEXT}, ["id"]), indexes=(Index("u", ("u",), True),))
PARENT = followed(UNIQUE, unique_keys=frozenset({UniqueKey(frozenset("u"))}))


def child(refers: Sequence[str] = ("parent",), to: str = "id", kind: Any = INT) -> Any:
    key = ForeignKey("fk", tuple(refers), TableId("shop", "parent"), (to,), Action.RESTRICT, Action.RESTRICT)
    return followed(schema("child", {"id": INT, "parent": kind}, ["id"], [key]))


CHILD = child()
Change = tuple[str, Operation, tuple[str, ...], tuple[str | None, ...]]  # table, what, columns that are set, values
Rows = dict[tuple[str, str], str | None]


def tables(*some: Any) -> dict[TableId, Any]:
    return {one.table.source: one for one in some}


def small(transactions: Sequence[Sequence[Change]], *some: Any, first: int = 1) -> SmallTransactions:
    of = {one.table.source.name: one.table for one in some or (PARENT, CHILD)}
    parts: dict[ChangeShape, list[tuple[int, int, tuple[str | None, ...]]]] = {}
    for number, changes in enumerate(transactions):
        for table, operation, sets, values in changes:
            order = sum(map(len, parts.values()))
            parts.setdefault(ChangeShape(of[table], operation, sets), []).append((number, order, values))
    made = []
    for shape, rows in parts.items():
        columns = tuple(pa.array(column, pa.string()) for column in zip(*(row[2] for row in rows), strict=True))
        places = [np.array([row[place] for row in rows], np.int64) for place in (0, 1)]
        made.append(SmallChanges(shape, places[0], places[1], columns))
    numbers = list(range(first, first + len(transactions)))
    return SmallTransactions(numbers, [f"log.1:{n}" for n in numbers], numbers, made)


def insert(table: str, key: int, value: str | None) -> Change:
    return table, INSERT, ("id", "u" if table == "parent" else "parent"), (str(key), value)


def update(table: str, key: int, value: str | None) -> Change:
    return table, UPDATE, ("u" if table == "parent" else "parent",), (value, str(key))


def move(key: int, to: int, value: str) -> Change:
    return "parent", UPDATE, ("id", "u"), (str(to), value, str(key))


def delete(table: str, key: int) -> Change:
    return table, DELETE, (), (str(key),)


def needs(transactions: Sequence[Sequence[Change]], *some: Any) -> list[set[int]]:
    order = ordered(small(transactions, *some), tables(*(some or (PARENT, CHILD))))
    return [order.before(number) for number in range(len(transactions))]


# --- what needs what ------------------------------------------------------------------------------------------------------


def test_gg_30_a_child_comes_behind_its_parent_and_children_of_one_parent_go_together() -> None:
    steps = [
        [insert("parent", 1, "a")],
        [insert("child", 1, "1")],  # of 0
        [insert("child", 2, "1")],  # of 0, and not of 1
        [insert("parent", 2, "b"), insert("child", 3, "2")],  # of none
        [update("child", 3, "1")],  # of 3 as a row, of 0 by its parent
        [update("parent", 1, "c")],  # of those that refer to it
        [insert("child", 4, None)],
    ]
    assert needs(steps) == [set(), {0}, {0}, set(), {0, 3}, {1, 2, 4}, set()]


def test_gg_30_a_parent_goes_behind_whatever_may_have_left_it() -> None:
    """In the change of a child that goes is not whose it was."""
    steps = [[delete("child", 1)], [delete("child", 2)], [update("child", 3, "9")], [delete("parent", 1)]]
    assert needs(steps)[:3] == [set(), set(), set()] and needs(steps)[3] == {0, 1, 2}
    assert needs([[insert("child", 1, "5")], [delete("parent", 1)]]) == [set(), set()]
    assert needs([[delete("child", 1)], [move(1, 2, "x")]]) == [set(), {0}]


def test_gg_30_a_child_of_which_not_the_whole_parent_is_told_waits_for_all_parents() -> None:
    """A change of a child may have one of several columns of its foreign key, since images of rows may be partial."""
    of = followed(schema("whole", {"a": INT, "b": INT}, ["a", "b"]))
    key = ForeignKey("fk", ("a", "b"), TableId("shop", "whole"), ("a", "b"), Action.RESTRICT, Action.RESTRICT)
    part = followed(schema("part", {"id": INT, "a": INT, "b": INT}, ["id"], [key]))
    steps: list[list[Change]] = [
        [("whole", INSERT, ("a", "b"), ("1", "2"))],
        [("whole", INSERT, ("a", "b"), ("1", "3"))],
        [("part", INSERT, ("id", "a", "b"), ("1", "1", "3"))],  # all is told
        [("part", UPDATE, ("b",), ("2", "1"))],
    ]
    assert needs(steps, of, part) == [set(), set(), {1}, {0, 1, 2}]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("Jo", "io", True), ("uw", "VV", True), ("Chlap", "clap", True), ("a-007", "A7", True), ("a70", "a7", False)],
)
def test_gg_33_texts_that_some_collation_takes_for_equal_keep_their_order(one: str, other: str, alike: bool) -> None:
    assert needs([[insert("parent", 1, one)], [insert("parent", 2, other)]]) == [set(), {0} if alike else set()]


@pytest.mark.parametrize("of", [child(to="u"), child(kind=TEXT), child(refers=("gone",))])
def test_gg_30_where_values_cannot_be_compared_children_wait_for_all_parents(of: Any) -> None:
    """Of a unique key that is not the primary one, of columns of two types, of a column that is not replicated."""
    steps = [
        [insert("parent", 1, "a")],
        [insert("parent", 2, "b")],
        [insert("child", 1, "1")],
        [insert("child", 2, "2")],
    ]
    assert needs(steps, PARENT, of) == [set(), set(), {0, 1}, {0, 1}]


PAIR = schema("pair", {"id": INT, "a": INT, "b": INT}, ["id"])


def of_pair(*keys: UniqueKey) -> Any:
    return followed(PAIR, unique_keys=frozenset(keys))


def pair(key: int, **values: int) -> Change:
    """Insert with both values, update with one of them or both."""
    texts = [str(value) for value in values.values()]
    return "pair", UPDATE, tuple(values), (*texts, str(key))


def new_pair(key: int, a: int, b: int) -> Change:
    return "pair", INSERT, ("id", "a", "b"), (str(key), str(a), str(b))


PLAIN = UniqueKey(frozenset("ab"))


@pytest.mark.parametrize(
    "keys",
    [
        (PLAIN, UniqueKey(frozenset("ab"), is_plain=False)),
        (UniqueKey(frozenset("a")), UniqueKey(frozenset("ab"), is_plain=False)),
        (UniqueKey(frozenset("ab"), is_plain=False),),
    ],
)
def test_gg_33_values_of_a_key_that_is_not_plain_are_taken_in_order_whatever_other_keys_have_its_columns(
    keys: tuple[UniqueKey, ...],
) -> None:
    """Two rows meet in LEAST(a, b), GREATEST(a, b) which have no value in common in (a, b)."""
    steps = [[new_pair(1, 10, 20)], [delete("pair", 1)], [new_pair(2, 20, 10)]]
    assert needs(steps, of_pair(*keys)) == [set(), {0}, {0}]


def test_gg_33_a_change_that_has_not_all_columns_of_a_key_may_meet_any_row() -> None:
    steps = [
        [new_pair(1, 1, 9)],
        [new_pair(2, 2, 9)],  # of none: it differs in a
        [new_pair(3, 1, 9)],  # of 0, by its values
        [pair(4, a=1)],  # b is not told
        [new_pair(5, 7, 7)],
        [pair(6, a=3, b=3)],
        [pair(6, b=4)],
    ]
    found = needs(steps, of_pair(PLAIN))
    assert found == [set(), set(), {0}, {0, 1, 2}, {3}, {3}, {4, 5}]


def test_gg_33_what_a_change_tells_by_its_primary_key_is_known() -> None:
    """A change that names its row names those columns of a unique key that are in the primary key, too."""
    steps = [[pair(1, a=5)], [pair(2, a=5)], [pair(1, a=6)]]
    assert needs(steps, of_pair(UniqueKey(frozenset({"id", "a"})))) == [set(), set(), {0}]


@given(st.lists(st.dictionaries(st.integers(0, 4), st.sampled_from([ALONE, "a", "b"]), max_size=3), max_size=25))
@settings(deadline=None)
def test_gg_30_of_two_with_something_in_common_the_later_one_needs_the_earlier_one(marks: list[dict[int, str]]) -> None:
    """Directly, or by way of others; unless both have it in the way in which they may go together."""
    order = order_of(marks)
    before: list[set[int]] = []
    for number, each in enumerate(marks):
        direct = order.before(number)
        assert all(one < number for one in direct)
        before.append(direct.union(*(before[one] for one in direct)))
        for one in range(number):
            shared = [
                mark
                for mark in each.keys() & marks[one].keys()
                if each[mark] == ALONE or each[mark] != marks[one][mark]
            ]
            assert one in before[number] or not shared
        assert all(marks[one].keys() & each.keys() for one in direct)


# --- any order, any end -----------------------------------------------------------------------------------------------------


def drawn(draw: random.Random, number: int) -> list[list[Change]]:
    """Transactions that a source with both keys could have committed one after the other."""
    parents, children, found = dict[int, str](), dict[int, int](), list[list[Change]]()
    while len(found) < number:
        changes: list[Change] = []
        for _ in range(draw.randint(1, 3)):
            key, value = draw.randint(1, 6), f"v{draw.randint(1, 9)}"
            if draw.random() < 0.5:
                of = draw.choice(list(parents)) if parents else None
                if key in children and draw.random() < 0.4:
                    changes.append(delete("child", key))
                    del children[key]
                elif of is not None:
                    changes.append((update if key in children else insert)("child", key, str(of)))
                    children[key] = of
                continue
            if value in parents.values():
                continue
            if key in parents and key not in children.values() and draw.random() < 0.5:
                to = draw.randint(1, 6)
                if draw.random() < 0.5 or to in parents:
                    changes.append(delete("parent", key))
                else:
                    changes.append(move(key, to, value))
                    parents[to] = value
                del parents[key]
            else:
                changes.append((update if key in parents else insert)("parent", key, value))
                parents[key] = value
        if changes:
            found.append(changes)
    return found


def done(rows: Rows, changes: Sequence[Change]) -> Rows | None:
    """The rows behind a transaction; None where the target refuses it. It has the unique keys, and no foreign one."""
    found = dict(rows)
    for table, operation, _, values in changes:
        old = (table, str(values[-1])) if operation != INSERT else None
        if old is not None and found.pop(old, "none") == "none":
            return None
        if operation == DELETE:
            continue
        new = (table, str(values[0])) if operation == INSERT or len(values) == 3 else (table, str(values[-1]))
        value = values[1] if operation == INSERT or len(values) == 3 else values[0]
        if new in found or (table == "parent" and any(t == table and v == value for (t, _), v in found.items())):
            return None
        found[new] = value
    return found


def orphans(rows: Rows) -> list[str]:
    return [key for (table, key), of in rows.items() if table == "child" and ("parent", str(of)) not in rows]


@given(st.integers(0, 1 << 30), st.integers(1, 25), st.integers(0, 40))
@settings(deadline=None, max_examples=300)
def test_gg_33_wherever_it_ends_what_is_missing_brings_it_to_the_source(seed: int, size: int, ends: int) -> None:
    """Commits in any order that is allowed, refusals that end a run, a crash behind any commit: nothing noted is repeated,
    the rest is done in the source's order."""
    draw = random.Random(seed)
    transactions = drawn(draw, size)
    serial: Rows = {}
    for changes in transactions:
        after = done(serial, changes)
        assert after is not None
        serial = after
    rows: Rows = {}
    noted: set[int] = set()
    while len(noted) < size and ends:
        left = [number for number in range(size) if number not in noted]  # a run is planned
        order = ordered(small([transactions[number] for number in left]), tables(PARENT, CHILD))
        run: set[int] = set()
        while len(run) < len(left) and ends:
            ready = [at for at in range(len(left)) if at not in run and order.before(at) <= run]
            at = draw.choice(ready)
            after = done(rows, transactions[left[at]])
            if after is None:  # too early: the first one that is missing is done alone
                at = min(one for one in range(len(left)) if one not in run)
                after = done(rows, transactions[left[at]])
                assert after is not None
                noted.add(left[at])
                rows = after
                break
            rows, ends = after, ends - 1
            run.add(at)
            noted.add(left[at])
            assert not orphans(rows)
    for number in range(size):
        if number not in noted:
            after = done(rows, transactions[number])
            assert after is not None
            rows = after
            assert not orphans(rows)
    assert rows == serial


def test_rule_09_what_is_applied_beyond_is_left_out_of_the_next_run() -> None:
    """Its changes do not become those of the transaction behind it."""
    made = small([[update("parent", n, f"v{n}"), insert("child", n, "1")] for n in range(1, 7)], first=11)
    planned = Planned([SmallChanges(one.shape, one.transactions + 11, one.orders, one.columns) for one in made.changes])
    left = SmallTransactions([11, 13, 16], [""] * 3, [0] * 3, planned.of([11, 13, 16]))
    assert [[values[-1] for _, values in changes] for changes in left.each()] == [
        [b"1", b"1"],
        [b"3", b"1"],
        [b"6", b"1"],
    ]
    assert [len(one) for one in planned.of([14])] == [1, 1] and planned.of([17]) == []


# --- sessions ---------------------------------------------------------------------------------------------------------------


@dataclass
class Target:
    rows: Rows = field(default_factory=dict)
    noted: dict[int, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    order: list[int] = field(default_factory=list)
    kept_out: int = 0

    def applied(self, job: str) -> dict[int, str]:
        return self.noted

    def begin_notes(self) -> None:
        self.kept_out += 1


class Session:
    """Finds a refusal when it commits. `waits`: for an event before transactions with these keys."""

    def __init__(self, target: Target, waits: dict[str, threading.Event] | None = None, fails_at: int = -1) -> None:
        self.target, self.waits, self.fails_at = target, waits or {}, fails_at
        self.changes: list[Change] = []

    def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        self.changes = [
            (
                shape.table.source.name,
                shape.operation,
                shape.sets,
                tuple(None if v is None else v.decode() for v in values),
            )
            for shape, values in changes
        ]
        for _, _, _, values in self.changes:
            if event := self.waits.get(str(values[0])):
                assert event.wait(20)
        return True

    def commit(self, now: Checkpoint, then: Checkpoint) -> bool:
        raise AssertionError("no commit in turn")

    def commit_ahead(self, now: Checkpoint, at: Position) -> bool:
        with self.target.lock:
            if len(self.target.order) == self.fails_at:
                raise TargetUnavailable("the line is lost")
            after = done(self.target.rows, self.changes)
            if after is None:
                return False
            assert at.sequence not in self.target.noted
            self.target.rows = after
            self.target.noted[at.sequence] = at.native
            self.target.order.append(at.sequence)
            return True

    def rollback(self) -> None:
        self.changes = []


class Writer:
    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions, self.closed, self.alone = sessions, 0, 0

    def appliers(self, number: int, tables: Sequence[TargetTable]) -> Sequence[Session]:
        return self.sessions[:number]

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        self.alone += 1
        return now

    def close(self) -> None:
        self.closed += 1


NOW = Checkpoint("me", 7, Position(0, ""), 0)


def run(target: Target, writer: Writer, transactions: SmallTransactions) -> tuple[Checkpoint, Any]:
    progress: Any = SimpleNamespace(
        job="shop",
        context=SimpleNamespace(tables=tables(PARENT, CHILD)),
        store=SimpleNamespace(jobs=target),
        ahead={},
        uncounted={},
        notes_applied=lambda: None,
    )
    way = Relaxed(progress, writer, len(writer.sessions))
    found = way.one_by_one(NOW, transactions)
    progress.moves = way.moves
    return found, progress


@pytest.mark.parametrize("seed", range(6))
def test_gg_32_none_is_committed_before_one_that_it_depends_on(seed: int) -> None:
    transactions, target = drawn(random.Random(seed), 60), Target()
    some = small(transactions)
    order = ordered(some, tables(PARENT, CHILD))
    run(target, Writer([Session(target) for _ in range(4)]), some)
    for at, sequence in enumerate(target.order):
        assert {one + 1 for one in order.before(sequence - 1)} <= set(target.order[:at])


def test_a_slow_one_keeps_nobody_back_and_what_is_beyond_is_told() -> None:
    """The second transaction is under way until all others are committed, and is then refused."""
    target, waits = Target({("parent", "2"): "taken"}), threading.Event()

    class Slow(Session):
        def commit_ahead(self, now: Checkpoint, at: Position) -> bool:
            found = super().commit_ahead(now, at)
            if len(self.target.order) == 19:
                waits.set()
            return found

    writer = Writer([Slow(target, {"2": waits}) for _ in range(3)])
    found, progress = run(target, writer, small([[insert("parent", n, f"v{n}")] for n in range(1, 21)]))
    assert (found.epoch, found.position) == (8, Position(1, "log.1:1")) and not progress.moves
    assert progress.ahead == {n: f"log.1:{n}" for n in (1, *range(3, 21))} and not writer.closed
    assert {n: dict(of) for n, of in progress.uncounted.items()} == {n: {PARENT.table.source: 1} for n in range(3, 21)}
    assert target.kept_out == 1


def test_all_that_are_committed_move_the_low_mark_to_the_end() -> None:
    target = Target()
    found, progress = run(
        target, Writer([Session(target) for _ in range(3)]), small([[insert("parent", n, f"v{n}")] for n in range(300)])
    )
    assert (found.epoch, found.position.sequence) == (307, 300) and len(progress.ahead) == len(target.rows) == 300


def test_rule_09_a_lost_line_ends_the_run_and_the_connections() -> None:
    target = Target()
    writer = Writer([Session(target, fails_at=5), Session(target, fails_at=5)])
    with pytest.raises(TargetUnavailable):
        run(target, writer, small([[insert("parent", n, f"v{n}")] for n in range(50)]))
    assert writer.closed == 1 and len(target.noted) == 5


def test_where_a_target_has_no_sessions_for_it_one_keeps_the_order() -> None:
    target, writer = Target(), Writer([])
    found, progress = run(target, writer, small([[insert("parent", 1, "a")]]))
    assert found == NOW and writer.alone == 1 and progress.moves and not target.kept_out
