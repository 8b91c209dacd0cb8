"""The compiled decoders (`anabranch-native`), where they are installed, and what connectors that use them have in common.

What does not live here: what each of them is told of its logs (the connectors), what they do (`native/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import ConfigError
from anabranch.rows.builder import Directory
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.rows.installed import FOUND, IS_HIDDEN, REMEDY, SWITCH, reason

NATIVE: Any = FOUND
_META = ("<i1", "<i4", "<i8", "<i2")  # op, transaction, ordinal, shape
Given = tuple[bytes | None, int, bytes | None, bytes]
"""A column's validity (None: nothing is null), its nulls, offsets (None: values of fixed width), data."""


def compiled(decoding: str) -> bool:
    """Return whether the compiled decoder is used. `decoding`: auto, python, native.

    Raises ConfigError where it is asked for and missing.
    """
    if decoding == "native" and NATIVE is None:
        raise ConfigError(
            f'{reason()}, and [capture] decoding = "native" asks for it',
            hint=f"take {SWITCH} out of the environment" if IS_HIDDEN else REMEDY,
        )
    return decoding != "python" and NATIVE is not None


class CompiledDirectory(Directory):
    """The transactions that a compiled loop (`add`, `take`) has followed, and those that Python adds."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def add(self, native: str, gtid: str | None, commit_time: int, rows: int, origin: str | None) -> None:
        self._loop.add(native, gtid, commit_time, rows, origin)

    def take(self) -> pa.RecordBatch:
        count, columns = self._loop.take()
        arrays = [given_array(field.type, count, one) for field, one in zip(TRANSACTION_SCHEMA, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=TRANSACTION_SCHEMA)


def width(type: pa.DataType) -> int:
    """Return the bytes of a value; 0: of any length, -1: the column is left out."""
    if pa.types.is_null(type):
        return -1
    return 0 if pa.types.is_string(type) or pa.types.is_binary(type) else int(type.bit_width) // 8


def made_table(types: Sequence[pa.DataType]) -> Any:
    """Create the columns that the compiled decoder fills."""
    return NATIVE.Table([width(type) for type in types])


def given_arrays(table: Any, types: Sequence[pa.DataType], count: int) -> list[pa.Array]:
    """Remove and return the first `count` images of the decoder's columns."""
    columns = zip(types, table.take(count), strict=True)
    return [pa.nulls(count) if given is None else given_array(type, count, given) for type, given in columns]


def given_array(type: pa.DataType, count: int, given: Given) -> pa.Array:
    validity, nulls, offsets, data = given
    parts = [validity, data] if offsets is None else [validity, offsets, data]
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(type, count, buffers, nulls)


def given_meta(parts: list[bytes]) -> list[np.ndarray[Any, Any]]:
    """Return op, transaction, ordinal and shape of each image."""
    return [np.frombuffer(part, kind) for part, kind in zip(parts, _META, strict=True)]
