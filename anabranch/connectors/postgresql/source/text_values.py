"""Columns of values in PostgreSQL's text form become the trail's Arrow arrays, a column at a time. Pure.

What does not live here: where the values lie (row_images.py). Forms: the input and output functions of
https://www.postgresql.org/docs/current/datatype.html with bytea_output = hex, extra_float_digits = 1 or more.
"""

from __future__ import annotations

from binascii import unhexlify

import numpy as np
import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import arrow_type

_NUMBERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64, Kind.FLOAT32, Kind.FLOAT64})
TEXTS = frozenset({Kind.TEXT, Kind.JSON, Kind.UUID, Kind.INET, Kind.ENUM, Kind.NATIVE})
_PREFIX = 2  # bytes of the \x before hex digits


def array_of_text(type: LogicalType, values: pa.LargeBinaryArray) -> pa.Array:
    """Convert texts to values, null where there is none. Raises ValueError for a text that is not valid for the type."""
    if type.carried is Kind.BINARY:
        return _unhex(values)
    if type.carried in _NUMBERS:
        return values.cast(pa.large_string()).cast(arrow_type(type))
    if type.carried in TEXTS:
        return values.cast(pa.large_string()).cast(pa.string())
    raise NotImplementedError(type.carried)


def _unhex(values: pa.LargeBinaryArray) -> pa.Array:
    r"""Decode `\\x` and two digits for each byte."""
    valid, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int64, len(values) + 1)
    lengths = np.diff(offsets)
    has = np.asarray(values.is_valid())
    digits = np.frombuffer(data, np.uint8, int(offsets[-1])) if data is not None else np.zeros(0, np.uint8)
    is_prefix = np.zeros(len(digits), bool)
    for place, byte in enumerate(b"\\x"):
        at = offsets[:-1][has] + place
        if (at >= offsets[1:][has]).any() or (digits[at] != byte).any():
            raise ValueError("a bytea that does not begin with \\x: bytea_output has to be hex")
        is_prefix[at] = True
    sizes = np.where(has, lengths - _PREFIX, 0)
    if (sizes % 2).any():
        raise ValueError("a bytea that is not pairs of hex digits")
    bytes_ = unhexlify(digits[~is_prefix].data)  # raises ValueError for what is no digit
    found = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes // 2, out=found[1:])
    parts = [valid, pa.py_buffer(found), pa.py_buffer(bytes_)]
    return pa.Array.from_buffers(pa.binary(), len(values), parts, values.null_count)
