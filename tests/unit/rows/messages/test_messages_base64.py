"""Base64 and decimals of whole columns, beside what Python does with single values."""

from __future__ import annotations

import base64
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.rows.messages.base64_text import base64_texts, of_whole, unscaled

LARGEST = 10**38 - 1


@given(st.lists(st.none() | st.binary(max_size=30), max_size=30), st.integers(0, 3))
def test_bytes_are_encoded_as_single_values(values: list[bytes | None], skipped: int) -> None:
    found = base64_texts(pa.array(values, pa.binary()).slice(skipped)).to_pylist()
    assert found == [None if one is None else base64.b64encode(one).decode() for one in values[skipped:]]


@given(st.lists(st.none() | st.integers(-LARGEST, LARGEST) | st.integers(-300, 300), max_size=30), st.integers(0, 3))
def test_decimals_have_the_fewest_bytes(numbers: list[int | None], skipped: int) -> None:
    for kind in (pa.decimal128(38, 0), pa.decimal256(76, 0)):
        array = pa.array([None if one is None else Decimal(one) for one in numbers], kind)
        found = unscaled(array.slice(skipped)).to_pylist()
        assert found == [None if one is None else of_whole(one) for one in numbers[skipped:]]


def test_bytes_of_whole_numbers_are_those_of_java() -> None:
    assert [of_whole(one).hex() for one in (0, 127, 128, -128, -129, 255, 256, -1)] == [
        "00", "7f", "0080", "80", "ff7f", "00ff", "0100", "ff",
    ]  # fmt: skip
