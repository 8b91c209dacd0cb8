"""The order of net changes that foreign keys accept (K7): tables by rank, parts of those that others refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.order import KeyOrder, key_order
from anabranch.apply.plan import group, stages
from anabranch.apply.stage import Stage
from anabranch.errors import TargetError
from anabranch.model.schema import Action, TableSchema
from anabranch.rows.keys import EnforcedKey
from anabranch.rows.net import TableNet
from rigs.chunks import INT, chunk_of, followed, reference, schema, table_id

CASCADE, RESTRICT = Action.CASCADE, Action.RESTRICT
A = schema("top", {"id": INT, "v": INT}, ["id"])
B = schema("middle", {"id": INT, "a": INT}, ["id"], [reference(["a"], "top", CASCADE, CASCADE)])
C = schema("leaf", {"id": INT, "b": INT}, ["id"], [reference(["b"], "middle", RESTRICT)])
TREE = schema("tree", {"id": INT, "up": INT}, ["id"], [reference(["up"], "tree", RESTRICT)])
ALL = (C, B, A, TREE)


def of(schemas: Sequence[TableSchema], *enforced: EnforcedKey) -> ApplyContext:
    tables = {one.id: followed(one) for one in schemas}
    targets = {table: one.table for table, one in tables.items()}
    keys = key_order({one.id: one for one in schemas}, targets, enforced)
    return ApplyContext(tables, rules_of(tables), keys=keys)


def stage(context: ApplyContext, *changes: tuple) -> Stage:
    chunk = chunk_of([changes], [one.schema for one in context.tables.values()])
    (found,) = stages(group([chunk], context), context)
    return found


def told(nets: Sequence[TableNet]) -> Iterator[str]:
    for net in nets:
        parts = {"delete": net.deletes, "insert": net.inserts, "multiset": net.multiset}
        kinds = [name for name, part in parts.items() if part is not None]
        kinds += ["move" if one.moves_keys else "update" for one in net.updates]
        yield f"{net.table.source.name}: {', '.join(sorted(kinds))}"


def test_rows_come_before_their_children_and_go_after_them() -> None:
    changes: list[tuple] = []
    for name, column in (("top", "v"), ("middle", "a"), ("leaf", "b"), ("tree", "up")):
        changes += [
            (name, "d", {"id": 1, column: 0}),
            (name, "i", {"id": 2, column: 0}),
            (name, "u", {"id": 3, column: 0}, {"id": 3, column: 1}),
            (name, "u", {"id": 4, column: 0}, {"id": 5, column: 0}),
        ]
    logged = replace(of(ALL), cascades=())  # the log has what the keys did: nothing cuts the stage
    found = list(told(stage(logged, *changes).nets))
    assert [one for one in found if not one.startswith("tree")] == [
        "top: insert",
        "middle: insert",
        "top: move, update",
        "middle: move, update",
        "leaf: delete, insert, move, update",
        "middle: delete",
        "top: delete",
    ]
    assert [one for one in found if one.startswith("tree")] == [
        f"tree: {part}" for part in ("insert", "move, update", "delete")
    ]


def test_rows_that_refer_to_each_other_are_told() -> None:
    nets = stage(of(ALL), ("tree", "i", {"id": 2, "up": 1}), ("top", "i", {"id": 1, "v": 1})).nets
    assert {net.table.source.name: net.refers_to_itself for net in nets} == {"tree": True, "top": False}


def test_a_circle_has_one_rank_and_keys_of_the_target_count() -> None:
    own = EnforcedKey("own", table_id("top"), ("v",), table_id("leaf"), ("id",))
    assert of(ALL).keys == replace(of(ALL).keys or KeyOrder(), acting={table_id("top"): frozenset({"id"})})
    ranks = (of(ALL).keys or KeyOrder()).ranks
    assert ranks[A.id] < ranks[B.id] < ranks[C.id]
    ring = of(ALL, own).keys or KeyOrder()
    assert len({ring.ranks[one.id] for one in (A, B, C)}) == 1 and C.id in ring.inner


@pytest.mark.parametrize("on_delete", [Action.SET_NULL, Action.SET_DEFAULT])
def test_a_key_that_would_lose_rows_is_refused(on_delete: Action) -> None:
    own = EnforcedKey("own", table_id("middle"), ("a",), table_id("top"), ("id",), on_delete, CASCADE)
    with pytest.raises(TargetError, match=r"own of shop\.middle is ON DELETE SET"):
        of(ALL, own)
    of(ALL, replace(own, on_delete=CASCADE))
    of(ALL, replace(own, child=table_id("not_ours")))


@pytest.mark.parametrize("moves", [((2, 3), (1, 2)), ((1, 9), (2, 1), (9, 2))], ids=["chain", "swap"])
def test_what_one_parent_leaves_and_another_takes_goes_row_by_row(moves: Sequence[tuple[int, int]]) -> None:
    """Without keys in force they would be deletes and inserts of whole rows."""
    changes = [("top", "u", {"id": old, "v": 0}, {"id": new, "v": 0}) for old, new in moves]
    with pytest.raises(NeedsSlowWay):
        stage(of(ALL), *changes)


def test_values_beside_the_key_that_change_parents_go_row_by_row() -> None:
    top = schema("top", {"id": INT, "v": INT}, ["id"])
    child = schema("child", {"id": INT, "v": INT}, ["id"], [reference(["v"], "top", RESTRICT, CASCADE, ("v",))])
    moves = ((1, 1, 9), (2, 2, 1), (1, 9, 2))
    changes = [("top", "u", {"id": row, "v": old}, {"id": row, "v": new}) for row, old, new in moves]
    with pytest.raises(NeedsSlowWay, match="from one parent to another"):
        stage(of((top, child)), *changes)


def test_equal_rows_of_a_table_without_a_key_come_and_go() -> None:
    heap = schema("heap", {"v": INT, "w": INT}, [])
    child = schema("child", {"id": INT, "v": INT}, ["id"], [reference(["v"], "heap", RESTRICT, to=("v",))])
    nets = stage(of((heap, child)), ("heap", "i", {"v": 1, "w": 0}), ("heap", "d", {"v": 2, "w": 0})).nets
    assert [pa.table(net.multiset).column("_delta").to_pylist() for net in nets if net.multiset] == [[1], [-1]]
