"""A table's life: every step begins where it may and nowhere else; what releases before have stored is read as it was meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StateError
from anabranch.model import table_life
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_facts import NO_FACTS, Facts, ParkedFor
from anabranch.model.table_life import STEPS, Life, Step, TableState, heard_of, read_stored

TABLE = TableId("shop", "goods")
SCHEMA = TableSchema(TABLE, (), ())
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "take_over": (SCHEMA, TABLE),
    "create": (SCHEMA, TABLE),
    "prepare": (SCHEMA, TABLE),
    "vouch": (SCHEMA, TABLE, "{}", ("a place", "me", "now"), True),
    "begin": (2,),
    "hand_over": ("[]", "[]", 3),
    "open_window": (3, 9),
    "begin_altering": (7,),
    "begin_altering_behind": (7,),
    "ask": ("it waits for a decision", 7, True),
    "decide": ("apply", "me"),
    "keep_rows": ("me",),
    "build_all": (SCHEMA,),
    "catch_up": (8,),
    "alter": (SCHEMA,),
    "rename": (SCHEMA, TABLE),
    "rename_behind": (SCHEMA, TABLE, 8),
    "park": ("said so",),
    "wait_for_load": ("the file changed", True),
    "refuse_to_resume": ("still a string",),
}
FACTS = (
    True,
    True,
    True,
    True,
    True,
    ("key a",),
    ParkedFor.LOAD,
    0,
    4,
    (3, 9),
    ({"id": None},),
    2,
    1,
    7,
    8,
    ("apply", "me"),
    ("5@b.1:7", "me", "now"),
    ("by_v",),
    ("positive",),
    ("of_parent",),
    ("by_c",),
    ("note",),
)
FULL = Facts(*FACTS, {"later": "x"})


def take(step: Step, state: TableState | None) -> TableState:
    found: Callable[..., TableState] = getattr(table_life, step.name)
    return found(state, *ARGUMENTS.get(step.name, ()))


def at(place: Life | None, facts: Facts = NO_FACTS) -> TableState | None:
    return (
        None if place is None else TableState(TABLE, TABLE, place, 1, "[1]", "[2]", "why", schema=SCHEMA, facts=facts)
    )


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_leads_where_the_picture_says_and_begins_nowhere_else(step: Step) -> None:
    assert step.what, "the picture has a sentence for each"
    for place in (None, *Life):
        if place in step.before:
            assert take(step, at(place)).state is step.after
            assert take(step, at(place, FULL)).facts.others == FULL.others or step.name in (
                "prepare",
                "take_over",
                "create",
                "vouch",
            )
        else:
            with pytest.raises(StateError, match=step.name):
                take(step, at(place))


def test_every_state_is_reached_and_left() -> None:
    assert {step.after for step in STEPS} == set(Life)
    assert {place for step in STEPS for place in step.before if place is not step.after} >= set(Life)


def test_a_table_that_is_parked_is_nothing_else() -> None:
    for facts in (NO_FACTS, FULL):
        state = at(Life.PARKED, facts)
        assert state is not None and state.is_parked and state.is_at_rest
        found = (
            state.is_streaming,
            state.is_followed,
            state.is_joining,
            state.is_loaded,
            state.is_open,
            state.is_built,
        )
        assert not any(found)


def test_every_state_is_open_or_on_its_way_or_parked() -> None:
    """Whatever its facts are: no table is forgotten between the load and apply."""
    for place in Life:
        for loaded in (False, True):
            state = at(place, Facts(loaded=loaded))
            assert state is not None
            assert [state.is_open, state.is_on_its_way, state.is_parked].count(True) == 1


def test_a_table_that_joins_is_not_followed_before_it_has_arrived() -> None:
    joining = table_life.hand_over(table_life.begin(heard_of(TABLE, TABLE, joins=True), 1), "[1]", "[2]", 3)
    assert joining.is_joining and joining.is_loaded and not joining.is_followed
    arrived = table_life.arrive(joining)
    assert arrived.is_followed and arrived.low == "[1]" and table_life.stream(arrived).low == ""


def test_who_gives_up_its_place_while_it_is_about_to_resume_stays_parked() -> None:
    """Without it the table would join with all that it had missed left out."""
    parked = table_life.park(at(Life.STREAMING), "refused", resumes=7)
    resuming = table_life.resume(parked)
    assert resuming.is_resuming and resuming.is_joining and resuming.is_at_rest
    given_up = table_life.give_up_place(resuming)
    assert given_up.is_parked and (given_up.facts.resumes, given_up.facts.joins) == (None, False)


@pytest.mark.parametrize("step", ["wait_for_load", "take_out", "park", "give_up_place", "begin"])
def test_who_needs_a_load_waits_for_no_decision(step: str) -> None:
    state = at(Life.PARKED, replace(FULL, stood=4))
    assert state is not None
    facts = getattr(table_life, step)(state, *ARGUMENTS.get(step, ())).facts
    assert (facts.asked, facts.decided) == (None, ())
    assert facts.stood is None, "nor does it go on from a place with its rows"
    assert facts.altering is None or step in ("give_up_place", "begin")  # those follow a step that forgets it


def test_a_load_that_begins_anew_is_not_handed_over() -> None:
    state = at(Life.LOADING, Facts(loaded=True))
    assert state is not None and state.is_handed_over(1) and not table_life.begin(state, 2).is_handed_over(2)


# --- stored forms -----------------------------------------------------------------------------------------------------


def test_facts_come_back_as_they_were_stored() -> None:
    assert Facts.read(FULL.stored()) == FULL and Facts.read({}) is NO_FACTS and NO_FACTS.stored() == {}
    assert set(FULL.stored()) == {one.name for one in fields(Facts)} - {"others"} | {"later"}


@given(
    st.builds(
        Facts,
        not_built=st.lists(st.text()).map(tuple),
        resumes=st.none() | st.integers(0),
        window=st.none() | st.tuples(st.integers(0), st.integers(0)),
        reread=st.lists(st.dictionaries(st.text(), st.none() | st.text())).map(tuple),
        set_aside=st.integers(0),
        conflicts=st.integers(0),
        altering=st.none() | st.integers(0),
    )
)
def test_any_facts_come_back_as_they_were_stored(facts: Facts) -> None:
    assert Facts.read(facts.stored()) == facts


OLD: list[tuple[str, str, dict[str, str], Facts]] = [
    ("pending", "", {"joins": "yes", "kept": "yes"}, Facts(joins=True, kept=True)),
    ("loading", "", {"loaded": "yes", "window": "3,9"}, Facts(loaded=True, window=(3, 9))),
    ("loading", "", {"loaded": "yes", "reread": '[{"id": "9"}]'}, Facts(loaded=True, reread=({"id": "9"},))),
    (
        "streaming",
        "",
        {"built": "yes", "analyzed": "yes", "not_built": '["key a"]', "conflicts": "2"},
        Facts(built=True, not_built=("key a",), conflicts=2, others={"analyzed": "yes"}),
    ),
    ("parked", "refused (at 7)", {"resumes": "7", "set_aside": "1"}, Facts(resumes=7, set_aside=1)),
    ("parked", "dropped at the source, or renamed there: no …", {}, Facts(parked_for=ParkedFor.DROPPED)),
    (
        "parked",
        "it is to be loaded again: anabranch load JOB --table shop.goods",
        {},
        Facts(parked_for=ParkedFor.LOAD),
    ),
]


@pytest.mark.parametrize(("state", "reason", "facts", "expected"), OLD)
def test_a_state_of_the_release_before_is_read(state: str, reason: str, facts: dict[str, str], expected: Facts) -> None:
    assert read_stored(state, reason, facts) == (Life(state), expected)


def test_words_tell_nothing_of_a_table_that_streams() -> None:
    assert read_stored("streaming", "dropped at the source", {}) == (Life.STREAMING, NO_FACTS)


@pytest.mark.parametrize(
    ("state", "facts"), [("archived", {}), ("parked", {"parked_for": "a change"}), ("loading", {"window": "3"})]
)
def test_what_only_a_later_release_can_have_written_is_refused(state: str, facts: dict[str, str]) -> None:
    with pytest.raises(StateError, match="the state of a table cannot be read") as told:
        read_stored(state, "", facts)
    assert told.value.hint == "a later release has written it: use that one"


def test_what_is_counted_changes_nothing_else() -> None:
    state = at(Life.STREAMING, FULL)
    assert state is not None
    changed = state.counted(3).with_conflict().with_aside(2).with_aside(-9).with_waiting([])
    facts = replace(FULL, conflicts=2, set_aside=0, reread=())
    assert changed == replace(state, changes_applied=3, facts=facts)
