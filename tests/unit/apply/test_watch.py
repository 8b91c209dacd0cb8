"""Which row images have to do with a row that is set aside: column-wise, as one change after the other tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.aside.aside_values import Known, Side, Watch, concerned, links
from anabranch.apply.aside.permitted import touches, with_aside
from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext
from anabranch.apply.images import gather, order_of
from anabranch.apply.plan import group
from anabranch.model.schema import Action, Index, TableSchema
from anabranch.rows.aside import AsideChange
from rigs.chunks import INT, TEXT, chunk_of, followed, reference, schema, table_id

ITEMS = schema("items", {"id": INT, "a": INT, "b": INT}, ["id"])
VALUE = st.sampled_from([None, 1, 2, 3])
ROW = st.fixed_dictionaries({"id": st.integers(1, 3)}, optional={"a": VALUE, "b": VALUE})
CHANGE = st.one_of(
    st.tuples(st.just("i"), st.fixed_dictionaries({"id": st.integers(1, 3), "a": VALUE, "b": VALUE})),
    st.tuples(st.just("d"), ROW),
    st.tuples(st.just("u"), ROW, st.fixed_dictionaries({}, optional={"id": st.integers(1, 3), "a": VALUE, "b": VALUE})),
)
WATCHED = {
    Side.ROW: [("id",)],
    Side.COMES: [("a",), ("a", "b")],
    Side.REFERS: [("b",), ("b", "a")],
    Side.LEAVES: [("a",), ("b", "a")],
}
ABSENT = object()


def expected(change: tuple[Any, ...], columns: tuple[str, ...], values: set[tuple[Any, ...]], side: Side) -> bool:
    """One change alone, in plain words."""
    kind, *images = change
    first = tuple(images[0].get(name, ABSENT) for name in columns)
    if kind != "u":
        matters = {"i": side is not Side.LEAVES, "d": side in (Side.LEAVES, Side.ROW)}[kind]
        return matters and (ABSENT in first or first in values)
    after = tuple({**images[0], **images[1]}.get(name, ABSENT) for name in columns)
    if side is Side.ROW:
        return first in values or after in values
    if not any(name in images[1] for name in columns):
        return False
    if ABSENT not in first and first == after:
        return False
    seen = (first, after) if side is Side.LEAVES else (after,)
    return any(ABSENT in one or one in values for one in seen)


@given(st.lists(CHANGE, min_size=1, max_size=8), st.sampled_from(list(Side)), st.data())
@settings(max_examples=400, deadline=None)
def test_rule_26_columns_tell_what_single_changes_tell(changes: list[Any], side: Side, data: Any) -> None:
    columns = data.draw(st.sampled_from(WATCHED[side]))
    values = data.draw(st.sets(st.tuples(*(st.integers(1, 3) for _ in columns)), min_size=1, max_size=3))
    chunk = chunk_of([[change] for change in changes], [ITEMS])
    table = followed(ITEMS).table
    images = gather([chunk], table, ITEMS, 1)
    assert images is not None
    watch = Watch(columns, frozenset(tuple(map(str, value)) for value in values), side, ITEMS.id)
    found = {order >> 40 for order, _ in concerned(images, table, watch)}
    assert found == {n for n, change in enumerate(changes) if expected(change, columns, values, side)}


# --- what is linked with a table --------------------------------------------------------------------------------------

PARENT = schema("parent", {"id": INT, "code": TEXT}, ["id"])
CHILD = schema("child", {"id": INT, "p": INT}, ["id"], [reference(["p"], "parent", Action.CASCADE)])
BY_TEXT = schema(
    "by_text", {"id": INT, "code": TEXT}, ["id"], [reference(["code"], "parent", Action.RESTRICT, to=("code",))]
)
SELF = schema("self", {"id": INT, "up": INT}, ["id"], [reference(["up"], "self", Action.RESTRICT)])
UNIQUE = replace(schema("one", {"id": INT, "a": INT, "b": INT}, ["id"]), indexes=(Index("ab", ("a", "b"), True),))
OVERLAPS = replace(UNIQUE, indexes=(Index("ab", ("a", "b"), True, exact=False),))


def linked(of: TableSchema, *others: TableSchema) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], str]]:
    known = {one.id: Known(one, followed(one).table) for one in (of, *others)}
    return ((one.table.name, one.columns, one.own, one.side.name) for one in links(of.id, known))


@pytest.mark.parametrize(
    ("tables", "more"),
    [
        ((PARENT,), []),
        ((CHILD,), []),  # its parent is not the job's
        ((CHILD, PARENT), [("parent", ("id",), ("p",), "LEAVES")]),
        ((PARENT, CHILD), [("child", ("p",), ("id",), "REFERS")]),
        ((PARENT, BY_TEXT), [("by_text", (), (), "REFERS")]),
        ((BY_TEXT, PARENT), [("parent", (), (), "LEAVES")]),
        ((SELF,), [("self", ("id",), ("up",), "LEAVES"), ("self", ("up",), ("id",), "REFERS")]),
        ((UNIQUE,), [("one", ("a", "b"), ("a", "b"), "COMES")]),
        ((OVERLAPS,), [("one", (), (), "COMES")]),
    ],
)
def test_what_a_row_is_linked_by(tables: tuple[TableSchema, ...], more: list[Any]) -> None:
    assert list(linked(*tables)) == [(tables[0].id.name, ("id",), ("id",), "ROW"), *more]


# --- several tables ---------------------------------------------------------------------------------------------------


def aside(name: str, key: int, **values: Any) -> AsideChange:
    texts = {"id": str(key), **{n: None if v is None else str(v) for n, v in values.items()}}
    table = table_id(name)
    return AsideChange(1, "1@log.1:1", 0, table, table, {"id": str(key)}, "insert", None, texts, "refused", number=1)


def touched(schemas: list[TableSchema], found: list[AsideChange], *changes: Any) -> dict[int, tuple[str, bool]]:
    """By place of the change: of which table a row is set aside, and whether it may wait."""
    tables = {one.id: followed(one) for one in schemas}
    context = with_aside(ApplyContext(tables, rules_of(tables)), found, 10, False)
    part = group([chunk_of([[change] for change in changes], schemas)], context)
    places = {order_of(1 + n, 1): n for n in range(len(changes))}
    return {places[order & ~0xFFFFFFFFFF]: (t.by.name, t.waits) for order, t in touches(part, context).items()}


def test_nothing_is_looked_at_where_nothing_is_set_aside() -> None:
    context = with_aside(ApplyContext({one.id: followed(one) for one in (PARENT, CHILD)}), [], 10, True)
    assert not context.watches and all(f.aside and not f.aside.changes for f in context.tables.values())
    plain = ApplyContext({ITEMS.id: followed(ITEMS)})
    assert with_aside(plain, [], 10, False) is plain


def test_rule_26_only_a_change_of_the_row_itself_waits() -> None:
    row = {"id": 5, "up": 1}
    found = touched(
        [SELF],
        [aside("self", 5, up=1)],
        ("self", "u", row, {**row, "up": 2}),
        ("self", "u", row, {**row, "id": 6}),
        ("self", "i", {"id": 7, "up": 5}),
        ("self", "u", row, {**row, "up": 5}),  # the row itself, which refers to itself now
        ("self", "d", {"id": 1, "up": None}),
        ("self", "i", {"id": 8, "up": 1}),
        ("self", "d", row),
    )
    assert found == {
        n: ("self", waits) for n, waits in ((0, True), (1, False), (2, False), (3, False), (4, False), (6, True))
    }


def test_rule_01_26_a_value_that_a_cascade_brings_counts_as_one_that_it_takes() -> None:
    """Children of the parent's former value come to where the row was."""
    follows = schema(
        "child", {"id": INT, "p": INT}, ["id"], [reference(["p"], "parent", Action.CASCADE, Action.CASCADE)]
    )
    moves = [("parent", "u", {"id": n, "code": "x"}, {"id": m, "code": "x"}) for n, m in ((3, 7), (7, 3), (3, 4))]
    found = touched([PARENT, follows], [aside("child", 5, p=7)], *moves, ("parent", "i", {"id": 7, "code": "y"}))
    assert found == {0: ("child", False), 1: ("child", False)}


def test_where_values_do_not_tell_every_change_counts() -> None:
    changes = [("parent", "i", {"id": 1, "code": "x"}), ("parent", "u", {"id": 2, "code": "x"}, {"id": 2, "code": "x"})]
    assert touched([PARENT, BY_TEXT], [aside("by_text", 5, code="ss")], *changes).keys() == {0, 1}
