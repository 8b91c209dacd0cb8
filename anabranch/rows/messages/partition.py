"""The hash that gives a key its partition: murmur2, as Kafka's own producers in Java compute it, so that all of them agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = 0x9747B28C
M = np.uint32(0x5BD1E995)
POSITIVE = 0x7FFFFFFF

Hashes = npt.NDArray[np.int32]


def hashes(keys: Any) -> Hashes:
    """Return a number of 31 bits for each of n binary values (null: as for no bytes). The partition is its rest of the
    division by the number of partitions."""
    wide = keys.cast(pa.large_binary())
    count = len(wide)
    if not count:
        return np.zeros(0, np.int32)
    ends = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + count + 1]
    # Four bytes are read at a time, also behind the last value's end.
    data = np.frombuffer((wide.buffers()[2] or pa.py_buffer(b"")).to_pybytes() + bytes(4), np.uint8)
    start, length = ends[:-1], ends[1:] - ends[:-1]
    order = np.argsort(-length, kind="stable")  # the longest first: those that go on are a beginning of the array
    start, length = start[order], length[order]
    found = np.empty(count, np.uint32)
    with np.errstate(over="ignore"):
        found[order] = _finished(_tails(_words(start, length, data), start, length, data))
    return (found & np.uint32(POSITIVE)).astype(np.int32)


def _words(start: Any, length: Any, data: Any) -> Any:
    """Return the states after all whole groups of four bytes."""
    state = np.uint32(SEED) ^ length.astype(np.uint32)
    words = length >> 2
    active = len(words)
    for at in range(int(words[0]) if active else 0):
        active = int(np.searchsorted(-words[:active], -at, side="left"))
        word = _word(data, start[:active] + 4 * at, 4) * M
        word = (word ^ (word >> np.uint32(24))) * M
        state[:active] = (state[:active] * M) ^ word
    return state


def _tails(state: Any, start: Any, length: Any, data: Any) -> Any:
    """Return the states after the one to three bytes that are left."""
    rest = length & 3
    for size in (1, 2, 3):
        chosen = np.flatnonzero(rest == size)
        state[chosen] = (state[chosen] ^ _word(data, (start + length - size)[chosen], size)) * M
    return state


def _word(data: Any, at: Any, size: int) -> Any:
    found = data[at].astype(np.uint32)
    for byte in range(1, size):
        found |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return found


def _finished(state: Any) -> Any:
    state = (state ^ (state >> np.uint32(13))) * M
    return state ^ (state >> np.uint32(15))
