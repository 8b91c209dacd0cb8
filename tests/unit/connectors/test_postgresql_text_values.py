"""Text of PostgreSQL as Arrow, a column at a time."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.text_values import array_of_text
from anabranch.model.datatype import Kind, LogicalType

BINARY, REAL, DOUBLE = (LogicalType(kind) for kind in (Kind.BINARY, Kind.FLOAT32, Kind.FLOAT64))


def given_texts(texts: list[str | None]) -> pa.LargeBinaryArray:
    return pa.array([None if text is None else text.encode() for text in texts], pa.large_binary())


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20))))
def test_bytes_of_hex(values: list[bytes | None]) -> None:
    texts = [None if value is None else "\\x" + value.hex() for value in values]
    assert array_of_text(BINARY, given_texts(texts)).to_pylist() == values


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_integers(values: list[int | None]) -> None:
    texts = [None if value is None else str(value) for value in values]
    assert array_of_text(LogicalType(Kind.INT64), given_texts(texts)).to_pylist() == values


@given(st.lists(st.floats(allow_nan=False)))
def test_doubles_bit_by_bit(values: list[float]) -> None:
    texts = [repr(value).replace("inf", "Infinity") for value in values]
    found = array_of_text(DOUBLE, given_texts(texts)).to_pylist()
    assert [struct.pack("d", one) for one in found] == [struct.pack("d", one) for one in values]


def test_what_is_no_number() -> None:
    for type in (REAL, DOUBLE):
        found = array_of_text(type, given_texts(["NaN", "Infinity", "-Infinity", "-0", "1e-45", None])).to_pylist()
        assert math.isnan(found[0]) and found[1:3] == [math.inf, -math.inf] and found[5] is None
        assert math.copysign(1, found[3]) == -1 and found[4] > 0


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (BINARY, "\\001"), (BINARY, "\\x0"), (BINARY, "\\x0g"), (BINARY, "x"), (BINARY, ""),
        (LogicalType(Kind.INT16), "40000"), (LogicalType(Kind.INT32), "1.5"), (DOUBLE, "none"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(type: LogicalType, text: str) -> None:
    with pytest.raises(ValueError):
        array_of_text(type, given_texts([text]))


def test_text_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(ValueError):
        array_of_text(LogicalType(Kind.TEXT), pa.array([b"\xff"], pa.large_binary()))
