"""Columns of values as types' send functions give them become what text_values.py makes of the same values' text, a column at a
time. Pure.

What does not live here: where the values lie (row_images.py), which columns can be read so (binary_types.py). Forms: the send
functions under https://github.com/postgres/postgres/tree/master/src/backend/utils/adt; texts as with ISO dates and UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.postgresql.source.binary_texts import (
    at_most,
    dates,
    instants,
    numerics,
    texts,
    times,
    timestamps,
)

Reader = Callable[[pa.LargeBinaryArray], pa.Array]
"""Values, null where there is none -> an array of the trail. Raises ValueError for bytes that are no value of the type."""

_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
# Places of a uuid's 32 digits in its 36 characters.
_DIGITS = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_JSONB = 1  # the only version: its text follows


def numbers(kind: str) -> Reader:
    """Return the reader of numbers. `kind`: of numpy, the highest byte first."""
    form = np.dtype(kind)

    def read(values: pa.LargeBinaryArray) -> pa.Array:
        found = _fixed(values, form)
        if form.kind == "f":
            found = np.where(np.isnan(found), np.nan, found)  # its bits are not told apart in text
        native = form.newbyteorder("=")
        full = np.zeros(len(values), native)
        full[_has(values)] = found
        parts = [values.buffers()[0], pa.py_buffer(full)]
        return pa.Array.from_buffers(pa.from_numpy_dtype(native), len(values), parts, values.null_count)

    return read


def text(values: pa.LargeBinaryArray) -> pa.Array:
    return values.cast(pa.large_string()).cast(pa.string())


def number_texts(kind: str) -> Reader:
    """Return the reader of numbers that the trail keeps as text."""
    read = numbers(kind)
    return lambda values: read(values).cast(pa.string())


def _booleans(values: pa.LargeBinaryArray) -> pa.Array:
    found = _fixed(values, np.dtype("u1"))
    at_most(found, 0, 1, "boolean")
    return texts(values, np.where(found, ord("t"), ord("f")).astype(np.uint8)[:, None])


def _uuids(values: pa.LargeBinaryArray) -> pa.Array:
    found = _fixed(values, np.dtype("V16")).view(np.uint8)
    slots = np.full((len(found) // 16, 36), ord("-"), np.uint8)
    slots[:, _DIGITS] = _HEX[found].view(np.uint8).reshape(-1, 32)
    return texts(values, slots)


def _jsonb(values: pa.LargeBinaryArray) -> pa.Array:
    """Read jsonb: its text, behind a version."""
    valid, ends, data = values.buffers()
    offsets, has = np.frombuffer(ends, np.int64, len(values) + 1), _has(values)
    bytes_ = np.frombuffer(data, np.uint8, int(offsets[-1])) if data is not None else np.zeros(0, np.uint8)
    first = offsets[:-1][has]
    if (first >= offsets[1:][has]).any() or (bytes_[first] != _JSONB).any():
        raise ValueError("a jsonb of an unknown version")
    found = offsets.copy()
    found[1:] -= np.cumsum(has)
    parts = [valid, pa.py_buffer(found), pa.py_buffer(np.delete(bytes_, first))]
    return text(pa.Array.from_buffers(pa.large_binary(), len(values), parts, values.null_count))


def _has(values: pa.LargeBinaryArray) -> Any:
    return np.asarray(values.is_valid())


def _fixed(values: pa.LargeBinaryArray, form: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the values that are there, of so many bytes each."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int64, len(values) + 1)
    if (np.diff(offsets) != np.where(_has(values), form.itemsize, 0)).any():
        raise ValueError(f"a value that does not have {form.itemsize} bytes")
    return np.frombuffer(data if data is not None else b"", form, int(offsets[-1]) // form.itemsize)


def _read(form: str, to_text: Callable[[pa.LargeBinaryArray, Any], pa.Array]) -> Reader:
    return lambda values: to_text(values, _fixed(values, np.dtype(form)).astype(np.int64))


# Types that are a part of every server, by their oid: https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
READERS: dict[int, Reader] = {
    16: _booleans,
    17: lambda values: values.cast(pa.binary()),  # bytea
    19: text,  # name
    20: numbers(">i8"),
    21: numbers(">i2"),
    23: numbers(">i4"),
    25: text,
    26: number_texts(">u4"),  # oid
    114: text,  # json
    700: numbers(">f4"),
    701: numbers(">f8"),
    1042: text,  # character
    1043: text,  # character varying
    1082: _read(">i4", dates),
    1083: _read(">i8", times),
    1114: _read(">i8", timestamps),
    1184: _read(">i8", instants),
    1700: numerics,
    2950: _uuids,
    3802: _jsonb,
}
# Of domains over them the trail has the server's text: of bytea and floats the form is not made here.
DOMAIN_READERS: dict[int, Reader] = {
    **{oid: read for oid, read in READERS.items() if oid not in (17, 700, 701)},
    20: number_texts(">i8"),
    21: number_texts(">i2"),
    23: number_texts(">i4"),
}
