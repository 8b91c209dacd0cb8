"""What stands for dates that are none: choices, raw values, text forms."""

from __future__ import annotations

import pytest

from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.arrow import array
from anabranch.rows.lines import texts
from anabranch.rows.raw import parse_text
from anabranch.rows.zero_dates import KINDS, choice, raw_of, text_of

COLUMNS = tuple(Column(name, LogicalType(Kind.DATE), "date") for name in ("k", "a", "b"))
SCHEMA = TableSchema(TableId("s", "t"), COLUMNS, ("k",))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("date", ["0001-01-01", "9999-12-31", "1970-01-01", "-infinity", "infinity"])
def test_a_raw_value_has_the_text_of_its_date(kind: Kind, date: str) -> None:
    """Beside others, and beside NULL."""
    type = LogicalType(kind)
    plain = text_of(type, "2024-02-29")
    found = texts(type, array(type, [raw_of(type, date), None, raw_of(type, "2024-02-29")])).to_pylist()
    assert found == [text_of(type, date), None, plain]
    assert parse_text(type, text_of(type, date)) == raw_of(type, date)
    assert texts(type, array(type, [None])).to_pylist() == [None] and len(texts(type, array(type, []))) == 0


def test_the_choice_of_a_column() -> None:
    others = (("s.t", "a", "null"), ("s.t", "k", "infinity"), ("s.other", "b", "null"))
    for rules, expected in (
        (ValueRules(), ["stop", "stop", "stop"]),
        (ValueRules(zero_date="null"), ["null", "null", "null"]),
        (ValueRules(zero_date="0001-01-01"), ["stop", "0001-01-01", "0001-01-01"]),
        (ValueRules(zero_date="-infinity"), ["-infinity"] * 3),
        (ValueRules(zero_dates=others), ["infinity", "null", "stop"]),
        (ValueRules(zero_date="2000-01-01", zero_dates=others), ["infinity", "null", "2000-01-01"]),
    ):
        assert [choice(rules, SCHEMA, column.name) for column in COLUMNS] == expected
