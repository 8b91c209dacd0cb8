"""Following a table behind an alteration without asking the target again gives what the target would say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.order import KeyOrder
from anabranch.apply.still_followed import is_apart, still_followed
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnDropped, ColumnRenamed
from anabranch.rows.conflict import STRICT
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import TargetTable

INT = LogicalType(Kind.INT64)
ORDERS, OTHER, THERE = TableId("shop", "orders"), TableId("shop", "other"), TableId("public", "orders")


def definition(*names: str, unique: tuple[str, ...] = ()) -> TableSchema:
    indexes = (Index("u", unique, True),) if unique else ()
    return TableSchema(ORDERS, tuple(Column(name, INT, "bigint") for name in names), ("id",), indexes=indexes)


def there(*names: str, **others: str) -> TargetTable:
    columns = tuple(others.get(name, name) for name in names)
    return TargetTable(ORDERS, THERE, columns, (INT,) * len(names), ("id",), source_columns=names)


def keys(*some: tuple[str, ...]) -> frozenset[UniqueKey]:
    return frozenset(UniqueKey(frozenset(columns)) for columns in some)


def test_columns_of_the_targets_own_unique_keys_are_known_by_their_new_names() -> None:
    former, now = definition("id", "a", "b", "c", unique=("b",)), definition("id", "x", "b", "d", unique=("b",))
    steps = (ColumnRenamed("a", "x"), ColumnDropped("c"), ColumnAdded("d"))
    altered = AlteredTable(
        former, there("id", "a", "b", "c", a="a_there"), now, there("id", "x", "b", "d", x="x_there"), steps
    )
    followed = Followed(former, altered.former_table, unique_keys=keys(("a_there", "b"), ("a_there", "c"), ("c",)))
    found = still_followed(followed, altered, None, STRICT)
    lost = UniqueKey(frozenset({"x_there"}), is_plain=False)
    assert found == Followed(now, altered.table, unique_keys=keys(("x_there", "b"), ("b",)) | {lost})


NOT_APART: list[Any] = [
    {"low": 1, "high": 1},
    {"loaded": frozenset((3,))},
    {"waiting": frozenset((("1",),))},
]


@pytest.mark.parametrize("more", NOT_APART, ids=str)
def test_a_table_with_a_load_in_the_way_is_asked_for_again(more: dict[str, Any]) -> None:
    followed = Followed(definition("id"), there("id"))
    assert is_apart(ORDERS, ApplyContext({ORDERS: followed}))
    assert not is_apart(ORDERS, ApplyContext({ORDERS: replace(followed, **more)}))
    assert not is_apart(OTHER, ApplyContext({ORDERS: followed}))


def test_a_table_that_keys_lead_to_is_asked_for_again() -> None:
    tables = {ORDERS: Followed(definition("id"), there("id"))}
    orders: list[KeyOrder] = [KeyOrder({ORDERS: 1}), KeyOrder(acting={ORDERS: frozenset(("id",))})]
    assert not any(is_apart(ORDERS, ApplyContext(tables, keys=keys)) for keys in orders)
    assert is_apart(ORDERS, ApplyContext(tables, keys=KeyOrder({OTHER: 1}, acting={OTHER: frozenset(("id",))})))
