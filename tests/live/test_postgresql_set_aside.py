"""Single rows that a real PostgreSQL refuses are set aside while the rest goes on: what waits behind them, what parks because
of them, how they come back (K26)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.following import Following
from anabranch.apply.life.join import join_loaded
from anabranch.apply.window import WindowResolver
from anabranch.connectors.mysql.source import connector as source
from anabranch.contracts import Bounds
from anabranch.errors import RowRefused
from anabranch.failpoints import FailpointReached
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Action
from anabranch.model.table_life import resume as to_resume
from anabranch.model.table_life import take_out
from anabranch.rows.aside import DISCARD, RELEASE, AsideChange
from anabranch.rows.conflict import STRICT, ConflictPolicy
from rigs.an_applier import TablesOf, tell, writes_by
from rigs.endpoints import endpoint_of
from rigs.foreign_keys_postgresql import RULES, key, ordinary_user, rig, table, target

ALONE = table("alone", "v u", unique="u")
PARENT, CHILD = table("parent", "v"), table("child", "p v", key("p", "parent", Action.RESTRICT))
CASCADED = table("child", "p v", key("p", "parent", Action.CASCADE, Action.CASCADE))
BELOW = table("below", "c", key("c", "child", Action.CASCADE))
HEAP = table("heap", "v", is_keyless=True)
CHECKS = [f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (v < 100)" for name in ("alone", "parent", "child")]
Row = dict[str, Any]


def alone(number: int, v: int = 1, u: int | None = None) -> Row:
    return {"id": number, "v": v, "u": u}


def parent(number: int, v: int = 1) -> Row:
    return {"id": number, "v": v}


def child(number: int, p: int, v: int = 1) -> Row:
    return {"id": number, "p": p, "v": v}


@pytest.fixture
def made(target_database: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with ExitStack() as held:

        def make(*tables: Any, aside: int = 1000, **options: Any) -> Any:
            schemas = tables or (ALONE, PARENT, CHILD)
            checks = [check for check in CHECKS if check.split()[2] in [one.id.name for one in schemas]]
            found = rig(target_database, schemas, tmp_path, statements=checks, aside=aside, parks=True, **options)
            held.callback(found.close)
            return found

        yield make
    failpoints.arm({})


def states(one: Any) -> dict[str, str]:
    return {
        table.name: state.state for table, state in one.applier.progress.store.tables(one.applier.progress.job).items()
    }


def reason(one: Any, name: str) -> str:
    return next(
        s.reason for t, s in one.applier.progress.store.tables(one.applier.progress.job).items() if t.name == name
    )


def waiting(one: Any) -> list[AsideChange]:
    return list(one.applier.progress.store.set_aside(one.applier.progress.job))


def aside(one: Any) -> list[tuple[str, str, int]]:
    """Table, operation and key of what waits."""
    return [(c.source.name, c.operation, int(c.key["id"] or 0)) for c in waiting(one)]


def facts(one: Any) -> dict[str, str]:
    found = one.applier.progress.store.tables(one.applier.progress.job)
    return {table.name: str(state.facts.set_aside) for table, state in found.items() if state.facts.set_aside}


def following(one: Any, policies: Callable[[Any], ConflictPolicy] = lambda _: STRICT) -> Following:
    connector = source(Endpoint("mysql", "nowhere", 1, "u", "", ""))
    targets = {followed.source: followed for followed in one.targets}
    resolver = WindowResolver(one.applier.progress.trail, connector.order)
    return Following(one.connector, RULES, TablesOf(targets, policies), one.applier.progress.settings, resolver)


def settle(one: Any, wish: str = RELEASE, *keys: int) -> None:
    """As `anabranch parked release` or `discard` asks for it, and apply does it."""
    numbers = [c.number for c in waiting(one) if not keys or int(c.key["id"] or 0) in keys]
    assert one.applier.progress.store.wish(one.applier.progress.job, numbers, wish) == len(numbers)
    settle_wishes(one.applier, following(one))


def mend(one: Any, name: str) -> None:
    one.database.execute(f"ALTER TABLE {one.where}.{name} DROP CONSTRAINT small")


def resume(one: Any) -> None:
    """As `anabranch parked resume` does."""
    for state in list(one.applier.progress.store.tables(one.applier.progress.job).values()):
        if state.state == "parked":
            joining = to_resume(state)
            one.applier.progress.store.save_table(one.applier.progress.job, joining, state)
    join_loaded(one.applier, following(one))


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


# --- the ways back ----------------------------------------------------------------------------------------------------


def test_rule_26_what_is_discarded_is_kept_for_the_record_and_in_nobodys_way(made: Callable[..., Any]) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 1, 5))], [("alone", "u", alone(1, 1, 5), alone(1, 500, 6))])
    one.apply([("alone", "u", alone(1, 500, 6), alone(1, 501, 6))], [("alone", "i", alone(2, 500))])
    settle(one, DISCARD, 1)
    assert aside(one) == [("alone", "insert", 2)] and facts(one) == {"alone": "1"}
    gone = one.applier.progress.store.set_aside(one.applier.progress.job, discarded=True)
    assert [c.key for c in gone] == [{"id": "1"}] * 2 and all(c.is_discarded and not c.wish for c in gone)
    one.apply([("alone", "i", alone(3, 1, 6))])
    assert one.rows()["alone"] == {1: alone(1, 1, 5), 3: alone(3, 1, 6)} and states(one) == {"alone": "streaming"}


def test_a_load_forgets_what_is_set_aside(made: Callable[..., Any]) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))], [("alone", "i", alone(2, 500))])
    settle(one, DISCARD, 2)
    store, table = one.applier.progress.store, one.targets[0]
    state = store.table(one.applier.progress.job, table.source)
    store.save_table(one.applier.progress.job, take_out(state), state)  # as a load of a table that streams has it
    loader = one.connector.loader(RULES)
    loader.begin_generation(one.applier.progress.job, table, 1, [Bounds()], True)
    loader.close()
    assert aside(one) == [] and facts(one) == {}
    assert one.applier.progress.store.set_aside(one.applier.progress.job, discarded=True) == []


def test_rule_26_a_row_is_released_while_its_table_is_about_to_resume(made: Callable[..., Any]) -> None:
    """It does not stream by that: what the trail holds for it comes first."""
    one = made()
    one.apply([("parent", "i", parent(2, 500))], [("child", "i", child(20, 2))], [("child", "i", child(21, 2))])
    mend(one, "parent")
    for state in list(one.applier.progress.store.tables(one.applier.progress.job).values()):
        if state.state == "parked":
            joining = to_resume(state)
            one.applier.progress.store.save_table(one.applier.progress.job, joining, state)
    one.applier.progress.ask_again()
    settle(one)
    assert aside(one) == [] and states(one)["parent"] == "loading" and 2 in one.rows()["parent"]
    join_loaded(one.applier, following(one))
    assert set(states(one).values()) == {"streaming"} and one.rows()["child"].keys() == {20, 21}


def test_a_row_of_a_table_that_looks_otherwise_now_is_not_released(made: Callable[..., Any]) -> None:
    """The job file was changed; it says so and goes on."""
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))])
    mend(one, "alone")
    followed, numbers = following(one), [waiting(one)[0].number]
    renamed = replace(one.targets[0], target=PARENT.id)
    one.applier.progress.store.wish(one.applier.progress.job, numbers, RELEASE)
    one.applier.progress.park(replace(one.applier.progress.states[ALONE.id], state="parked"))
    settle_wishes(one.applier, replace(followed, rule_set=TablesOf({ALONE.id: renamed})))
    assert "the job file has changed the table" in waiting(one)[0].reason and not one.applier.progress.store.asked(
        one.applier.progress.job
    )
    one.database.execute(f"DROP TABLE {one.where}.alone")
    settle(one)
    assert "does not exist" in waiting(one)[0].reason
    settle(one, DISCARD)
    assert aside(one) == []


def test_rows_of_a_table_that_is_being_loaded_are_not_released(made: Callable[..., Any]) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))])
    mend(one, "alone")
    state = one.applier.progress.store.table(one.applier.progress.job, ALONE.id)
    one.applier.progress.store.save_table(one.applier.progress.job, replace(state, state="pending"), state)
    settle(one)
    assert aside(one) == [("alone", "insert", 1)] and one.rows()["alone"] == {}


# --- crashes ----------------------------------------------------------------------------------------------------------


def test_rule_26_a_crash_while_it_sets_aside_sets_nothing_aside_twice(made: Callable[..., Any]) -> None:
    one = made()
    failpoints.arm({failpoints.VARIABLE: "apply.set.aside=raise"})
    changes = [("alone", "i", alone(1, 500)), ("alone", "i", alone(2)), ("alone", "u", alone(1, 500), alone(1, 501))]
    with pytest.raises(FailpointReached):
        one.apply(changes)
    failpoints.arm({})
    one.applier.progress.writer.rollback()
    assert aside(one) == [] and facts(one) == {} and one.rows()["alone"] == {}
    one.applier.progress.ask_again()
    one.applier.apply(one.trail.end.position.sequence)
    assert aside(one) == [("alone", "insert", 1), ("alone", "update", 1)] and one.rows()["alone"] == {2: alone(2)}


@pytest.mark.parametrize("point", ["apply.aside.settled", "apply.committed"])
def test_rule_26_a_crash_while_it_releases_releases_once(made: Callable[..., Any], point: str) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 500))], [("alone", "u", alone(1, 500), alone(1, 501))])
    mend(one, "alone")
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise"})
    with pytest.raises(FailpointReached):
        settle(one)
    failpoints.arm({})
    one.applier.progress.writer.rollback()
    one.applier.progress.ask_again()
    one.applier.progress.look()
    settle_wishes(one.applier, following(one))
    assert aside(one) == [] and facts(one) == {} and one.rows()["alone"] == {1: alone(1, 501)}


@pytest.mark.parametrize("is_guarded", [False, True])
def test_pitfall_17_rule_26_rows_that_a_key_refuses_that_can_wait(made: Callable[..., Any], is_guarded: bool) -> None:
    """Somebody has put a row into the target. At commit the key does not say which row it refuses."""
    one = made(table("alone", "v u"))
    with ordinary_user(one.database) as user:  # its session asks keys in any case
        one.database.execute(f"GRANT ALL ON SCHEMA anabranch, {one.where} TO {user}")
        one.database.execute(*(f"GRANT ALL ON ALL TABLES IN SCHEMA {s} TO {user}" for s in ("anabranch", one.where)))
        writes_by(one.applier, target(endpoint_of(one.database, user, "p")).writer(RULES, is_guarded))
        one.database.execute(f"ALTER TABLE {one.where}.alone ADD CONSTRAINT one_u UNIQUE (u) DEFERRABLE")
        one.apply([("alone", "i", alone(n, 1, n)) for n in (1, 2, 3)])
        one.database.execute(f"INSERT INTO {one.where}.alone VALUES (6, 6, 66)")
        one.apply([("alone", "i", alone(7, 1, 66)), ("alone", "u", alone(1, 1, 1), alone(1, 2, 1))])
        assert aside(one) == [("alone", "insert", 7)] and states(one) == {"alone": "streaming"}
        assert "one_u" in waiting(one)[0].reason
        assert one.rows()["alone"] == {1: alone(1, 2, 1), 2: alone(2, 1, 2), 3: alone(3, 1, 3), 6: alone(6, 6, 66)}
        one.applier.progress.writer.close()
