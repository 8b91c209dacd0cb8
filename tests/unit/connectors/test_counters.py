"""The number that a counter of a target goes on behind, when the target takes over."""

from __future__ import annotations

import pytest

from anabranch.connectors.postgresql.source.counters import given_last
from anabranch.connectors.sql.counters import last_given, source_counters
from anabranch.contracts import Counter, CounterSet
from anabranch.cutover.counted import unmatched
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

INT = LogicalType(Kind.INT64)


@pytest.mark.parametrize(
    ("start", "step", "used", "margin", "expected"),
    [
        (1, 1, [None, None, None], 100, None),  # nothing was given: it begins where it would
        (1, 1, [1, 40, 57], 0, 57),  # the source's counter is ahead of the rows
        (1, 1, [1, 90, 57], 10, 100),  # a row came in with a number of its own
        (3, 10, [3, 43, 44], 2, 73),  # from 3 on, every tenth: 53 is the first that is not behind 44
        (2, 2, [2, 7, None], 0, 8),
        (-1, -1, [-40, -1, -57], 3, -60),  # downwards
        (100, -10, [50, 100, 45], 1, 30),
        (1, 1, [-5, -1, None], 5, 6),  # a row below the start
    ],
)
def test_pitfall_73_a_counter_is_past_rows_and_source_in_its_own_step(
    start: int, step: int, used: list[int | None], margin: int, expected: int | None
) -> None:
    found = last_given(start, step, used, margin)
    assert found == expected
    if found is not None:
        assert (found - start) % abs(step) == 0
        assert last_given(start, step, used, margin) == found, "to do it again changes nothing"


def test_pitfall_73_the_counter_of_a_renamed_column_is_found_by_its_source() -> None:
    item = TableId("shop", "item")
    table = TargetTable(item, TableId("public", "item"), ("number",), (INT,), ("number",), source_columns=("id",))
    counters = [Counter(item, "number", 3), Counter(item, "id", 7), Counter(TableId("shop", "other"), "id", 9)]
    assert source_counters([table], table.target, "number", counters) == [counters[1]]
    assert source_counters([table], table.target, "number", counters[:1]) == []


@pytest.mark.parametrize(
    ("last", "is_called", "step", "start", "expected"),
    [
        (57, True, 1, 1, 57),
        (1, False, 1, 1, None),  # it gave none
        (1_000_000, False, 1, 1, 999_999),  # RESTART WITH 1000000, and no row since
        (-50, False, -10, -10, -40),
    ],
)
def test_pitfall_73_a_sequence_that_was_restarted_counts_as_far_as_that(
    last: int, is_called: bool, step: int, start: int, expected: int | None
) -> None:
    assert given_last(last, is_called, step, start) == expected


def test_pitfall_73_counters_without_one_at_the_target_are_named() -> None:
    item, there = TableId("shop", "item"), TableId("public", "item")
    table = TargetTable(item, there, ("number", "code"), (INT, INT), ("number",), source_columns=("id", "code"))
    counters = [Counter(item, "id", 7), Counter(item, "code", 9), Counter(item, "left_out", 3)]
    found = [CounterSet(there, "number", 8)]
    assert unmatched([table], counters, found) == ["shop.item.code", "shop.item.left_out"]
    assert unmatched([table], counters[:1], found) == []
