"""Protocol buffers as bytes: a message's fields, one after the other. Pure.

https://protobuf.dev/programming-guides/encoding/
What does not live here: what a field means (decode_decoderbufs.py).
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_LONGEST = 10  # bytes of a varint
_SIGN, _WHOLE = 1 << 63, 1 << 64


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field: a number for VARINT, else bytes. Raises ValueError."""
    at, size = 0, len(data)
    while at < size:
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = _varint(data, at - 1)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, at = (data[at], at + 1) if at < size and data[at] < 0x80 else _varint(data, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"a field of unknown wire type {kind}")
        if at + length > size:
            raise ValueError("a field that is longer than its message")
        yield number, kind, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """Return a varint as int32 and int64 mean it."""
    return value - _WHOLE if value >= _SIGN else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, min(at + _LONGEST, len(data))):
        byte = data[place]
        if byte < 0x80:
            return (value | byte << shift) & (_WHOLE - 1), place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError("a number without an end")
