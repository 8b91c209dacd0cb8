"""Epochs at a real PostgreSQL of which some foreign keys act and others do not stand: while they are built, where a table
joins, where one cannot be built. What the target does by itself then ends half-way (K7)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.errors import RowRefused
from anabranch.model.schema import Action, TableSchema
from rigs.foreign_keys_postgresql import Rig, Source, key, ordinary_user, rig, table, transaction

RESTRICT, CASCADE, SET_NULL = Action.RESTRICT, Action.CASCADE, Action.SET_NULL
KEYS = {
    "middle": "fk_id",
    "bottom": "fk_m",
    "leaf": "fk_b",
    "top": "fk_r",
    "side": "fk_t",
    "tree": "fk_up",
    "nest": "fk_w",
}


@pytest.fixture
def plain(target_database: Any) -> Iterator[str]:
    with ordinary_user(target_database) as user:
        yield user


def circle(middle: Action, bottom: Action, bottom_moves: Action, leaf: Action) -> list[TableSchema]:
    """A child whose key is its parent's, children of it and of these, and a key from the top to the bottom; a tree."""
    return [
        table("top", "r v", key("r", "bottom", SET_NULL)),
        table("middle", "v", key("id", "top", middle, CASCADE)),
        table("bottom", "m v", key("m", "middle", bottom, bottom_moves)),
        table("leaf", "b v", key("b", "bottom", leaf, CASCADE)),
        table("side", "t v", key("t", "top", CASCADE, SET_NULL)),
        table("tree", "up v", key("up", "tree", CASCADE)),
        table("nest", "w v", key("w", "tree", leaf, bottom_moves)),
    ]


def without(where: str, *tables: str) -> list[str]:
    return [f"ALTER TABLE keys_{where}.{name} DROP CONSTRAINT {KEYS[name]}" for name in tables]


def carried_out(source: Source, *rigs: Rig) -> None:
    for one in rigs if source.done else ():
        one.apply(*source.done)
        assert one.rows() == source.rows, one.where
    source.done = []


def filled(tables: list[TableSchema], numbers: range) -> Source:
    source = Source(tables)
    for n in numbers:
        source.insert("top", id=n, r=None, v=0)
        source.insert("middle", id=n, v=0)
        source.insert("bottom", id=n, m=n, v=0)
        source.insert("leaf", id=n, b=n, v=0)
        source.insert("side", id=n, t=n, v=0)
        source.update("top", n, r=n)
        source.insert("tree", id=n, up=n - 1 if n - 1 in source.rows["tree"] else n, v=0)
        source.insert("nest", id=n, w=n, v=0)
    source.commit()
    return source


@pytest.mark.parametrize("size", [2, 40])
@pytest.mark.parametrize("moves", [SET_NULL, CASCADE], ids=["233", "322"])
def test_torture_seed_233_322_parents_move_and_the_key_below_does_not_stand(
    target_database: Any, plain: str, tmp_path: Path, moves: Action, size: int
) -> None:
    tables = circle(CASCADE, CASCADE, moves, CASCADE)
    one = rig(target_database, tables, tmp_path, plain, statements=without("on", "bottom"))
    source = filled(tables, range(1, size))
    carried_out(source, one)
    for n in range(1, size):
        source.update("top", n, id=n + 1000)
    source.commit()
    carried_out(source, one)
    assert {row["m"] for row in source.rows["bottom"].values()} == (
        {None} if moves is SET_NULL else {n + 1000 for n in range(1, size)}
    )
    one.close()


@pytest.mark.parametrize("size", [3, 40])
def test_parents_of_a_circle_go_while_others_move(target_database: Any, plain: str, tmp_path: Path, size: int) -> None:
    """One of them moves first, and goes then; a child is put under a value that is left."""
    tables = circle(CASCADE, CASCADE, CASCADE, CASCADE)
    one = rig(target_database, tables, tmp_path, plain, statements=without("on", "leaf", "bottom"))
    source = filled(tables, range(1, 2 * size))
    carried_out(source, one)
    for n in range(1, size):
        source.update("top", n, id=n + 1000)
        source.delete("top", n + 1000)
        source.insert("side", id=n + 500, t=n + size, v=0)
        source.update("top", n + size, id=n + 2000)
    source.commit()
    carried_out(source, one)
    one.close()


@pytest.mark.parametrize("size", [3, 40])
def test_torture_seed_623_634_907_a_tree_goes_and_the_key_to_it_does_not_stand(
    target_database: Any, plain: str, tmp_path: Path, size: int
) -> None:
    """A row that is its own parent, and all below it, of which each has a child."""
    tables = circle(CASCADE, CASCADE, CASCADE, CASCADE)
    one = rig(target_database, tables, tmp_path, plain, statements=without("on", "nest"))
    source = filled(tables, range(1, size))
    carried_out(source, one)
    source.update("tree", 2, v=1)
    source.delete("tree", 1)
    source.commit()
    carried_out(source, one)
    assert not source.rows["tree"] and not source.rows["nest"]
    one.close()


@pytest.mark.parametrize("missing", [(), ("side",)], ids=["stands", "missing"])
def test_torture_seed_1371_a_removal_is_logged_that_a_key_had_done(
    target_database: Any, plain: str, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    """MySQL's DELETE of several tables: the parent goes, the child with it, and then the log has the child's own removal."""
    tables = circle(CASCADE, CASCADE, CASCADE, CASCADE)
    one = rig(target_database, tables, tmp_path, plain, statements=without("on", *missing))
    source = filled(tables, range(1, 4))
    carried_out(source, one)
    child = source.rows["side"][1]
    source.delete("top", 1)
    source.log.append(("side", "d", child))
    source.commit()
    carried_out(source, one)
    source.log.append(("side", "d", child))
    source.commit()
    with pytest.raises(RowRefused, match="the row is not there"):
        one.apply(*source.done)
    one.close()


# --- any history ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.one_case("0", "1", "2", "3")
def test_rule_07_any_history_with_any_of_the_keys(
    target_database: Any, plain: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where some of the keys act, and where all are off; rows alone, and by staging tables."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", seed % 2 * merge_rows.FEW_ROWS)
    pick = random.Random(seed)
    removes, moves = (CASCADE, CASCADE, SET_NULL), (CASCADE, SET_NULL)
    tables = circle(CASCADE, pick.choice(removes), pick.choice(moves), pick.choice(removes))
    missing = pick.sample(sorted(KEYS), pick.randrange(1, 6))
    rigs = [
        rig(target_database, tables, tmp_path, plain, "part", without("part", *missing)),
        rig(target_database, tables, tmp_path, "", "off"),
    ]
    source = filled(tables, range(1, 6))
    for _ in range(12):
        for _ in range(pick.randrange(1, 12)):
            transaction(source, pick, moves=0.2)
        carried_out(source, *rigs)
    for one in rigs:
        one.close()
