"""Whole columns of bytes in base64 (RFC 4648, section 4), and decimals as the bytes that Kafka Connect has for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIGNS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PAD = ord("=")


def base64_texts(array: Any) -> Any:
    """Return n binary values in base64 with padding, as large_string; null stays null."""
    wide = array.cast(pa.large_binary())
    if not len(wide):
        return pa.array([], pa.large_string())
    ends = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = np.frombuffer(wide.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    found = _encoded(data, ends[1:] - ends[:-1])
    return found if not wide.null_count else pc.if_else(wide.is_valid(), found, pa.scalar(None, pa.large_string()))


def _encoded(data: Any, sizes: Any) -> Any:
    """Encode values that lie one behind the other: each begins a group of three bytes of its own."""
    groups = (sizes + 2) // 3
    ends = np.concatenate([[0], np.cumsum(groups)])
    padded = np.zeros(int(ends[-1]) * 3, np.uint8)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    padded[np.arange(len(data)) + np.repeat(ends[:-1] * 3 - starts, sizes)] = data
    one, two, three = (padded[at::3].astype(np.uint16) for at in range(3))
    signs = np.empty((len(one), 4), np.uint8)
    signs[:, 0] = _SIGNS[one >> 2]
    signs[:, 1] = _SIGNS[(one & 3) << 4 | two >> 4]
    signs[:, 2] = _SIGNS[(two & 15) << 2 | three >> 6]
    signs[:, 3] = _SIGNS[three & 63]
    rest = sizes % 3
    signs[ends[1:][rest > 0] - 1, 3] = _PAD
    signs[ends[1:][rest == 1] - 1, 2] = _PAD
    buffers = [None, pa.py_buffer((ends * 4).astype(np.int64)), pa.py_buffer(signs)]
    return pa.Array.from_buffers(pa.large_string(), len(sizes), buffers)


def unscaled(array: Any) -> Any:
    """Return the digits of decimals as binary: a whole number in two's complement, the highest byte first, in the fewest bytes
    that hold it (java.math.BigInteger.toByteArray)."""
    width, count = array.type.bit_width // 8, len(array)
    if not count:
        return pa.array([], pa.large_binary())
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + count) * width]
    big = data.reshape(count, width)[:, ::-1]
    sign = np.where(big[:, :1] >= 128, 255, 0).astype(np.uint8)
    # A byte in front says nothing where it is the sign's, and the next one has the sign, too.
    idle = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 128)
    left_out = np.minimum.accumulate(idle, axis=1).sum(axis=1)
    kept = np.arange(width) >= left_out[:, None]
    ends = np.concatenate([[0], np.cumsum(width - left_out)]).astype(np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(big[kept]))]
    found = pa.Array.from_buffers(pa.large_binary(), count, buffers)
    return found if not array.null_count else pc.if_else(array.is_valid(), found, pa.scalar(None, pa.large_binary()))


def of_whole(number: int) -> bytes:
    """Return one whole number as `unscaled` has it."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
