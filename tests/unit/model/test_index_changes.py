"""Indexes that come, go or get another name between two definitions."""

from __future__ import annotations

from dataclasses import replace

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.index_changes import NO_CHANGES, IndexChanges, index_changes, passed_over
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.model.table_facts import NO_FACTS
from anabranch.model.table_life import Life, TableState, alter, build_again, note_built

ITEM = TableId("shop", "item")


def table(columns: str, *indexes: Index) -> TableSchema:
    int32 = LogicalType(Kind.INT32)
    return TableSchema(ITEM, tuple(Column(name, int32, "int") for name in columns.split()), ("id",), indexes)


def index(name: str, columns: str, unique: bool = False) -> Index:
    return Index(name, tuple(columns.split()), unique)


def test_what_becomes_of_indexes() -> None:
    then = table("id a b", index("i", "a"), index("j", "b"), index("u", "a b", True))
    for now, found in (
        (then, NO_CHANGES),
        (table("id a b", index("i", "a"), index("j", "b")), NO_CHANGES),  # what is unique is none of its affair
        (table("id a b", index("i", "a"), index("k", "a b")), IndexChanges(("k",), ("j",))),
        (table("id a b", index("i", "a b"), index("j", "b")), IndexChanges(("i",), ("i",))),
        (table("id a b", index("k", "a"), index("j", "b")), IndexChanges(renamed=(("i", "k"),))),
        (table("id a b", index("j", "a"), index("i", "b")), IndexChanges(("j", "i"), ("i", "j"))),
        (table("id b", index("j", "b")), IndexChanges((), ("i",))),
    ):
        assert index_changes(then, now, {}) == found
    assert index_changes(then, table("id c b", index("i", "c"), index("j", "b")), {"a": "c"}) == NO_CHANGES
    without = table("id a b", index("i", "a"), index("u", "b"), index("w", "a b", True))
    assert index_changes(then, without, {}) == IndexChanges(renamed=(("j", "u"),)), "what is unique is another kind"
    assert index_changes(then, without, {}, unique=True) == IndexChanges(renamed=(("u", "w"),))
    both = table("id a b", index("i", "a b"))
    assert index_changes(both, table("id b", index("i", "b")), {}) == IndexChanges(("i",), ("i",))


def test_indexes_are_to_be_built_until_they_are_built_or_gone() -> None:
    before, behind = table("id a", index("i", "a"), index("j", "a")), table("id a", index("j", "a"), index("k", "id a"))
    state = note_built(TableState(ITEM, ITEM, Life.STREAMING, schema=before), ["check c is not built"])
    assert state.is_built
    altered = alter(state, behind, index_changes(before, behind, {}))
    assert (
        altered.facts.adding == ("k", "j") and not altered.is_built
    )  # one over the same columns may have stood for it
    assert type(altered.facts).read(altered.facts.stored()) == altered.facts
    built = note_built(altered, ["index k is not built"])
    assert built.is_built and built.facts.not_built == ("check c is not built", "index k is not built")
    assert alter(altered, before, index_changes(behind, before, {})).facts.adding == ("j", "i")
    assert build_again(altered).facts == NO_FACTS


def test_indexes_that_come_and_are_not_followed_are_told() -> None:
    """Whatever the job file does not follow, and what is never followed: over expressions, say."""
    then = table("id a b", index("i", "a"), index("u", "b", True))
    term = Index("f", ("a",), True, kind="functional", parts=("a + 1",))
    for now, followed, found in (
        (then, NO_CHANGES, ()),
        (table("id a b", index("u", "b", True), index("v", "a", True)), NO_CHANGES, ("v",)),
        (table("id a b", index("v", "a", True)), IndexChanges(("v",)), ()),
        (table("id a b", index("w", "b", True)), IndexChanges(renamed=(("u", "w"),)), ()),
        (table("id a b", index("i", "a", True), index("u", "a b", True)), NO_CHANGES, ("i", "u")),
        (table("id a b", index("i", "a"), term), NO_CHANGES, ("f",)),
    ):
        assert passed_over(then, now, {}, followed) == found
    assert passed_over(then, table("id c b", index("i", "c"), index("u", "b", True)), {"a": "c"}, NO_CHANGES) == ()
    assert passed_over(replace(then, numbers=3), table("id a b", index("i", "b"), index("j", "a")), {}, NO_CHANGES) == (
        "j",
    )


def test_what_is_not_followed_is_never_built_until_a_later_statement_is_followed() -> None:
    """Nobody would take it off again, and a unique key refuses rows that the source has by then."""
    before, behind = table("id a", index("i", "a")), table("id a", index("i", "a"), index("u", "a", True))
    state = note_built(TableState(ITEM, ITEM, Life.STREAMING, schema=before))
    passed = alter(state, behind, passed=("u",))
    assert passed.is_built and passed.facts.passed == ("u",) and build_again(passed).facts.passed == ("u",)
    assert type(passed.facts).read(passed.facts.stored()) == passed.facts
    without = table("id a", index("u", "a", True))
    assert alter(passed, without, index_changes(behind, without, {})).facts.adding == (), "not for one that went either"
    named = table("id a", index("i", "a"), index("w", "a", True))
    assert alter(passed, named, index_changes(behind, named, {}, True)).facts.passed == ("w",)
    assert alter(passed, before).facts.passed == ()
    other = table("id a", index("i", "a"), index("u", "id a", True))
    changed = alter(passed, other, index_changes(behind, other, {}, True))
    assert changed.facts.passed == () and changed.facts.adding == ("u",)


def test_a_key_that_was_refused_and_has_gone_is_not_told_any_more() -> None:
    before, behind = table("id a", index("u", "a", True), index("u2", "a", True)), table("id a", index("u2", "a", True))
    lines = ["index u of shop.item could not be built: …", "index u2 of shop.item could not be built: …"]
    state = note_built(TableState(ITEM, ITEM, Life.STREAMING, schema=before), lines)
    assert alter(state, behind, index_changes(before, behind, {}, True)).facts.not_built == tuple(lines[1:])
