"""Names of tables that tools for online changes work with."""

from __future__ import annotations

import pytest

from anabranch.model.ghost_names import USUAL, GhostNames

NAMES = GhostNames(USUAL)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("_orders_gho", "_{table}_gho"),
        ("_orders_ghc", "_{table}_ghc"),
        ("_orders_20261127101500_del", "_{table}_del"),  # gh-ost --timestamp-old-table
        ("__orders_new", "_{table}_new"),
        ("_orders_old", "_{table}_old"),
        ("orders_old", ""),
        ("_orders", ""),
        ("__old", ""),
        ("_old", ""),
    ],
)
def test_a_name_of_a_tool(name: str, pattern: str) -> None:
    assert NAMES.pattern_of(name) == pattern
    assert GhostNames().pattern_of(name) == ""


@pytest.mark.parametrize(
    ("name", "table", "is_of"),
    [
        ("_orders_gho", "orders", True),
        ("_orders_new", "orders", True),
        ("___orders_new", "orders", True),  # the shorter names were taken
        ("_items_gho", "orders", False),
        ("_old_orders_gho", "orders", False),
        ("orders_new", "orders", False),
        (f"_{'x' * 59}_gho", "x" * 64, True),
        (f"_{'x' * 58}_gho", "x" * 64, False),
    ],
)
def test_a_copy_of_a_table(name: str, table: str, is_of: bool) -> None:
    assert NAMES.is_of(name, table) is is_of
