"""Raw values as Arrow arrays, and text as raw values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import array, arrow_type
from anabranch.rows.lines import texts
from anabranch.rows.raw import parse_text

UNSCALED = st.lists(st.one_of(st.none(), st.integers(-(10**18), 10**18)), max_size=20)


@given(UNSCALED, st.integers(0, 10))
def test_decimals_keep_every_digit(values: list[int | None], scale: int) -> None:
    for precision in (19, 38, 65):
        type = LogicalType(Kind.DECIMAL, precision=precision, scale=scale)
        made = array(type, values)
        assert made.type == arrow_type(type)
        made.validate(full=True)
        assert made.to_pylist() == [None if v is None else Decimal(v).scaleb(-scale) for v in values]


def test_wide_decimals() -> None:
    values = [10**64, -(10**64), None, 0, -1]
    made = array(LogicalType(Kind.DECIMAL, precision=65, scale=0), values)
    assert made.null_count == 1 and [None if v is None else int(v) for v in made.to_pylist()] == values
    assert array(LogicalType(Kind.DECIMAL, precision=38, scale=0), [10**37, None]).to_pylist()[0] == 10**37
    assert len(array(LogicalType(Kind.DECIMAL, precision=12, scale=2), [])) == 0
    assert array(LogicalType(Kind.DECIMAL, precision=12, scale=2), [None, None]).null_count == 2


@pytest.mark.parametrize(
    "kind, values, place",
    [
        (Kind.TEXT, [b"fine", None, b"\xff"], 2),
        (Kind.INT8, [1, 200], 1),
        (Kind.UINT16, [-1], 0),
        (Kind.YEAR, [1 << 20], 0),
    ],
)
def test_a_value_that_does_not_fit_is_named(kind: Kind, values: list[Any], place: int) -> None:
    with pytest.raises(ValueError, match=f"value {place} is no {kind}"):
        array(LogicalType(kind), values)


def test_a_refused_column_is_null() -> None:
    assert array(None, [None, None]).null_count == 2 and str(arrow_type(None)) == "null"


@pytest.mark.parametrize(
    "type, text",
    [
        (LogicalType(Kind.INT32), "-5"),
        (LogicalType(Kind.UINT64), str(2**64 - 1)),
        (LogicalType(Kind.DECIMAL, precision=10, scale=2), "-12.50"),
        (LogicalType(Kind.DECIMAL, precision=60, scale=30), "0." + "0" * 29 + "1"),
        (LogicalType(Kind.FLOAT64), "0.1"),
        (LogicalType(Kind.TEXT), "naïve 😀"),
        (LogicalType(Kind.BINARY), "\\x00ff"),
        (LogicalType(Kind.BIT, length=5), "01011"),
        (LogicalType(Kind.DATE), "0001-01-01"),
        (LogicalType(Kind.DATE), "2024-02-29"),
        (LogicalType(Kind.TIMESTAMP), "1969-12-31 23:59:59.999999"),
        (LogicalType(Kind.INSTANT), "2024-02-29 12:00:00.000001+00"),
        (LogicalType(Kind.DURATION), "-838:59:59.000000"),
        (LogicalType(Kind.DURATION), "00:00:00.000001"),
        (LogicalType(Kind.YEAR), "1999"),
        (LogicalType(Kind.ENUM, values=("a", "b")), "b"),
        (LogicalType(Kind.JSON), '{"a": 1}'),
    ],
)
def test_text_becomes_the_value_it_came_from(type: LogicalType, text: str) -> None:
    """As the text form writes it, apart from digits of a second that are zero."""
    (back,) = texts(type, array(type, [parse_text(type, text)])).to_pylist()
    assert back == text or parse_text(type, back) == parse_text(type, text)


@pytest.mark.parametrize(
    "type, text",
    [
        (LogicalType(Kind.INT32), "five"),
        (LogicalType(Kind.DATE), "0000-00-00"),
        (LogicalType(Kind.TIMESTAMP), "now()"),
        (LogicalType(Kind.BINARY), "abc"),
        (LogicalType(Kind.DECIMAL, precision=5, scale=1), "1.25"),
        (LogicalType(Kind.DURATION), "5"),
    ],
)
def test_text_that_is_no_value_is_refused(type: LogicalType, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_text(type, text)
