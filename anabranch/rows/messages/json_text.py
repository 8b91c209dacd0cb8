"""JSON made of whole columns: texts with their escapes, numbers, bytes, and the objects that columns are joined to.

An array of JSON texts is null where the value is; joining writes `null` there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LARGE = 1 << 29  # bytes of parts from which the result has 64-bit offsets
NULL = "null"
QUOTE = '"'
_CONTROLS = [(bytes([byte]).decode(), json.dumps(chr(byte))[1:-1]) for byte in range(32)]
# Of floats, as Arrow prints them: JSON has no number for these.
_NO_NUMBERS = {"nan": '"NaN"', "-nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def literal(text: str) -> str:
    """Return a text as JSON, in UTF-8 without needless escapes."""
    return json.dumps(text, ensure_ascii=False)


def compact(value: object) -> str:
    """Return a value as JSON without blanks between tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def joined(parts: Sequence[Any]) -> Any:
    """Join columns and constant texts, row by row. There is at least one column; nulls are written `null`."""
    arrays = [part for part in parts if not isinstance(part, str)]
    wide = sum(array.nbytes for array in arrays) + len(arrays[0]) * sum(
        len(part) for part in parts if isinstance(part, str)
    )
    kind = (
        pa.large_string() if wide > LARGE or any(pa.types.is_large_string(one.type) for one in arrays) else pa.string()
    )
    typed = [pa.scalar(part, kind) if isinstance(part, str) else part.cast(kind) for part in parts]
    return pc.binary_join_element_wise(*typed, pa.scalar("", kind), null_handling="replace", null_replacement=NULL)


def quoted(texts: Any) -> Any:
    """Return texts as JSON strings: a quotation mark, a backslash and what is below a blank is escaped, nothing else."""
    there = characters(texts)
    for raw, escape in (("\\", "\\\\"), (QUOTE, '\\"')):
        if there[ord(raw)]:
            texts = pc.replace_substring(texts, raw, escape)
    for raw, escape in _CONTROLS:
        if there[ord(raw)]:
            texts = pc.replace_substring(texts, raw, escape)
    return enclosed(texts)


def enclosed(texts: Any) -> Any:
    """Return texts in quotation marks that need no escapes; null stays null."""
    mark = pa.scalar(QUOTE, texts.type)
    return pc.binary_join_element_wise(mark, texts, mark, pa.scalar("", texts.type))


def characters(texts: Any) -> Any:
    """Return of each of the 256 bytes whether a text has it."""
    found = np.zeros(256, np.bool_)
    data = data_of(texts)
    for at in range(0, len(data), 1 << 20):
        found |= np.bincount(data[at : at + (1 << 20)], minlength=256) > 0
    return found


def data_of(array: Any) -> Any:
    """Return the bytes of texts or binary values, one value after another."""
    if not len(array):
        return np.zeros(0, np.uint8)
    width = np.int64 if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type) else np.int32
    _, offsets, data = array.buffers()
    first, last = np.frombuffer(offsets, width)[[array.offset, array.offset + len(array)]]
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]


def floats(array: Any) -> Any:
    """Return the shortest numbers that read back equal; what is none is a string. Each has a point or an exponent, so that
    readers take none for a whole number, which has no -0."""
    texts = pc.cast(array, pa.string())
    texts = pc.if_else(pc.match_substring_regex(texts, r"^-?\d+$"), pc.binary_join_element_wise(texts, ".0", ""), texts)
    if not array.null_count and np.isfinite(array.to_numpy(zero_copy_only=False)).all():
        return texts
    for raw, written in _NO_NUMBERS.items():
        texts = pc.if_else(pc.equal(texts, raw), written, texts)
    return texts


def base64_texts(array: Any) -> Any:
    """Return bytes in base64 of the usual alphabet, with padding, as JSON strings."""
    return pa.array(
        [None if one is None else f'"{base64.b64encode(one).decode()}"' for one in array.to_pylist()], pa.string()
    )


def objects(names: Sequence[str], columns: Sequence[Any]) -> Any:
    """Return an object for each row: of the names and the JSON texts of their values."""
    if not names:
        raise ValueError("an object without names has no rows")
    parts: list[Any] = []
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [f"{',' if at else '{'}{literal(name)}:", column]
    return joined([*parts, "}"])
