"""Any history of tables with foreign keys, as one epoch: what is merged and where it is cut ends as at the source (K1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from anabranch.apply.context import ApplyContext
from anabranch.apply.order import key_order
from anabranch.apply.plan import group, stages
from anabranch.apply.row_steps import steps
from anabranch.apply.stage import RemovedByKeys
from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows.net import RowChange
from rigs.chunks import INT, chunk_of, context, schema
from rigs.foreign_keys import (
    CASCADE,
    RESTRICT,
    SET_NULL,
    Change,
    History,
    Row,
    foreign_key,
    replayed,
    table,
)
from rigs.foreign_keys_drawn import drawn
from rigs.foreign_keys_memory import minimal, outcome

HISTORIES = 150


@pytest.mark.parametrize("part", range(4))
def test_rule_01_any_history_of_any_foreign_keys(part: int) -> None:
    """Full images, and minimal ones."""
    seen = quick = 0
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        history = replayed(*drawn(seed))
        found = outcome(history, part % 2 == 1) if history and history.changes else None
        if history is not None and found is not None:
            assert found.rows == history.end, f"drawn({seed})"
            seen += 1
            quick += found.stages > 0
    assert seen > HISTORIES / 2 and quick > 0.8 * seen


def rows(name: str, *some: Row) -> list[Change]:
    return [(name, "i", row) for row in some]


def ended(schemas: Sequence[TableSchema], start: Sequence[Change], *changes: Change) -> tuple[History, int]:
    history = replayed(schemas, start, changes)
    assert history is not None
    found = outcome(history)
    assert found is not None and found.rows == history.end
    return history, found.stages


TOP = table("top", "id", "id")
CHILD = table("child", "pid n", "pid n", keys=[foreign_key("1", "pid", "top", "id", CASCADE, CASCADE)])
LOW = table("low", "pid n", "pid n", keys=[foreign_key("1", "pid n", "child", "pid n", CASCADE, CASCADE)])
TWICE = table(
    "both",
    "a b",
    "a b",
    keys=[foreign_key(name, name, "top", "id", CASCADE, CASCADE) for name in "ab"],
)
BELOW = table("below", "a b z", "z", keys=[foreign_key("1", "a b", "both", "a b", CASCADE, CASCADE)])
TWO = [*rows("top", {"id": 1}, {"id": 2}), *rows("child", {"pid": 1, "n": 7}, {"pid": 2, "n": 7})]
CHAIN: list[Change] = [("top", "u", {"id": 2}, {"id": 3}), ("top", "u", {"id": 1}, {"id": 2})]


@pytest.mark.parametrize(
    "change", [("child", "d", {"pid": 2, "n": 7}), ("low", "i", {"pid": 2, "n": 7})], ids=["child", "below the child"]
)
def test_a_value_that_one_parent_leaves_and_another_comes_to_is_of_two_rows(change: Change) -> None:
    """(2, 7) is another row before the moves than after them."""
    _, stages = ended([TOP, CHILD, LOW], TWO, *CHAIN, change)
    assert stages == 2


def test_a_chain_of_parents_is_one_stage() -> None:
    many = range(50, 0, -1)
    start = [*rows("top", *({"id": n} for n in many)), *rows("child", *({"pid": n, "n": 7} for n in many))]
    history, stages = ended([TOP, CHILD], start, *[("top", "u", {"id": n}, {"id": n + 1}) for n in many])
    assert stages == 1 and len(history.end["child"]) == 50


def test_rows_that_hang_on_one_table_twice_follow_one_parent_after_the_other() -> None:
    start = [
        *rows("top", {"id": 1}, {"id": 2}),
        *rows("both", {"a": 1, "b": 2}),
        *rows("below", {"a": 1, "b": 2, "z": 1}),
    ]
    put: Change = ("below", "i", {"a": 3, "b": 2, "z": 2})
    _, stages = ended(
        [TOP, TWICE, BELOW], start, ("top", "u", {"id": 1}, {"id": 3}), put, ("top", "u", {"id": 2}, {"id": 4})
    )
    assert stages == 2


def test_what_one_key_clears_and_another_takes_along() -> None:
    """Whichever is first."""
    other = table("other", "id", "id")
    low = table(
        "low",
        "id x",
        "id",
        keys=[
            foreign_key("1", "x", "top", "id", SET_NULL, RESTRICT),
            foreign_key("2", "x", "other", "id", CASCADE, RESTRICT),
        ],
    )
    start = [*rows("top", {"id": 1}), *rows("other", {"id": 1}, {"id": 9}), *rows("low", {"id": 5, "x": 1})]
    gone: list[Change] = [("other", "d", {"id": 9}), ("top", "d", {"id": 1}), ("other", "d", {"id": 1})]
    history, _ = ended([TOP, other, low], start, *gone)
    assert history.end["low"] == [("5", "None")]
    history, _ = ended([TOP, other, low], start, *reversed(gone))
    assert history.end["low"] == []


def test_a_row_goes_whose_own_children_a_key_is_about_to_clear() -> None:
    """Its parent's removal clears it, and what refers to the cleared column; then the row goes by itself."""
    unit = table("unit", "id u", "id", ["u"], [foreign_key("1", "u", "top", "id", SET_NULL, RESTRICT)])
    low = table("low", "id x", "id", keys=[foreign_key("1", "x", "unit", "u", SET_NULL, CASCADE)])
    start = [*rows("top", {"id": 2}), *rows("unit", {"id": 2, "u": 2}), *rows("low", {"id": 2, "x": 2})]
    history, stages = ended([TOP, unit, low], start, ("top", "d", {"id": 2}), ("unit", "d", {"id": 2, "u": None}))
    assert history.end["low"] == [("2", "None")] and stages == 2


def test_minimal_images_put_a_part_of_a_key_under_what_goes() -> None:
    both = table("both", "a b", "a b", keys=[foreign_key("1", "a", "top", "id", CASCADE, CASCADE)])
    low = table("low", "id a b", "id", keys=[foreign_key("1", "a b", "both", "a b", SET_NULL, CASCADE)])
    start = [*rows("top", {"id": 2}), *rows("both", {"a": 2, "b": 2}), *rows("low", {"id": 1, "a": 2, "b": 2})]
    put: Change = ("low", "u", {"id": 1, "a": None, "b": None}, {"id": 1, "a": 2, "b": None})
    history = replayed([TOP, both, low], start, [("top", "d", {"id": 2}), put])
    assert history is not None and history.end["low"] == [("1", "2", "None")]
    found = outcome(history, is_minimal=True)
    assert found is not None and found.rows == history.end and found.stages == 2


# --- where keys of the target act --------------------------------------------------------------------------------------


UNIT = table("unit", "id u", "id", ["u"])
UNDER = table("low", "id x", "id", keys=[foreign_key("1", "x", "unit", "u", CASCADE, CASCADE)])
WIDE = table("top", "a b", "a b")
HERE = table("here", "a id b", "a id", keys=[foreign_key("1", "a b", "top", "a b", CASCADE, CASCADE)])
PART = table("low", "id a h", "id", keys=[foreign_key("1", "a h", "top", "a b", CASCADE, CASCADE)])


def acting(schemas: Sequence[TableSchema]) -> ApplyContext:
    whole = context(schemas)
    targets = {source: followed.table for source, followed in whole.tables.items()}
    return replace(whole, keys=key_order({one.id: one for one in schemas}, targets, []))


@pytest.mark.parametrize(
    ("tables", "changes", "is_minimal"),
    [
        ([UNIT, UNDER], [("unit", "d", {"id": 1, "u": 4}), ("unit", "i", {"id": 1, "u": 9})], False),
        (
            [UNIT, UNDER],
            [("unit", "u", {"id": 1, "u": 4}, {"id": 1, "u": None}), ("unit", "d", {"id": 1, "u": None})],
            False,
        ),
        (
            [WIDE, HERE],
            [("here", "d", {"a": 1, "id": 7, "b": 1}), ("top", "u", {"a": 1, "b": 1}, {"a": 2, "b": 1})],
            False,
        ),
        (
            [WIDE, PART],
            [
                ("low", "u", {"id": 1, "a": 3, "h": 3}, {"id": 1, "a": 2, "h": 3}),
                ("top", "u", {"a": 3, "b": 3}, {"a": 1, "b": 9}),
            ],
            True,
        ),
    ],
    ids=["comes with another value", "loses its value and goes", "its child goes before", "its child leaves it before"],
)
def test_what_a_key_of_the_target_does_at_once_is_alone(
    tables: Sequence[TableSchema], changes: Sequence[Change], is_minimal: bool
) -> None:
    """It acts when the parent's own change is carried out, not at the end of the stage."""
    logged = [minimal(tables, change) if is_minimal else change for change in changes]
    whole = acting(tables)
    assert len(stages(group([chunk_of([logged], tables)], whole), whole)) == 2


def test_rows_that_follow_one_parent_by_two_keys_that_act_are_refused() -> None:
    tables, move = [TOP, TWICE, BELOW], chunk_of([[("top", "u", {"id": 1}, {"id": 4})]], [TOP])
    assert len(stages(group([move], context(tables)), context(tables))) == 1
    with pytest.raises(RowRefused, match=r"shop\.both follows it by two foreign keys"):
        stages(group([move], acting(tables)), acting(tables))


def test_a_parents_value_that_its_childs_type_cannot_hold() -> None:
    """Whatever is met is looked at."""
    wide, narrow = (LogicalType(Kind.DECIMAL, precision=p, scale=2) for p in (6, 5))
    tables = [
        schema("top", {"id": wide}, ["id"]),
        schema("low", {"id": INT, "x": narrow}, ["id"], [foreign_key("1", "x", "top", "id", CASCADE, CASCADE)]),
    ]
    log = [("top", "d", {"id": Decimal("1234.00")}), ("low", "i", {"id": 1, "x": Decimal("2.00")})]
    whole = context(tables)
    assert len(stages(group([chunk_of([log], tables)], whole), whole)) == 1


def test_zero_is_zero_however_it_is_written() -> None:
    double = LogicalType(Kind.FLOAT64)
    tables = [
        schema("top", {"id": double}, ["id"]),
        schema("low", {"id": INT, "x": double}, ["id"], [foreign_key("1", "x", "top", "id", CASCADE, CASCADE)]),
    ]
    log = [("top", "d", {"id": 0.0}), ("top", "i", {"id": 0.0}), ("low", "i", {"id": 1, "x": -0.0})]
    whole = context(tables)
    assert len(stages(group([chunk_of([log], tables)], whole), whole)) == 2


def test_a_large_transaction_comes_in_several_groups() -> None:
    """A child's own removal, logged after a key has taken it along, in the next piece of the same transaction."""
    low = table("low", "id x", "id", keys=[foreign_key("1", "x", "top", "id", CASCADE, CASCADE)])
    tables = [TOP, low]
    whole, taken = context(tables), RemovedByKeys()
    pieces = [[("top", "d", {"id": 1})], [("low", "d", {"id": 5, "x": 1})]]
    found = [step for piece in pieces for step in steps(group([chunk_of([piece], tables)], whole), whole, taken)]
    assert [step.checked for step in found if isinstance(step, RowChange)] == [True, False]
