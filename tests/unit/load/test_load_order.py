"""Which tables are loaded after which, and which at one exact moment, because the log leaves cascades out."""

from __future__ import annotations

import pytest

from anabranch.load.order import Demand, demands
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema

NUMBER = LogicalType(Kind.INT32)
KEEP, FOLLOW, CLEAR = Action.RESTRICT, Action.CASCADE, Action.SET_NULL


def table(name: str, *keys: ForeignKey, key: tuple[str, ...] = ("id",)) -> TableSchema:
    columns = tuple(Column(n, NUMBER, "int") for n in ("id", "up", "more"))
    return TableSchema(TableId("s", name), columns, key, foreign_keys=keys)


def refers(parent: str, on_delete: Action, on_update: Action, column: str = "up", to: str = "id") -> ForeignKey:
    return ForeignKey(f"fk_{parent}", (column,), TableId("s", parent), (to,), on_delete, on_update)


def levels(*tables: TableSchema, logs_cascades: bool = False) -> list[dict[str, bool]]:
    found = demands({t.id: t for t in tables}, logs_cascades)
    return [{demand.table.name: demand.exact for demand in level} for level in found]


A = table("a")


def test_grandchildren_come_after_the_table_between() -> None:
    b, c = table("b", refers("a", FOLLOW, KEEP)), table("c", refers("b", CLEAR, KEEP))
    assert levels(c, b, A) == [{"b": False, "a": False}, {"c": False}]
    assert levels(c, b, A, logs_cascades=True) == [{"c": False, "b": False, "a": False}]


def test_circles_and_tables_without_a_key_are_read_at_one_moment() -> None:
    assert levels(table("a", refers("b", CLEAR, KEEP)), table("b", refers("a", CLEAR, KEEP))) == [
        {"a": True, "b": True}
    ]
    assert levels(table("a", refers("a", FOLLOW, KEEP))) == [{"a": True}]
    assert levels(table("a", key=())) == [{"a": True}]


def test_torture_seed_3234_of_two_tables_with_keys_to_each_other_the_one_between_comes_first() -> None:
    """A row of b goes, with it those of a, and with them what others of b refer to."""
    a, b = table("a", refers("b", FOLLOW, KEEP)), table("b", refers("a", CLEAR, KEEP))
    assert levels(a, b) == levels(b, a) == [{"a": True}, {"b": True}]
    c = table("c", refers("b", KEEP, FOLLOW, to="up"))
    assert levels(c, b, a) == [{"a": True}, {"b": True}, {"c": True}]
    assert levels(a, table("b", refers("a", FOLLOW, KEEP))) == [{"a": True, "b": True}]


@pytest.mark.parametrize(
    ("tables", "exact"),
    [
        ([table("b", refers("a", KEEP, FOLLOW))], set()),  # its rows are read again by key
        ([table("b", refers("a", KEEP, FOLLOW), key=("up", "id"))], {"b"}),  # the key moves along
        ([table("b", refers("a", FOLLOW, KEEP)), table("c", refers("b", KEEP, FOLLOW))], {"c"}),  # parents go unseen
        ([table("b", refers("a", KEEP, FOLLOW)), table("c", refers("b", KEEP, FOLLOW))], set()),
        ([table("b", refers("a", KEEP, FOLLOW)), table("c", refers("b", KEEP, FOLLOW, to="up"))], {"b", "c"}),
        ([table("b", refers("a", KEEP, FOLLOW)), table("c", refers("b", KEEP, CLEAR, to="up"))], {"b"}),  # c follows b
        (
            [table("b", refers("a", FOLLOW, FOLLOW)), table("c", refers("b", CLEAR, KEEP))],
            {"b"},
        ),  # takes c's rows along
    ],
)
def test_rule_01_what_moves_with_a_parents_key(tables: list[TableSchema], exact: set[str]) -> None:
    found = [demand for level in demands({t.id: t for t in (A, *tables)}, False) for demand in level]
    assert {demand.table.name for demand in found if demand.exact} == exact


def test_rule_04_a_moment_must_be_quiet_above_too() -> None:
    b, c = table("b", refers("a", FOLLOW, KEEP)), table("c", refers("b", FOLLOW, KEEP), key=())
    ((_, _), (last,)) = demands({t.id: t for t in (A, b, c)}, False)
    assert last == Demand(c.id, True, frozenset({A.id, b.id}))


def test_torture_seed_84_tables_that_lie_between_each_other_are_read_at_the_same_moment() -> None:
    """Rows of b go with those of a. They take rows of c along, and these are cleared out of other rows of b."""
    b, c = (
        table("b", refers("a", FOLLOW, KEEP), refers("c", CLEAR, KEEP, column="more")),
        table("c", refers("b", FOLLOW, KEEP)),
    )
    below = table("d", refers("c", FOLLOW, KEEP))
    first, last = demands({t.id: t for t in (below, c, A, b)}, False)
    assert {d.table.name: d.together for d in first} == {
        "a": frozenset(),
        **dict.fromkeys("bc", frozenset({b.id, c.id})),
    }
    assert [(d.table.name, d.exact, d.together) for d in last] == [("d", False, frozenset())]
    assert all(d.exact for d in first if d.together)
    assert not any(d.together for level in demands({t.id: t for t in (A, b, c)}, True) for d in level)


def test_a_table_that_refers_to_itself_comes_before_its_children() -> None:
    a, b = table("a", refers("a", FOLLOW, KEEP)), table("b", refers("a", FOLLOW, KEEP))
    assert levels(b, a) == [{"a": True}, {"b": False}]
    c = table("c", refers("b", CLEAR, KEEP))
    circle = [table("a", refers("b", FOLLOW, KEEP)), table("b", refers("a", CLEAR, KEEP))]
    assert levels(c, *circle) == [{"c": False, "a": True}, {"b": True}]


def test_rule_20_where_columns_are_left_out_the_table_between_is_read_at_one_moment() -> None:
    """A row of it that waits to be read again would not take its children along."""
    b, c = table("b", refers("a", FOLLOW, KEEP)), table("c", refers("b", FOLLOW, KEEP))
    tables = {t.id: t for t in (A, b, c)}
    assert [d.table.name for level in demands(tables, False, False) for d in level if d.exact] == ["b"]
    assert not any(d.exact for level in demands(tables, False, True) for d in level)
