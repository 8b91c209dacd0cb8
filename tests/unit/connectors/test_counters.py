"""The number that a counter of a target goes on behind, when the target takes over."""

from __future__ import annotations

import pytest

from anabranch.connectors.sql.counters import last_given, source_counter
from anabranch.contracts import Counter
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
    assert source_counter(table, "number", counters) == counters[1]
    assert source_counter(table, "number", counters[:1]) is None
