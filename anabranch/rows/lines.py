"""The text form of values and the lines made of them: what a target's bulk load reads, what messages and bounds show.

A line is a row: text forms joined by tabs, ended by a newline, backslash, tab, newline and carriage return escaped,
`\\N` for NULL, as PostgreSQL's COPY reads them. model/datatype.py names the forms of the kinds, model/at_target.py those that
a target may want instead; everything works on whole columns. What does not live here: how a server builds the same lines (each
connector), which form a target wants (its type map).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import arrow_type
from anabranch.rows.json_texts import as_json, is_json
from anabranch.rows.raw import FARTHEST

NULL = "\\N"
ESCAPES = ((b"\\", "\\\\"), (b"\t", "\\t"), (b"\n", "\\n"), (b"\r", "\\r"))  # the backslash first
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANT = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
LARGE = 1 << 30  # bytes of one result from which 64-bit offsets are used
EXPONENT_SCALE = 7  # from this scale on Arrow prints small decimals with an exponent


def texts(type: LogicalType, array: Any) -> Any:
    """Return the column's values in text form (utf8), null where they are null; nothing is escaped."""
    found = _FORMS.get(type.carried, _plain)(type, _whole(array))
    if is_json(type):
        return pa.array([None if one is None else as_json(type, one) for one in found.to_pylist()], pa.string())
    return pc.utf8_lower(found) if type.at_target.text is TextForm.LOWER_CASE else found


def lines(types: Sequence[LogicalType], columns: Sequence[Any], null: str = NULL, nul: str = "stop") -> bytes:
    """Write rows as lines. `nul="strip"` leaves zero characters out of text; else the target is to refuse them.

    `columns` are arrays of one length in the Arrow types of the trail. The result is one block of bytes: cut large
    tables before.
    """
    if not columns or not len(columns[0]):
        return b""
    row = [_cell(type, column, nul) for type, column in zip(types, columns, strict=True)]
    if sum(cell.nbytes for cell in row) > LARGE:
        row = [pc.cast(cell, pa.large_string()) for cell in row]
    row[-1] = _joined([row[-1], ""], "\n", null)
    return _data(row[0] if len(row) == 1 else _joined(row, "\t", null))


def cells(types: Sequence[LogicalType], columns: Sequence[Any], nul: str = "stop") -> Any:
    """Return what stands in each row's line for these columns, as an array of texts: for keys, which are looked for."""
    found = [_cell(type, column, nul) for type, column in zip(types, columns, strict=True)]
    return found[0] if len(found) == 1 else _joined(found, "\t", NULL)


def escaped_line(values: Iterable[str | None]) -> bytes:
    """Write one line of values that are in text form already."""
    return ("\t".join(NULL if value is None else _escape_one(value) for value in values) + "\n").encode()


def escaped_cell(value: str) -> str:
    """Write the characters of one cell."""
    return _escape_one(value)


def unescape(cell: bytes) -> bytes:
    """Return the characters that a cell of a line stands for (not for `\\N`)."""
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), cell) if b"\\" in cell else cell


def parse_line(line: bytes) -> list[str | None]:
    """Return a line, without its newline, as values in text form."""
    return [None if cell == b"\\N" else unescape(cell).decode() for cell in line.split(b"\t")]


def text_value(type: LogicalType, value: Any) -> str | None:
    """Return one value in text form: the slow way, for messages and keys. `value` is an Arrow scalar or its Python value."""
    arrow = value.type if isinstance(value, pa.Scalar) else arrow_type(type)
    one = pa.array([value], arrow)
    found: str | None = texts(type, one)[0].as_py()
    return found


def one_text(type: LogicalType, value: bytes) -> bytes:
    """Return the text form of one value that Arrow holds as bytes."""
    found: bytes = texts(type, pa.array([value], pa.binary()))[0].as_py().encode()
    return found


def has_nul(array: Any) -> bool:
    """Return whether a text column has zero characters."""
    return b"\0" in _data(array)


def strip_nul(array: Any) -> Any:
    """Return a text column without its zero characters."""
    return pc.replace_substring(array, "\0", "") if b"\0" in _data(array) else array


# --- escapes and joining ----------------------------------------------------------------------------------------------


def _cell(type: LogicalType, column: Any, nul: str) -> Any:
    """Return a column's text form as it stands in a line."""
    column = _whole(column)
    if type.carried in _BYTES:
        return _hex(column, _prefix(type, "\\\\x"))
    text = texts(type, column)
    if type.carried not in _WORDS:
        return text
    return _escape(strip_nul(text) if nul == "strip" else text)


def _escape(text: Any) -> Any:
    data = _data(text)
    for raw, escaped in ESCAPES:
        if raw in data:
            text = pc.replace_substring(text, raw.decode(), escaped)
    return text


def _escape_one(value: str) -> str:
    for raw, escaped in ESCAPES:
        value = value.replace(raw.decode(), escaped)
    return value


def _joined(cells: Sequence[Any], separator: str, null: str) -> Any:
    return pc.binary_join_element_wise(*cells, separator, null_handling="replace", null_replacement=null)


def _data(array: Any) -> bytes:
    """Return the characters of a text array, one value after another."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if not len(array):
        return b""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, width)[[array.offset, array.offset + len(array)]]
    return b"" if data is None else bytes(memoryview(data)[ends[0] : ends[1]])


def _whole(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


# --- text forms -------------------------------------------------------------------------------------------------------


def _plain(type: LogicalType, array: Any) -> Any:
    """Write integers, floats (shortest digits that read back equal; inf, nan, -0), years, dates, clocks and text."""
    return pc.cast(array, pa.string())


def _decimal(type: LogicalType, array: Any) -> Any:
    """Write plain digits with the scale's decimals, never an exponent."""
    scale = array.type.scale
    if scale < EXPONENT_SCALE:
        return pc.cast(array, pa.string())
    digits = pc.cast(_unscaled(array), pa.string())
    negative = pc.starts_with(digits, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    sign = pc.if_else(negative, "-", "")
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, 0, -scale), ""),
        pc.utf8_slice_codeunits(digits, -scale, None),
        ".",
    )


def _unscaled(array: Any) -> Any:
    """Return the same digits as whole numbers, without copying."""
    whole = pa.decimal128(38, 0) if pa.types.is_decimal128(array.type) else pa.decimal256(76, 0)
    return pa.Array.from_buffers(whole, len(array), array.buffers(), offset=array.offset)


def _binary(type: LogicalType, array: Any) -> Any:
    return _hex(array, _prefix(type, "\\x"))


def _prefix(type: LogicalType, prefix: str) -> str:
    return "" if type.at_target.text is TextForm.BARE_DIGITS else prefix


def _vector(type: LogicalType, array: Any) -> Any:
    """Return the shortest digits of every element, as for floats, or all of them as the bytes that they are."""
    if type.at_target.text is TextForm.BARE_DIGITS:
        return _hex(array, "")
    opening, closing = "[]" if type.at_target.text is TextForm.BRACKETS else "{}"
    found = [None if value is None else opening + ",".join(_elements(value)) + closing for value in array.to_pylist()]
    return pa.array(found, pa.string())


def _elements(value: bytes) -> list[str]:
    if len(value) % 4:
        raise ValueError(f"a vector of {len(value)} bytes")
    found: list[str] = pc.cast(pa.array(np.frombuffer(value, "<f4")), pa.string()).to_pylist()
    return found


_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


def _hex(array: Any, prefix: str) -> Any:
    """Write lower-case hexadecimal digits behind a prefix."""
    wide = pc.cast(array, pa.large_binary())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    used = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]] if len(wide) else np.empty(0, np.uint8)
    digits = _large_text((ends - ends[0]) * 2 if len(wide) else np.zeros(1, np.int64), _HEX[used])
    start, nothing = pa.scalar(prefix, pa.large_string()), pa.scalar("", pa.large_string())
    result = pc.binary_join_element_wise(pc.if_else(pc.is_valid(wide), start, None), digits, nothing)
    return result if result.nbytes > LARGE else pc.cast(result, pa.string())


def _large_text(ends: Any, characters: Any) -> Any:
    """Return a text array without nulls from where its values end and their characters."""
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(ends)),
        pa.py_buffer(np.ascontiguousarray(characters).reshape(-1)),
    ]
    return pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers)


def _bit(type: LogicalType, array: Any) -> Any:
    """Write as many digits 0 and 1 as the type is long."""
    width = type.length or 64
    numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(">u8")
    digits = np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1)[:, 64 - width :] + ord("0")
    ends = np.arange(len(array) + 1, dtype=np.int64) * width
    text = _large_text(ends, digits)
    return pc.if_else(pc.is_valid(array), pc.cast(text, pa.string()), pa.scalar(None, pa.string()))


def _instant(type: LogicalType, array: Any) -> Any:
    return pc.binary_join_element_wise(pc.cast(pc.cast(array, pa.timestamp("us")), pa.string()), "+00", "")


def _duration(type: LogicalType, array: Any) -> Any:
    """Write hours with at least two digits, minutes, seconds, six decimals; a minus sign in front of all."""
    size = pc.abs(array)
    seconds = pc.divide(size, 1_000_000)
    minutes = pc.divide(seconds, 60)
    clock = pc.binary_join_element_wise(
        _digits(pc.divide(minutes, 60), 2), _digits(_rest(minutes, 60), 2), _digits(_rest(seconds, 60), 2), ":"
    )
    sign = pc.if_else(pc.less(array, 0), "-", "")
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(sign, clock, ""), _digits(_rest(size, 1_000_000), 6), "."
    )


def _rest(numbers: Any, divisor: int) -> Any:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def _digits(numbers: Any, width: int) -> Any:
    return pc.utf8_lpad(pc.cast(numbers, pa.string()), width, "0")


def _clock(type: LogicalType, array: Any) -> Any:
    """Write a date or a moment. The farthest ones are infinite (rows/raw.py)."""
    form = _instant if type.kind is Kind.INSTANT else _plain
    numbers = array.view(pa.int32() if type.kind is Kind.DATE else pa.int64())
    most = FARTHEST[type.kind]
    ends = pc.min_max(numbers)
    if ends["min"].as_py() != -most - 1 and ends["max"].as_py() != most:
        return form(type, array)
    low, high = pc.equal(numbers, -most - 1), pc.equal(numbers, most)
    near = pc.if_else(pc.or_(low, high), pa.scalar(0, numbers.type), numbers).view(array.type)
    return pc.case_when(pc.make_struct(low, high), "-infinity", "infinity", form(type, near))


_BYTES = frozenset({Kind.BINARY, Kind.GEOMETRY})
_FORMS: Mapping[Kind, Callable[[LogicalType, Any], Any]] = {
    Kind.DECIMAL: _decimal,
    **dict.fromkeys(_BYTES, _binary),
    Kind.VECTOR: _vector,
    Kind.BIT: _bit,
    **dict.fromkeys(FARTHEST, _clock),
    Kind.DURATION: _duration,
}
_WORDS = frozenset(
    {Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.NATIVE}
)  # the only ones whose text may need escapes
