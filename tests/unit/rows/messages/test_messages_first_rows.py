"""Rows that were there before the first change, in both formats, and lines as the columns that messages are made of."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.line_columns import columns_of_lines, whole_lines
from anabranch.rows.lines import lines
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.plain import PlainFormat
from anabranch.rows.net import TargetTable

TYPES = {
    "id": LogicalType(Kind.INT64),
    "word": LogicalType(Kind.TEXT),
    "price": LogicalType(Kind.DECIMAL, precision=10, scale=2),
    "ratio": LogicalType(Kind.FLOAT64),
    "data": LogicalType(Kind.BINARY),
    "day": LogicalType(Kind.DATE),
    "moment": LogicalType(Kind.TIMESTAMP),
    "instant": LogicalType(Kind.INSTANT),
    "bits": LogicalType(Kind.BIT, length=12),
    "note": LogicalType(Kind.JSON),
}
NAMES = tuple(TYPES)
ITEM = TargetTable(TableId("shop", "item"), TableId("shop", "item"), NAMES, tuple(TYPES.values()), ("id",), NAMES)
ROW = (
    b"1\ta\\tb\\\\\\nc\t-12.50\t0.1\t\\\\x00ff\t2026-11-28\t2026-11-28 12:00:00.000001\t2026-11-28 12:00:00+00"
    b'\t000000000101\t{"a": 1}'
)
LINES = [ROW, b"2" + b"\t\\N" * 9]


def test_lines_are_the_columns_that_they_were_made_of() -> None:
    blocks = [LINES[0][:7], LINES[0][7:] + b"\n" + LINES[1] + b"\n"]
    (found,) = whole_lines(blocks)
    assert found == LINES
    made = columns_of_lines(ITEM, found)
    again = lines(ITEM.types, [column.combine_chunks() for column in made.columns])
    assert columns_of_lines(ITEM, again.split(b"\n")[:-1]) == made
    assert (made["word"].to_pylist(), made["bits"].null_count) == (["a\tb\\\nc", None], 1)
    with pytest.raises(ValueError, match="inside a line"):
        list(whole_lines([b"1\t2"]))


@pytest.mark.parametrize(("kind", "word"), [(PlainFormat, "read"), (DebeziumFormat, "r")])
def test_a_row_that_was_there_is_one_message_with_a_word_of_its_own(
    kind: Callable[[Settings], Format], word: str
) -> None:
    rows, count = columns_of_lines(ITEM, LINES), len(LINES)
    numbers = np.zeros(count, np.int64), np.arange(count, dtype=np.int64), np.zeros(count, np.int16)
    op, carried = np.full(count, Op.INSERT, np.int8), np.ones((1, len(NAMES)), np.bool_)
    first = ChangeBatch(
        (Committed(0, "bin.1:99", 5),), [TableChanges(ITEM, op, *numbers, carried, rows)], is_first=True
    )
    made = kind(Settings("job", "mysql", "", lambda table: "topic"))
    made.begin()
    messages = list(made.messages(first).each())
    told = [json.loads(one.value or b"") for one in messages]
    assert [(one["op"], one["before"], one["after"]["id"]) for one in told] == [(word, None, 1), (word, None, 2)]
    assert dict(messages[0].headers)["anabranch.position"] == b"0@bin.1:99"
    assert told[0].get("source", {}).get("snapshot", "true") == "true"
    assert not len(made.end())
