"""Single rows that a real PostgreSQL refuses are set aside while the rest goes on: what waits behind them, what parks because
of them (K26)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import RowRefused
from anabranch.rows.aside import DISCARD
from anabranch.rows.conflict import ConflictPolicy
from rigs.an_applier import tell
from rigs.foreign_keys_postgresql import ordinary_user
from rigs.set_aside import (
    ALONE,
    BELOW,
    CASCADED,
    HEAP,
    PARENT,
    alone,
    aside,
    child,
    facts,
    made_at,
    mend,
    parent,
    reason,
    resume,
    settle,
    states,
    waiting,
)


@pytest.fixture
def made(target_database: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with made_at(target_database, tmp_path) as make:
        yield make


# --- setting aside ----------------------------------------------------------------------------------------------------


def test_rule_26_a_refused_row_is_set_aside_and_the_rest_of_its_transaction_is_applied(
    made: Callable[..., Any],
) -> None:
    one = made()
    one.apply(
        [("alone", "i", alone(1))],
        [("alone", "i", alone(2)), ("alone", "u", alone(1), alone(1, 500)), ("parent", "i", parent(7))],
        [("alone", "i", alone(3, 700)), ("alone", "i", alone(4))],
    )
    assert one.rows()["alone"] == {n: alone(n) for n in (1, 2, 4)} and one.rows()["parent"] == {7: parent(7)}
    assert set(states(one).values()) == {"streaming"} and one.applier.progress.checkpoint.position.sequence == 3
    first, second = waiting(one)
    assert (first.operation, first.key, first.sequence) == ("update", {"id": "1"}, 2)
    assert first.before == {"id": "1", "v": "1", "u": None} and first.after == {"id": "1", "v": "500", "u": None}
    assert "small" in first.reason and "id = 1" in first.reason and first.position.startswith("2@")
    assert (second.operation, second.before) == ("insert", None) and second.after == {"id": "3", "v": "700", "u": None}
    assert first.number < second.number and first.set_aside_at > 0 and facts(one) == {"alone": "2"}


def test_rule_26_what_a_release_before_has_set_aside_is_read_and_its_table_completed(
    made: Callable[..., Any], target_database: Any
) -> None:
    """Whoever only reads changes nothing; a start adds the column that came later."""
    one = made()
    one.apply([("alone", "i", alone(3, 700))])
    before = waiting(one)
    target_database.execute("ALTER TABLE anabranch.set_aside DROP COLUMN unconverted")
    target_database.execute("ALTER TABLE anabranch.meta DROP COLUMN migrations")
    assert waiting(one) == before and one.applier.progress.store.count_aside(one.applier.progress.job) == {
        before[0].source: 1
    }
    one.applier.progress.store.prepare()
    assert waiting(one) == before and before[0].unconverted == {}
    one.apply([("alone", "i", alone(4, 800))])
    assert [change.key for change in waiting(one)] == [{"id": "3"}, {"id": "4"}]


def test_rule_26_later_changes_of_the_row_wait_in_order_and_come_back_together(made: Callable[..., Any]) -> None:
    one = made()
    one.apply([("alone", "i", alone(1, 500, 5))], [("alone", "u", alone(1, 500, 5), alone(1, 501, 5))])
    one.apply([("alone", "d", alone(1, 501, 5)), ("alone", "i", alone(1, 502, 6)), ("alone", "i", alone(2, 1, 7))])
    assert aside(one) == [("alone", what, 1) for what in ("insert", "update", "delete", "insert")]
    assert one.rows()["alone"] == {2: alone(2, 1, 7)} and facts(one) == {"alone": "4"}
    settle(one)
    assert len(aside(one)) == 4 and waiting(one)[0].reason.startswith("still refused: ") and not waiting(one)[0].wish
    one.applier.progress.ask_again()  # as a start does
    mend(one, "alone")
    settle(one)
    assert aside(one) == [] and facts(one) == {} and one.rows()["alone"][1] == alone(1, 502, 6)
    one.apply([("alone", "u", alone(1, 502, 6), alone(1, 9, 6))])
    assert aside(one) == [] and one.rows()["alone"][1] == alone(1, 9, 6)


@pytest.mark.parametrize("per_transaction", [False, True])
def test_rule_26_rows_that_are_missing_or_there_already(made: Callable[..., Any], per_transaction: bool) -> None:
    """Somebody has changed the target, and on_conflict says stop."""
    one = made()
    tell(one.applier, per_transaction=per_transaction)
    one.apply([("alone", "i", alone(n)) for n in range(1, 5)])
    one.database.execute(f"DELETE FROM {one.where}.alone WHERE id IN (1, 2)")
    one.database.execute(f"INSERT INTO {one.where}.alone VALUES (5, 5, 5), (6, 6, 66)")
    one.apply(
        [("alone", "u", alone(1), alone(1, 2))],
        [("alone", "d", alone(2)), ("alone", "i", alone(5)), ("alone", "d", alone(3))],
        [("alone", "i", alone(7, 1, 66)), ("alone", "u", alone(4), alone(4, 2))],
    )
    found = [("alone", "update", 1), ("alone", "delete", 2), ("alone", "insert", 5), ("alone", "insert", 7)]
    assert aside(one) == found and one.rows()["alone"].keys() == {4, 5, 6}
    settle(one, DISCARD, 2)
    one.database.execute(
        f"INSERT INTO {one.where}.alone VALUES (1, 1)", f"DELETE FROM {one.where}.alone WHERE id IN (5, 6)"
    )
    settle(one)
    assert aside(one) == [] and one.rows()["alone"] == {
        1: alone(1, 2), 4: alone(4, 2), 5: alone(5), 7: alone(7, 1, 66)
    }  # fmt: skip


def test_a_policy_decides_first(made: Callable[..., Any]) -> None:
    """And again when the row is released: what it decides is noted with its own place."""
    wins = ConflictPolicy("source_wins")
    one = made(ALONE, policies={"alone": wins})
    one.database.execute(f"INSERT INTO {one.where}.alone VALUES (1, 1), (2, 2)")
    one.apply([("alone", "i", alone(1, 7)), ("alone", "i", alone(2, 700))])
    assert one.rows()["alone"] == {1: alone(1, 7), 2: alone(2, 2)} and aside(one) == [("alone", "insert", 2)]
    assert (
        len(one.applier.progress.store.conflicts(one.applier.progress.job)) == 1
    )  # what was decided for the refused row is not noted
    mend(one, "alone")
    settle(one)
    assert one.rows()["alone"][2] == alone(2, 700) and aside(one) == []
    noted = one.applier.progress.store.conflicts(one.applier.progress.job)
    assert [(n.sequence, n.kind, n.decision) for n in noted] == [(1, "exists", "source")] * 2 and facts(one) == {}


# --- what parks -------------------------------------------------------------------------------------------------------


def parks(one: Any, *transactions: Any, why: str, others: frozenset[str] = frozenset({"alone"})) -> None:
    before, rows = aside(one), one.rows()
    one.apply(*transactions)
    found = {name for name, state in states(one).items() if state == "parked"}
    assert found and found.isdisjoint(others) and why in " ".join(reason(one, name) for name in found)
    assert aside(one) == before and all(one.rows()[name] == rows[name] for name in found)
    assert one.applier.progress.checkpoint.position.sequence == one.trail.end.position.sequence


def test_rule_26_a_child_of_a_row_that_is_set_aside_parks_and_comes_back_after_it(made: Callable[..., Any]) -> None:
    one = made()
    one.apply([("parent", "i", parent(1)), ("parent", "i", parent(2, 500))], [("child", "i", child(10, 1))])
    assert aside(one) == [("parent", "insert", 2)] and set(states(one).values()) == {"streaming"}
    parks(one, [("child", "i", child(20, 2)), ("alone", "i", alone(1))], why="refers to it")
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"} and 1 in one.rows()["alone"]
    resume(one)
    assert reason(one, "parent").startswith("still refused: ")
    settle(one)
    assert waiting(one)[0].reason.startswith("still refused: ")
    mend(one, "parent")
    settle(one)  # of a table that is parked
    assert aside(one) == [] and facts(one) == {} and one.rows()["parent"].keys() == {1, 2}
    assert one.applier.progress.store.table(one.applier.progress.job, PARENT.id).facts.resumes is not None
    resume(one)
    assert set(states(one).values()) == {"streaming"} and one.rows()["child"].keys() == {10, 20}


def test_a_parent_and_its_child_of_one_transaction_park(made: Callable[..., Any]) -> None:
    one = made()
    parks(one, [("parent", "i", parent(2, 500)), ("child", "i", child(20, 2))], why="refers to it")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("alone", "i", alone(9, 1, 50)), "unique value"),
        (("alone", "u", alone(2, 1, 20), alone(2, 1, 51)), "unique value"),
        (("alone", "u", alone(2, 1, 20), alone(1, 1, 20)), "another key"),
        (("alone", "u", alone(1, 500, 51), alone(9, 500, 51)), "another key"),
    ],
)
def test_rule_26_what_shares_a_unique_value_or_moves_its_key_parks(
    made: Callable[..., Any], change: Any, why: str
) -> None:
    """Here the value 50 that the row had, 51 that it would have. Other changes of the table go on."""
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 1, 50)), ("alone", "i", alone(2, 1, 20))])
    one.apply([("alone", "u", alone(1, 1, 50), alone(1, 500, 51))])
    assert not one.apply([("alone", "i", alone(3, 1, 30))], [("alone", "d", alone(3, 1, 30))])
    assert aside(one) == [("alone", "update", 1)] and states(one) == {"alone": "streaming"}
    parks(one, [change], why=why, others=frozenset())


def test_rule_26_what_a_row_refers_to_may_change_but_not_go(made: Callable[..., Any]) -> None:
    one = made()
    one.apply([("parent", "i", parent(n)) for n in (1, 2, 3)], [("child", "i", child(10, 1))])
    one.apply([("child", "u", child(10, 1), child(10, 2, 500))])
    one.apply([("parent", "u", parent(1), parent(1, 5))], [("parent", "d", parent(3))], [("child", "i", child(11, 2))])
    assert set(states(one).values()) == {"streaming"} and aside(one) == [("child", "update", 10)]
    parks(one, [("parent", "d", parent(1))], why="what it refers to")  # to which the target's row still does


def test_rule_01_26_a_cascade_that_would_reach_the_row_parks(made: Callable[..., Any]) -> None:
    """The log does not show what it does to the row; one that reaches other rows goes on."""
    one = made(PARENT, CASCADED)
    one.apply(
        [("parent", "i", parent(n)) for n in (1, 2)], [("child", "i", child(10, 1)), ("child", "i", child(20, 2))]
    )
    one.apply([("child", "i", child(11, 1, 500))])
    one.apply([("parent", "d", parent(2))])
    assert one.rows()["child"].keys() == {10} and set(states(one).values()) == {"streaming"}
    parks(one, [("parent", "d", parent(1))], why="takes away", others=frozenset())


def test_rule_01_26_a_cascade_over_a_table_between_parks(made: Callable[..., Any]) -> None:
    """Which rows of the last table it reaches is told by nothing in the log."""
    one = made(PARENT, CASCADED, BELOW)
    one.database.execute(f"ALTER TABLE {one.where}.below ADD CONSTRAINT odd CHECK (id <> 100)")
    one.apply([("parent", "i", parent(1))], [("child", "i", child(10, 1)), ("child", "i", child(20, 1))])
    one.apply([("below", "i", {"id": 100, "c": 10})])
    assert aside(one) == [("below", "insert", 100)]
    parks(one, [("parent", "d", parent(1))], why="by cascades", others=frozenset())


def test_a_change_that_cascades_is_not_set_aside(made: Callable[..., Any]) -> None:
    one = made(PARENT, CASCADED)
    one.apply([("parent", "i", parent(1))], [("child", "i", child(10, 1))])
    one.database.execute(f"DELETE FROM {one.where}.parent")
    parks(one, [("parent", "d", parent(1))], why="the row is not there", others=frozenset())
    assert aside(one) == []


def test_rule_26_a_truncate_parks(made: Callable[..., Any]) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))], [("alone", "i", alone(2))])
    one.truncate("alone")
    assert states(one) == {"alone": "parked"} and "empties its table" in reason(one, "alone")
    assert one.rows()["alone"].keys() == {2}


def test_rule_26_beyond_the_limit_the_table_parks(made: Callable[..., Any]) -> None:
    one = made(ALONE, aside=3)
    one.apply(*([("alone", "i", alone(n, 500))] for n in (1, 2, 3)))
    assert len(aside(one)) == 3 and states(one) == {"alone": "streaming"}
    one.apply([("alone", "u", alone(1, 500), alone(1, 1))])
    assert len(aside(one)) == 3 and states(one) == {"alone": "parked"} and "set_aside_limit" in reason(one, "alone")


def test_rows_without_a_key_and_rows_in_part_park(made: Callable[..., Any]) -> None:
    one = made(ALONE, HEAP)
    one.database.execute(f"ALTER TABLE {one.where}.heap ADD CONSTRAINT small CHECK (v < 100)")
    one.apply([("alone", "i", alone(1, 1, 10))], [("heap", "i", {"id": 1, "v": 500})])
    assert states(one) == {"alone": "streaming", "heap": "parked"}
    one.apply([("alone", "u", {"id": 1}, {"v": 500})])  # what unique value it has is not in the log
    assert states(one)["alone"] == "parked" and "lacks columns" in reason(one, "alone") and aside(one) == []


@pytest.fixture
def plain(target_database: Any) -> Iterator[str]:
    with ordinary_user(target_database) as user:
        yield user


def test_rule_07_26_where_the_targets_keys_act_the_table_parks(plain: str, made: Callable[..., Any]) -> None:
    one = made(user=plain)
    one.apply([("alone", "i", alone(1, 500))], [("parent", "i", parent(1, 500))])
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"}
    assert aside(one) == [("alone", "insert", 1)] and "foreign keys of the target act" in reason(one, "parent")


def test_without_being_asked_to_nothing_more_is_set_aside_and_what_is_waits(made: Callable[..., Any]) -> None:
    """A job that was told to stop again."""
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))])
    tell(one.applier, sets_aside=False, parks=False)
    one.applier.progress.ask_again()
    one.apply([("alone", "i", alone(3))])
    one.apply([("alone", "u", alone(1, 500), alone(1, 600))])
    assert one.rows()["alone"].keys() == {3} and aside(one) == [("alone", "insert", 1), ("alone", "update", 1)]
    for refused in (("alone", "i", alone(2, 500)), ("alone", "u", alone(1, 600), alone(2, 600))):
        with pytest.raises(RowRefused, match=r"small|another key"):
            one.apply([refused])
        one.pass_over()
    assert len(aside(one)) == 2 and states(one) == {"alone": "streaming"}
