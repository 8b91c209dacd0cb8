"""The hash of keys: the numbers are those that Kafka's own tests have for its murmur2."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.rows.messages.partition import hashes

# https://github.com/apache/kafka/blob/trunk/clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def murmur2(data: bytes) -> int:
    """As the Java client has it, byte by byte."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * m & mask
        state = (state * m & mask) ^ ((word ^ word >> 24) * m & mask)
    if rest := data[len(data) // 4 * 4 :]:
        state = (state ^ int.from_bytes(rest, "little")) * m & mask
    state = (state ^ state >> 13) * m & mask
    return state ^ state >> 15


@pytest.mark.parametrize(("key", "hash"), KNOWN.items())
def test_hashes_are_those_of_the_java_client(key: bytes, hash: int) -> None:
    assert hashes(pa.array([key])).tolist() == [hash & 0x7FFFFFFF] == [murmur2(key) & 0x7FFFFFFF]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 3))
def test_columns_are_hashed_as_single_values(keys: list[bytes], skipped: int) -> None:
    found = hashes(pa.array(keys, pa.large_binary()).slice(skipped))
    assert found.tolist() == [murmur2(key) & 0x7FFFFFFF for key in keys[skipped:]]
