"""Rows that somebody has changed at a real PostgreSQL, and what each policy makes of the changes that meet them: through
trail, plan and slow way, judged by a model that goes row by row."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.errors import RowRefused
from anabranch.model.schema import Action
from anabranch.rows.conflict import ConflictPolicy, NotedConflict
from rigs.foreign_keys_postgresql import Row, key, ordinary_user, rig, table

POLICIES = {
    "source_wins": ConflictPolicy("source_wins"),
    "target_wins": ConflictPolicy("target_wins"),
    "ignore_missing": ConflictPolicy("ignore_missing"),
    "newest": ConflictPolicy("newest", "age"),
}
ONE = table("one", "age v")
PARENT, CHILD = table("parent", "age"), table("child", "p", key("p", "parent", Action.CASCADE, Action.CASCADE))


@pytest.fixture
def made(target_database: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with ExitStack() as held:

        def make(policy: str, *tables: Any, strict: Container[str] = (), **options: Any) -> Any:
            policies = {one.id.name: POLICIES[policy] for one in tables if one.id.name not in strict}
            found = rig(target_database, tables, tmp_path, policies=policies, **options)
            held.callback(found.close)
            return found

        yield make


def noted(one: Any) -> list[NotedConflict]:
    return list(one.applier.progress.store.conflicts(one.applier.progress.job))


class Model:
    """The target's rows by id: what somebody does there, what the source's changes come to."""

    def __init__(self, policy: str) -> None:
        self.policy, self.rows, self.notes = policy, dict[int, Row](), list[tuple[str, str]]()

    def _is_newer(self, number: int, change: Row) -> bool:
        there, coming = (-99 if row["age"] is None else row["age"] for row in (self.rows[number], change))
        return self.policy == "newest" and there > coming

    def change(self, kind: str, before: Row, after: Row) -> None:
        number, there = before["id"], before["id"] in self.rows
        if kind == "d" and there and not self._is_newer(number, before):
            del self.rows[number]
        elif kind == "d":
            self.notes.append(("newer", "target") if there else ("missing", "ignored"))
        elif kind == "u" and there and not self._is_newer(number, after):
            self.rows[number] = after
        elif kind == "u" and there:
            self.notes.append(("newer", "target"))
        elif kind == "u" and self.policy in ("source_wins", "newest"):
            self.rows[number] = after
            self.notes.append(("missing", "source"))
        elif kind == "u":
            self.notes.append(("missing", "ignored"))
        elif not there:
            self.rows[number] = after
        elif self.policy == "target_wins" or self._is_newer(number, after):
            self.notes.append(("exists", "target"))
        else:
            self.rows[number] = after
            self.notes.append(("exists", "source"))


def disturb(one: Any, model: Model, pick: random.Random) -> None:
    """What an application at the target does."""
    number, age, v = pick.randrange(1, 13), pick.choice([None, *range(30)]), pick.randrange(100, 200)
    if number in model.rows and pick.random() < 0.5:
        del model.rows[number]
        one.database.execute(f"DELETE FROM {one.where}.one WHERE id = {number}")
    elif model.policy != "ignore_missing" or number in model.rows:  # which stops at a row that is there
        model.rows[number] = {"id": number, "age": age, "v": v}
        one.database.execute(
            f"INSERT INTO {one.where}.one VALUES ({number}, {'NULL' if age is None else age}, {v})"
            " ON CONFLICT (id) DO UPDATE SET age = excluded.age, v = excluded.v"
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.one_case("0-*", "1-newest")
def test_rule_28_a_target_that_others_write_to(made: Callable[..., Any], policy: str, seed: int) -> None:
    """Several transactions an epoch, each key once in it, so that the order in which they meet does not matter."""
    pick, one, model, source = random.Random(f"{policy} {seed}"), made(policy, ONE), Model(policy), dict[int, Row]()
    for moment in range(25):
        for _ in range(pick.randrange(4)):
            disturb(one, model, pick)
        transactions = []
        for number in pick.sample(range(1, 13), pick.randrange(1, 9)):
            age = pick.choice([None, moment, moment - 3, moment + 3])
            before, after = source.get(number), {"id": number, "age": age, "v": pick.randrange(100)}
            if before is None:
                if policy == "ignore_missing" and number in model.rows:
                    continue
                source[number] = after
                transactions.append([("one", "i", after)])
                model.change("i", after, after)
            elif pick.random() < 0.3:
                transactions.append([("one", "d", source.pop(number))])
                model.change("d", before, before)
            else:
                source[number] = after
                transactions.append([("one", "u", before, after)])
                model.change("u", before, after)
        one.apply(*transactions)
        assert one.rows()["one"] == model.rows, f"after {moment}"
    assert [(n.kind, n.decision) for n in noted(one)] == model.notes and len(model.notes) > 10
    state = one.applier.progress.states[ONE.id]
    assert state.facts.conflicts == len(model.notes)


def test_what_is_noted(made: Callable[..., Any]) -> None:
    one = made("newest", ONE)
    one.apply([("one", "i", {"id": 1, "age": 5, "v": 1})])
    one.database.execute(f"UPDATE {one.where}.one SET age = 9, v = 99")
    changed = {"id": 1, "age": 6, "v": 2}
    one.apply([("one", "u", {"id": 1, "age": 5, "v": 1}, changed)])
    (found,) = noted(one)
    assert (found.sequence, found.operation, found.kind, found.policy) == (2, "update", "newer", "newest")
    assert found.position == str(one.applier.progress.trail.position_at(2))
    assert (found.source, str(found.target), found.key) == (ONE.id, f"{one.where}.one", {"id": "1"})
    assert found.before == {"id": "1", "age": "5", "v": "1"} and found.after == {"id": "1", "age": "6", "v": "2"}
    assert found.found == {"id": "1", "age": "9", "v": "99"} and found.number == 1


def test_only_what_is_near_a_conflict_goes_row_by_row(made: Callable[..., Any]) -> None:
    one = made("source_wins", ONE)
    first = [{"id": number, "age": 0, "v": 0} for number in range(2000)]
    one.apply(*([("one", "i", row)] for row in first))
    one.database.execute(f"DELETE FROM {one.where}.one WHERE id = 777")
    begun = one.applier.progress.totals.epochs
    slow = one.apply(*([("one", "u", row, {**row, "v": 1})] for row in first))
    assert slow == 1 and one.applier.progress.totals.epochs - begun < 30
    assert {row["v"] for row in one.rows()["one"].values()} == {1} and len(one.rows()["one"]) == 2000
    assert [n.key for n in noted(one)] == [{"id": "777"}]


@pytest.mark.parametrize("how", [("newest", 1), ("source_wins", 0)])
def test_rule_01_children_of_a_row_that_is_kept_stay(made: Callable[..., Any], how: tuple[str, int]) -> None:
    """The source's key has taken them along; where the parent stays, they do."""
    policy, left = how
    one = made(policy, PARENT, CHILD, strict={"child"})
    one.apply([("parent", "i", {"id": 1, "age": 5}), ("child", "i", {"id": 10, "p": 1})])
    one.database.execute(f"UPDATE {one.where}.parent SET age = 9")
    one.apply([("parent", "d", {"id": 1, "age": 5})])
    assert (len(one.rows()["parent"]), len(one.rows()["child"])) == (left, left)


def test_rule_01_a_row_that_went_with_its_parent_is_no_conflict(made: Callable[..., Any]) -> None:
    """MySQL logs the removal by a DELETE of several tables also of rows that a key has taken along; others are looked at."""
    one = made("ignore_missing", PARENT, CHILD)
    children = [{"id": 10, "p": 1}, {"id": 20, "p": 2}]
    one.apply(
        [("parent", "i", {"id": number, "age": 0}) for number in (1, 2)], [("child", "i", child) for child in children]
    )
    one.database.execute(f"DELETE FROM {one.where}.child WHERE id = 20")
    one.apply([("parent", "d", {"id": 1, "age": 0}), *(("child", "d", child) for child in children)])
    assert one.rows()["child"] == {} and sorted(one.rows()["parent"]) == [2]
    assert noted(one) == []  # nor can be told of the other one, in that transaction


def test_a_crash_after_the_note_leaves_none(made: Callable[..., Any]) -> None:
    one = made("source_wins", ONE)
    upto = one.log([("one", "u", {"id": 1, "age": 0, "v": 0}, {"id": 1, "age": 1, "v": 1})])
    failpoints.arm({failpoints.VARIABLE: "apply.conflict.noted=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            one.applier.apply(upto)
    finally:
        failpoints.arm({})
    one.applier.progress.writer.rollback()
    assert noted(one) == [] and one.rows()["one"] == {}
    one.applier.progress.ask_again()
    one.applier.apply(upto)
    assert len(noted(one)) == 1 and one.rows()["one"] == {1: {"id": 1, "age": 1, "v": 1}}


def test_a_row_that_comes_while_it_is_looked_for_is_met_again(
    made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made("target_wins", ONE)
    one.database.execute(f"INSERT INTO {one.where}.one VALUES (2, 0, 0)")
    look, times = one.applier.progress.writer.row, iter([True])

    def late(of: Any, wanted: Any, age: Any) -> Any:
        found = look(of, wanted, age)
        if wanted == {"id": "1"} and next(times, False):
            one.database.execute(f"INSERT INTO {one.where}.one VALUES (1, 7, 7)")
        return found

    monkeypatch.setattr(one.applier.progress.writer, "row", late)
    one.apply([("one", "i", {"id": 2, "age": 1, "v": 1}), ("one", "i", {"id": 1, "age": 1, "v": 1})])
    assert one.rows()["one"] == {1: {"id": 1, "age": 7, "v": 7}, 2: {"id": 2, "age": 0, "v": 0}}
    assert [n.kind for n in noted(one)] == ["exists", "exists"]


def test_a_row_makes_room_where_no_key_of_the_target_acts_on_it(made: Callable[..., Any], target_database: Any) -> None:
    """Torture seed 41127: the keys that act on an ordinary user are those of other tables."""
    with ordinary_user(target_database) as user:
        one = made("source_wins", ONE, PARENT, CHILD, user=user)
        one.apply([("one", "i", {"id": 1, "age": 0, "v": 1}), ("parent", "i", {"id": 1, "age": 0})])
        one.database.execute(
            f"INSERT INTO {one.where}.one VALUES (2, 7, 7); INSERT INTO {one.where}.parent VALUES (2, 7)"
        )
        one.apply([("one", "u", {"id": 1, "age": 0, "v": 1}, {"id": 2, "age": 0, "v": 1})])
        assert one.rows()["one"] == {2: {"id": 2, "age": 0, "v": 1}}
        assert [(n.kind, n.decision) for n in noted(one)] == [("exists", "source")]
        with pytest.raises(RowRefused, match="foreign keys of the target would act"):
            one.apply([("parent", "u", {"id": 1, "age": 0}, {"id": 2, "age": 0})])


def test_what_no_policy_covers_still_stops(made: Callable[..., Any]) -> None:
    unique = table("single", "v", unique="v")
    one = made("source_wins", unique)
    one.database.execute(f"INSERT INTO {one.where}.single VALUES (1, 5)")
    with pytest.raises(RowRefused, match="one_v"):
        one.apply([("single", "i", {"id": 2, "v": 5})])
    assert noted(one) == []
