"""What an operator does in a history: drawn from the seed, done only to tables to which it may be done, judged with the tables
that are away left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from anabranch.failpoints import POINTS
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey, TableSchema
from anabranch.testing.torture.check import BACK, WRONG
from anabranch.testing.torture.deeds import (
    CONFLICT,
    KINDS,
    PLACES,
    POLICY,
    SET_ASIDE,
    SHARE,
    deed_faults,
    draw_deed,
    reloadable,
)
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.schemas import may_be_written_to
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.watcher import Observation
from rigs.torture_history import LAST, checker, seen, state, with_lines


def test_every_kind_is_drawn_in_its_share_of_the_histories() -> None:
    drawn = [deed for seed in range(2000) if (deed := draw_deed(seed)) and deed.kind != POLICY]
    assert abs(len(drawn) / 2000 - SHARE) < 0.05
    kinds = Counter(deed.kind for deed in drawn)
    assert kinds.keys() == set(KINDS) and min(kinds.values()) > len(drawn) / 8
    assert draw_deed(7) == draw_deed(7)


def test_half_of_those_about_single_rows_have_an_exit_where_they_alone_come() -> None:
    for kind in (CONFLICT, SET_ASIDE):
        seeds = [seed for seed in range(3000) if (deed := draw_deed(seed)) and deed.kind == kind]
        faults = [fault for seed in seeds for fault in deed_faults(seed)]
        assert {fault.where for fault in faults} == set(PLACES[kind]) <= POINTS.keys()
        assert 0.35 < len(faults) / len(seeds) < 0.65
    assert not any(deed_faults(seed) for seed in range(300) if draw_deed(seed) is None)


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_an_intruder_has_a_table_that_no_foreign_key_connects_with_others(family: str) -> None:
    has_one = 0
    for seed in range(60):
        history = draw_history(seed, family, (10, 11), apart=True)
        assert not any(history.images)
        tables = may_be_written_to(history.schema)
        assert all(t.key and not t.foreign_keys and not any(history.schema.references(t.name)) for t in tables)
        has_one += bool(tables)
    assert has_one > 50  # else every table with a key has one that ignores case
    assert any(not may_be_written_to(draw_history(seed, family, (10, 11)).schema) for seed in range(60))


def table(name: str, *parents: str) -> tuple[TableId, TableSchema]:
    keys = tuple(
        ForeignKey(f"to_{p}", ("p",), TableId("s", p), ("id",), Action.CASCADE, Action.RESTRICT) for p in parents
    )
    return TableId("s", name), TableSchema(TableId("s", name), (), ("id",), foreign_keys=keys)


def test_only_tables_that_no_foreign_key_reaches_over_another_are_loaded_again() -> None:
    """b and c go along with a, and c is reached over b; a tree is reached over itself."""
    alone, a, b, c, tree, ledger = (
        table("alone"), table("a"), table("b", "a"), table("c", "b"), table("tree", "tree"), table(LEDGER)
    )  # fmt: skip
    assert [t.name for t in reloadable(dict([alone, a, b, tree, ledger]))] == ["a", "alone", "b"]
    assert [t.name for t in reloadable(dict([alone, a, b, c]))] == ["alone"]


def kind(observations: list[Observation]) -> str:
    failure = checker().observed(observations)
    return failure.kind if failure else ""


def test_of_tables_that_are_away_nothing_is_asked() -> None:
    torn = with_lines(state(2), "parent", *state(1)["parent"])
    (one, last) = seen(torn, LAST)
    assert kind([one, last]) == WRONG
    assert checker().observed([replace(one, away=frozenset({"parent"})), last]) is None
    assert kind([replace(one, away=frozenset({"child"})), last]) == WRONG


def test_without_the_ledger_nothing_can_be_asked_but_what_comes_behind() -> None:
    one, back, last = seen(state(4), state(2), LAST)
    away = replace(back, away=frozenset({LEDGER}))
    assert kind([one, back, last]) == BACK
    assert checker().observed([one, away, last]) is None
    again = replace(back, number=4)
    assert kind([one, away, again, last]) == BACK
