"""Tables that join while the others stream (K15), as the load plans them; nothing is loaded here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.source.catalog import MemoryCatalog
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.errors import ConfigError
from anabranch.job import Job
from anabranch.job.watching import LoadWatcher, part
from anabranch.lifecycle.beginning import begin_trail_if_none, prepare_target
from anabranch.lifecycle.joining import Joining
from anabranch.lifecycle.joining_target import AtTarget
from anabranch.lifecycle.loading import Loading
from anabranch.lifecycle.loading_one import LoadingOne
from anabranch.load.order import Demand
from anabranch.load.plan import LoadTable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState, begin, hand_over, heard_of, park, take_out
from anabranch.state.store import StateStore
from anabranch.trail import retention

A, B = TableId("shop", "a"), TableId("shop", "b")
NUMBER = LogicalType(Kind.INT64)
PARENT = TableSchema(A, (Column("id", NUMBER, "bigint", nullable=False),), ("id",))
KEY = ForeignKey("b_a", ("id",), A, ("id",), Action.CASCADE, Action.CASCADE)
CHILD = TableSchema(B, (Column("id", NUMBER, "bigint", nullable=False),), ("id",), (), (KEY,))


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Loading]:
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "memory:///joins"\n[target]\nurl = "memory:///joined"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    job = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    for schema in (PARENT, CHILD):
        database("joins").create(schema)
    begin_trail_if_none(job)
    prepare_target(job, store())
    watcher = LoadWatcher(StateStore(job.config.home))
    yield Loading(job, None, lambda: False, watcher)  # type: ignore[arg-type]  # nobody asks the engine
    forget()


def one_of(load: Loading) -> LoadingOne:
    return LoadingOne(load.job, load.engine, load.stop, load.watcher)


def store() -> MemoryStore:
    return MemoryStore(database("joined"))


def test_a_load_that_goes_on_where_a_table_was_to_join_lets_it_join(load: Loading) -> None:
    """Whoever takes it up: without the mark the stream would take it over at once, and lose what lies between."""
    joining = heard_of(A, A, joins=True)
    asked = replace(joining, schema=PARENT)  # else nobody knows whether it was told to keep what is there
    again = replace(asked, generation=1)  # what the target has is the job's own
    first = TableState(A, A, "pending")
    for state, joins, empty in (
        (joining, True, False), (asked, True, False), (again, True, True), (first, False, False), (None, False, False)
    ):  # fmt: skip
        planned = load._load_table(PARENT, Demand(A, exact=False, together=frozenset({A, B})), state, {A: PARENT})
        assert (planned.joins, planned.empty, bool(planned.together)) == (joins, empty, not joins)


def test_what_is_in_force_without_a_state_joins_once_there_is_a_checkpoint(load: Loading) -> None:
    assert load._pending(store(), {A: PARENT})[A].facts == Facts()
    store().create_checkpoint("shop", Position(0), 0)
    assert B not in load._pending(store(), {A: PARENT, B: CHILD})  # left out, and put back: it waits for a word
    retention.hold(load.job.trail, load.job.names.table(B), 0)
    states = load._pending(store(), {A: PARENT, B: CHILD})
    assert (states[A].facts, states[B].facts) == (Facts(), Facts(joins=True))


@pytest.mark.parametrize("state", ["pending", "loading"])
def test_a_table_of_the_first_load_does_not_join(load: Loading, state: str) -> None:
    """It may have to be of one moment with others."""
    store().save_table("shop", TableState(A, A, state, 1, schema=PARENT), None)
    with pytest.raises(ConfigError, match=r"the first load of shop\.a has not finished") as told:
        one_of(load).these([A], False)
    assert told.value.hint.startswith("let it finish: anabranch load JOB;") and 'on_error = "park"' in told.value.hint


@pytest.mark.parametrize("named", [[A, B], [A]], ids=["both named", "with children"])
def test_nothing_is_taken_out_where_one_of_several_is_in_its_first_load(
    load: Loading, monkeypatch: pytest.MonkeyPatch, named: list[TableId]
) -> None:
    """The child streams without what its parent did to it between the parent's leaving and its new load; no log has that."""
    monkeypatch.setattr(MemoryCatalog, "logs_cascades", lambda self: False)
    parent = TableState(A, A, "streaming", 1, schema=PARENT)
    child = hand_over(begin(TableState(B, B, "pending", schema=CHILD), 1), "[]", "[]", 0)
    assert child.is_loaded and not child.is_joining
    for state in (parent, child):
        store().save_table("shop", state, None)
    with pytest.raises(ConfigError, match=r"the first load of shop\.b has not finished"):
        one_of(load).these(named, False, with_children=len(named) == 1)
    assert store().tables("shop") == {A: parent, B: child}


def test_nothing_is_taken_out_where_one_of_several_waits_to_be_resumed(load: Loading) -> None:
    waiting = TableState(A, A, "loading", 1, schema=PARENT, facts=Facts(loaded=True, joins=True, resumes=3))
    other = TableState(B, B, "streaming", 1, schema=CHILD)
    for state in (waiting, other):
        store().save_table("shop", state, None)
    with pytest.raises(ConfigError, match=r"shop\.a is waiting to be resumed"):
        one_of(load).these([A, B], False)
    assert store().tables("shop") == {A: waiting, B: other}


class Refused(Exception):
    """Stands for what a check of the target raises."""


@pytest.mark.parametrize("check", ["refuse_older_functions", "require_room", "refuse_other_columns"])
def test_nothing_is_taken_out_where_the_target_refuses_one_of_several(
    load: Loading, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """The memory's target refuses nothing of it: that each is asked in time is what counts here."""

    def refuse(_: AtTarget, now: TableSchema, *more: Any) -> None:
        if now.id == B:
            raise Refused

    monkeypatch.setattr(AtTarget, check, refuse)
    streams = TableState(A, A, "streaming", 1, schema=PARENT)
    store().save_table("shop", streams, None)
    with pytest.raises(Refused):
        one_of(load).these([A, B], False, keep=check == "refuse_other_columns")
    assert store().tables("shop") == {A: streams}


def test_several_are_loaded_in_the_order_of_the_keys_of_now(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the keys of before, each refusal would name the command that was just refused."""
    monkeypatch.setattr(MemoryCatalog, "logs_cascades", lambda self: False)
    now = replace(PARENT, foreign_keys=(replace(KEY, name="a_b", parent=B),))
    forget()
    for schema in (now, replace(CHILD, foreign_keys=())):
        database("joins").create(schema)
    states = {A: TableState(A, A, "parked", 1, schema=PARENT), B: TableState(B, B, "parked", 1, schema=CHILD)}
    joining = Joining(load.job, load.source, load.target, lambda: False)
    assert joining.in_order([A, B], states) == [B, A]


def test_tables_that_change_each_other_stay_where_they_are(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither could be loaded before the other."""
    monkeypatch.setattr(MemoryCatalog, "logs_cascades", lambda self: False)
    forget()
    circle = [
        replace(one, foreign_keys=(replace(KEY, parent=other, on_delete=Action.SET_NULL, on_update=Action.RESTRICT),))
        for one, other in ((PARENT, B), (CHILD, A))
    ]
    states = [TableState(one.id, one.id, "streaming", 1, schema=one) for one in circle]
    prepare_target(load.job, store())
    for schema, state in zip(circle, states, strict=True):
        database("joins").create(schema)
        store().save_table("shop", state, None)
    with pytest.raises(ConfigError, match="are not streaming") as told:
        one_of(load).these([A, B], False)
    assert "in a circle" in (told.value.hint or "")
    assert list(store().tables("shop").values()) == states


def test_what_a_table_demands_is_asked_when_its_parents_stream(load: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have come there only while it waited for them."""
    waiting = TableState(A, A, "loading", 1, schema=PARENT, facts=Facts(loaded=True, joins=True), high="[]")
    store().save_table("shop", waiting, None)
    planned: list[LoadTable] = []

    def definition(*_: Any) -> TableSchema:
        store().save_table("shop", TableState(A, A, "streaming", 1, schema=PARENT), waiting)
        return CHILD

    monkeypatch.setattr(MemoryCatalog, "logs_cascades", lambda self: False)
    monkeypatch.setattr(Joining, "definition", definition)
    monkeypatch.setattr(LoadingOne, "_load_level", lambda self, tables: planned.extend(tables))
    one_of(load).these([B], False)
    assert [(one.changed_with, one.exact, one.joins) for one in planned] == [({A}, True, True)]


def test_a_child_that_was_parked_while_it_joined_is_not_waited_for(load: Loading) -> None:
    """Its load was through, so it had all the facts of one that joins at any moment; it never would."""
    loaded = hand_over(begin(heard_of(B, B, joins=True), 1), "[]", "[]", 0)
    parked = park(loaded, "altered (while it was being loaded)")
    for state, is_waited_for in ((loaded, True), (parked, False)):
        store().save_table("shop", state, store().table("shop", B))
        looks = iter([False] * 3)
        joining = Joining(load.job, load.source, load.target, lambda looks=looks: next(looks, True))
        with part(load.job, "apply"):
            assert joining.let_out([A, B]) is not is_waited_for
        assert store().table("shop", B) == state


def test_an_apply_that_starts_may_take_a_table_out_at_the_same_moment(
    load: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load found no apply, and its own attempt then stood against a state that this one had just written."""
    followed = TableState(A, A, "streaming", 1, schema=PARENT)
    store().save_table("shop", followed, None)
    monkeypatch.setattr(Joining, "_ask_to_leave", lambda *_: store().save_table("shop", take_out(followed), followed))
    joining = Joining(load.job, load.source, load.target, lambda: False)
    assert joining.await_leaving([A])
    assert store().table("shop", A) == take_out(followed)
