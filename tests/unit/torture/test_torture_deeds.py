"""What an operator does in a history: drawn from the seed, done only to tables to which it may be done, judged with the tables
that are away left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from test_torture_check import LAST, checker, seen, state, with_lines

from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey, TableSchema
from anabranch.testing.torture.check import BACK, WRONG
from anabranch.testing.torture.deeds import PARK, RELOAD, REWIND, SHARE, draw_deed, reloadable
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.watcher import Observation


def test_every_kind_is_drawn_in_its_share_of_the_histories() -> None:
    drawn = [deed for seed in range(2000) if (deed := draw_deed(seed))]
    assert abs(len(drawn) / 2000 - SHARE) < 0.05
    kinds = Counter(deed.kind for deed in drawn)
    assert kinds.keys() == {RELOAD, REWIND, PARK} and min(kinds.values()) > len(drawn) / 5
    assert draw_deed(7) == draw_deed(7)


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
