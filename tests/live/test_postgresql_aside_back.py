"""Rows that were set aside at a real PostgreSQL come back, are discarded or forgotten; a crash in the middle does nothing twice
(K26)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.life.join import join_loaded
from anabranch.contracts import Bounds
from anabranch.failpoints import FailpointReached
from anabranch.model.table_life import resume as to_resume
from anabranch.model.table_life import take_out
from anabranch.model.verified import Verified
from anabranch.rows.aside import DISCARD, RELEASE
from rigs.an_applier import TablesOf, writes_by
from rigs.endpoints import endpoint_of
from rigs.foreign_keys_postgresql import RULES, ordinary_user, table, target
from rigs.set_aside import (
    ALONE,
    PARENT,
    alone,
    aside,
    child,
    facts,
    following,
    made_at,
    mend,
    parent,
    settle,
    states,
    waiting,
)


@pytest.fixture
def made(target_database: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with made_at(target_database, tmp_path) as make:
        yield make


# --- the ways back ----------------------------------------------------------------------------------------------------


def test_rule_26_what_is_discarded_is_kept_for_the_record_and_in_nobodys_way(made: Callable[..., Any]) -> None:
    one = made(ALONE)
    one.apply([("alone", "i", alone(1, 1, 5))], [("alone", "u", alone(1, 1, 5), alone(1, 500, 6))])
    one.apply([("alone", "u", alone(1, 500, 6), alone(1, 501, 6))], [("alone", "i", alone(2, 500))])
    verifications, source = one.applier.progress.store.verifications, one.targets[0].source
    verifications.note_verified(
        one.applier.progress.job, Verified(source, 1, 1, "identical", 1, ("", ""), 0, 0, 0, True)
    )
    settle(one, DISCARD, 1)
    assert verifications.verified(one.applier.progress.job) == [], "the target lacks the row for good"
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
