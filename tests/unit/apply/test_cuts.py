"""How many stages an epoch takes where parents move and go (K1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.apply.plan import group, stages
from anabranch.model.schema import Action
from rigs.chunks import INT, chunk_of, context, reference, schema

BOTH = (Action.CASCADE, Action.CASCADE)
TABLES = [
    schema("top", {"id": INT}, ["id"]),
    schema("middle", {"id": INT}, ["id"], [reference(["id"], "top", *BOTH)]),
    schema("low", {"id": INT, "mid": INT}, ["id"], [reference(["mid"], "middle", *BOTH)]),
    schema("leaf", {"id": INT, "lid": INT}, ["id"], [reference(["lid"], "low", *BOTH)]),
    schema("other", {"id": INT}, ["id"]),
    schema("far", {"id": INT, "oid": INT}, ["id"], [reference(["oid"], "other", *BOTH)]),
]

Change = tuple[Any, ...]


def row(name: str, number: int) -> dict[str, int]:
    return {"id": number, "mid": 1} if name == "low" else {"id": number}


def move(name: str, old: int, new: int) -> Change:
    return (name, "u", row(name, old), row(name, new))


def removal(name: str, number: int) -> Change:
    return (name, "d", row(name, number))


def test_a_key_that_was_declared_twice_acts_once() -> None:
    """What it moved would be moved again."""
    twice = [reference(["pid"], "p", *BOTH), reference(["pid"], "p", *BOTH)]
    tables = [schema("p", {"id": INT}, ["id"]), schema("c", {"id": INT, "pid": INT}, ["id"], twice)]
    assert len(context(tables).cascades) == 1


def number_of_stages(changes: Sequence[Change]) -> int:
    whole = context(TABLES)
    return len(stages(group([chunk_of([changes], TABLES)], whole), whole))


@pytest.mark.parametrize(
    "changes",
    [
        [move("top", 1, 2), removal("top", 2)],
        [move("top", 1, 2), move("top", 2, 3)],
        [move("low", 1, 2), removal("top", 1)],
        [removal("top", 1), move("low", 1, 2)],
        [move("middle", 1, 2), move("top", 5, 6)],
    ],
    ids=[
        "moves and goes",
        "moves twice",
        "moves, its parent goes",
        "its parent goes, it moves",
        "moves, its parent moves",
    ],
)
def test_what_follows_a_parent_is_alone_in_its_stage(changes: Sequence[Change]) -> None:
    """A removal takes what hangs on a row by the value that it has; a value between two moves is nowhere."""
    assert number_of_stages(changes) == 2


@pytest.mark.parametrize(
    "changes",
    [
        [move("top", n, n + 1) for n in range(50, 0, -1)],
        [removal("top", n) for n in range(50)],
        [move("other", 1, 2), removal("top", 1), move("other", 3, 4)],
        [move("low", 1, 2), move("top", 1, 2)],
    ],
    ids=["each moves once", "all go", "nothing in common", "the value below stays"],
)
def test_changes_that_do_not_meet_are_one_stage(changes: Sequence[Change]) -> None:
    assert number_of_stages(changes) == 1
