"""Rows that a real PostgreSQL refuses: their table is parked with what foreign keys connect it with, the others go on, and
all of it comes back where it stood (K15, K26)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.apply.following import Following
from anabranch.apply.life.join import join_loaded
from anabranch.apply.window import WindowResolver
from anabranch.connectors.mysql.source import connector as source
from anabranch.errors import RowRefused
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Action
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import Life, TableState, open_window, resume
from anabranch.trail import retention
from rigs.an_applier import TablesOf, tell
from rigs.foreign_keys_postgresql import RULES, key, rig, table

ALONE = table("alone", "v")
PARENT, CHILD = table("parent", "v"), table("child", "p", key("p", "parent", Action.CASCADE, Action.CASCADE))
CHECK = "ALTER TABLE parent ADD CONSTRAINT small CHECK (v < 100)"


def row(number: int, v: int) -> dict[str, int]:
    return {"id": number, "v": v}


@pytest.fixture
def made(target_database: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with ExitStack() as held:

        def make(**options: Any) -> Any:
            found = rig(target_database, [ALONE, PARENT, CHILD], tmp_path, statements=[CHECK], parks=True, **options)
            held.callback(found.close)
            return found

        yield make


def states(one: Any) -> dict[str, str]:
    return {
        table.name: state.state for table, state in one.applier.progress.store.tables(one.applier.progress.job).items()
    }


def let_join(one: Any, *names: str) -> None:
    """As `anabranch parked resume` does."""
    for state in list(one.applier.progress.store.tables(one.applier.progress.job).values()):
        if state.source.name in (names or ("parent", "child")):
            joining = resume(state)
            one.applier.progress.store.save_table(one.applier.progress.job, joining, state)


def join(one: Any) -> None:
    connector = source(Endpoint("mysql", "nowhere", 1, "u", "", ""))
    resolver = WindowResolver(one.applier.progress.trail, connector.order)
    targets = {followed.source: followed for followed in one.targets}
    following = Following(one.connector, RULES, TablesOf(targets), one.applier.progress.settings, resolver)
    join_loaded(one.applier, following)


def refused(one: Any) -> None:
    """Some transactions; the third has a row that the target refuses."""
    one.apply([("parent", "i", row(1, 1)), ("child", "i", {"id": 10, "p": 1})])
    one.apply(
        [("alone", "i", row(1, 1))],
        [("parent", "i", row(2, 2)), ("alone", "i", row(2, 2))],
        [("parent", "u", row(2, 2), row(2, 500)), ("alone", "i", row(3, 3))],
        [("child", "i", {"id": 20, "p": 2}), ("alone", "i", row(4, 4))],
    )


def test_rule_26_the_table_parks_with_its_foreign_keys_and_the_others_go_on(made: Callable[..., Any]) -> None:
    one = made()
    refused(one)
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"}
    rows = one.rows()
    assert sorted(rows["alone"]) == [1, 2, 3, 4] and rows["parent"] == {1: row(1, 1), 2: row(2, 2)}
    assert sorted(rows["child"]) == [10]
    found = {t.name: s for t, s in one.applier.progress.store.tables(one.applier.progress.job).items()}
    assert found["parent"].facts.resumes == found["child"].facts.resumes == 3
    assert (
        "small" in found["parent"].reason and "id = 2" in found["parent"].reason and "(at 4@" in found["parent"].reason
    )
    assert "foreign keys connect it with" in found["child"].reason
    holds = retention.readers(one.applier.progress.trail.directory)
    assert {name: hold.sequence for name, hold in holds.items()} == {"load shop.parent": 3, "load shop.child": 3}


def test_rule_15_parked_tables_go_on_where_they_stood(made: Callable[..., Any]) -> None:
    """With everything that came since, cascades among them; one by one in the log's order."""
    one = made()
    refused(one)
    one.apply([("parent", "u", row(2, 500), row(3, 500))], [("parent", "d", row(1, 1)), ("alone", "d", row(1, 1))])
    join(one)
    assert states(one)["parent"] == "parked"  # nobody has asked
    one.database.execute(f"ALTER TABLE {one.where}.parent DROP CONSTRAINT small")
    let_join(one, "parent")
    join(one)
    assert states(one)["parent"] == "loading"  # the child is not asked for yet
    let_join(one, "child")
    join(one)
    assert set(states(one).values()) == {"streaming"}
    rows = one.rows()
    assert rows["parent"] == {3: row(3, 500)} and rows["child"] == {20: {"id": 20, "p": 3}}
    assert sorted(rows["alone"]) == [2, 3, 4]
    assert not retention.readers(one.applier.progress.trail.directory)
    one.apply([("child", "i", {"id": 30, "p": 3}), ("alone", "d", row(2, 2))])
    assert sorted(one.rows()["child"]) == [20, 30] and one.applier.progress.states[CHILD.id].facts.resumes is None


def test_what_the_target_still_refuses_is_parked_again(made: Callable[..., Any]) -> None:
    one = made()
    refused(one)
    let_join(one)
    join(one)
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"}
    found = one.applier.progress.store.table(one.applier.progress.job, PARENT.id)
    assert found.reason.startswith("still refused: ") and found.facts.resumes == 3 and not found.facts.joins
    assert len(retention.readers(one.applier.progress.trail.directory)) == 2
    one.database.execute(f"ALTER TABLE {one.where}.parent DROP CONSTRAINT small")
    let_join(one)
    join(one)
    assert one.rows()["parent"][2] == row(2, 500) and set(states(one).values()) == {"streaming"}


def test_what_the_trail_does_not_reach_back_to_is_given_up(made: Callable[..., Any]) -> None:
    """A person has dropped segments after all; the others go on."""
    one = made(segment_bytes=1)
    refused(one)
    for number in (5, 6):
        one.apply([("alone", "i", row(number, number))])
    let_join(one)
    directory = one.applier.progress.trail.directory
    assert retention.drop_needed(directory, 5)
    join(one)
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"}
    found = one.applier.progress.store.table(one.applier.progress.job, PARENT.id)
    assert "does not reach back" in found.reason and found.facts.resumes is None and not retention.readers(directory)


def test_rule_15_a_crash_while_it_parks_loses_nothing(made: Callable[..., Any]) -> None:
    one = made()
    failpoints.arm({failpoints.VARIABLE: "apply.parking=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            refused(one)
    finally:
        failpoints.arm({})
    assert set(states(one).values()) == {"streaming"} and sorted(one.rows()["alone"]) == [1, 2]
    assert len(retention.readers(one.applier.progress.trail.directory)) == 2  # held for nothing is better than not
    one.applier.progress.ask_again()
    one.applier.apply(one.trail.end.position.sequence)
    assert states(one)["child"] == "parked" and sorted(one.rows()["alone"]) == [1, 2, 3, 4]


def test_a_table_whose_load_is_not_past_its_window_has_to_be_loaded_again(made: Callable[..., Any]) -> None:
    one = made()
    store, state = one.applier.progress.store, one.applier.progress.states[CHILD.id]
    store.save_table(one.applier.progress.job, open_window(state, 0, 3).with_waiting([{"id": "9"}]), state)
    one.applier.progress.ask_again()
    refused(one)
    found: TableState = store.table(one.applier.progress.job, PARENT.id)
    assert found.state == "parked" and found.facts.resumes is None


def test_a_table_that_is_loaded_to_join_goes_with_its_parent(made: Callable[..., Any]) -> None:
    """What the parent's changes do to it meanwhile would be told by nothing."""
    one = made()
    store, state = one.applier.progress.store, one.applier.progress.states[CHILD.id]
    store.save_table(one.applier.progress.job, replace(state, state=Life.LOADING, facts=Facts(joins=True)), state)
    one.applier.progress.ask_again()
    one.apply([("parent", "i", row(2, 500))])
    assert states(one) == {"alone": "streaming", "parent": "parked", "child": "parked"}


def test_without_being_asked_to_it_stops(made: Callable[..., Any]) -> None:
    one = made()
    tell(one.applier, parks=False)
    with pytest.raises(RowRefused, match="small"):
        refused(one)
    assert set(states(one).values()) == {"streaming"}
