"""Text forms and lines, against one simple function per value."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.at_target import AtTarget, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import arrow_type
from anabranch.rows.lines import escaped_line, lines, strip_nul, text_value, texts
from anabranch.rows.raw import parse_text

EPOCH = datetime(1970, 1, 1)


def duration_text(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{'-' if micros < 0 else ''}{hours:02d}:{minute:02d}:{second:02d}.{fraction:06d}"


def moment_text(value: datetime) -> str:
    return f"{value.date().isoformat()} {value.strftime('%H:%M:%S.%f')}"


def wanted(kind: Kind, form: TextForm) -> LogicalType:
    """A column of a target that reads this text."""
    return LogicalType(kind, at_target=AtTarget(form))


CASES: dict[str, tuple[LogicalType, st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "int8": (LogicalType(Kind.INT8), st.integers(-128, 127), str),
    "int64": (LogicalType(Kind.INT64), st.integers(-(2**63), 2**63 - 1), str),
    "uint64": (LogicalType(Kind.UINT64), st.integers(0, 2**64 - 1), str),
    "year": (LogicalType(Kind.YEAR), st.integers(0, 2155), str),
    "text": (LogicalType(Kind.TEXT), st.text(st.characters(codec="utf-8")), str),
    "json": (LogicalType(Kind.JSON), st.text(st.characters(codec="utf-8")), str),
    "binary": (LogicalType(Kind.BINARY), st.binary(), lambda b: "\\x" + b.hex()),
    "uuid": (LogicalType(Kind.UUID), st.uuids().map(str), str),
    "lower case": (wanted(Kind.TEXT, TextForm.LOWER_CASE), st.uuids().map(lambda u: str(u).upper()), str.lower),
    "ewkb": (LogicalType(Kind.GEOMETRY), st.binary(), lambda b: "\\x" + b.hex()),
    "bare digits": (wanted(Kind.GEOMETRY, TextForm.BARE_DIGITS), st.binary(), bytes.hex),
    "bit1": (LogicalType(Kind.BIT, 1), st.integers(0, 1), str),
    "bit13": (LogicalType(Kind.BIT, 13), st.integers(0, 2**13 - 1), lambda n: format(n, "013b")),
    "bit64": (LogicalType(Kind.BIT, 64), st.integers(0, 2**64 - 1), lambda n: format(n, "064b")),
    "date": (LogicalType(Kind.DATE), st.dates(), date.isoformat),
    "timestamp": (LogicalType(Kind.TIMESTAMP), st.datetimes(), moment_text),
    "instant": (
        LogicalType(Kind.INSTANT),
        st.datetimes(timezones=st.just(UTC)),
        lambda value: moment_text(value.replace(tzinfo=None)) + "+00",
    ),
    "duration": (LogicalType(Kind.DURATION), st.integers(-(10**13), 10**13), duration_text),
}


def decimal_cases(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


def decimal_text(value: Decimal, scale: int) -> str:
    sign, digits, _ = value.as_tuple()
    text = "".join(map(str, digits)).rjust(scale + 1, "0")
    return ("-" if sign else "") + (f"{text[:-scale]}.{text[-scale:]}" if scale else text)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_text_forms_are_those_of_one_value(name: str, data: st.DataObject) -> None:
    type, values, form = CASES[name]
    column = data.draw(st.lists(st.none() | values, max_size=6))
    offset = data.draw(st.integers(0, len(column)))
    array = pa.array(column, arrow_type(type)).slice(offset)
    assert texts(type, array).to_pylist() == [None if v is None else form(v) for v in column[offset:]]


@pytest.mark.parametrize(
    ("precision", "scale"), [(5, 0), (12, 2), (10, 6), (10, 7), (38, 38), (38, 10), (65, 30), (76, 7)]
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_decimals_are_plain_digits(precision: int, scale: int, data: st.DataObject) -> None:
    type = LogicalType(Kind.DECIMAL, precision=precision, scale=scale)
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    values = data.draw(st.lists(st.none() | decimal_cases(precision, scale) | st.just(Decimal(0)), max_size=6))
    found = texts(type, pa.array(values, arrow).slice(min(1, len(values)))).to_pylist()
    assert found == [None if v is None else decimal_text(v if v else abs(v), scale) for v in values[1:]]


@settings(max_examples=150, deadline=None)
@given(st.floats(), st.floats(width=32))
def test_floats_read_back_equal(double: float, single: float) -> None:
    text = text_value(LogicalType(Kind.FLOAT64), double)
    assert text is not None
    assert struct.pack("d", float(text)) == struct.pack("d", double) or (math.isnan(double) and text == "nan")
    text = text_value(LogicalType(Kind.FLOAT32), pa.scalar(single, pa.float32()))
    assert text is not None
    back = struct.unpack("f", struct.pack("f", float(text)))[0]
    assert back == single or math.isnan(single)


def test_special_floats() -> None:
    values = pa.array([-0.0, math.inf, -math.inf, math.nan, None, 16777215.0])
    found = texts(LogicalType(Kind.FLOAT64), values).to_pylist()
    assert found == ["-0", "inf", "-inf", "nan", None, "16777215"]


def reference_line(row: list[str | None]) -> str:
    escapes = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    return "\t".join("\\N" if v is None else "".join(escapes.get(c, c) for c in v) for v in row) + "\n"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_lines_are_the_escaped_text_forms(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=5))
    rows = data.draw(st.integers(0, 5))
    tricky = st.text(st.sampled_from("\\\t\n\rNx é"))
    columns, types, expected = [], [], []
    for name in names:
        type, values, form = CASES[name]
        values = (tricky | values) if name == "text" else values
        column = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        types.append(type)
        columns.append(pa.array(column, arrow_type(type)))
        expected.append([None if v is None else form(v) for v in column])
    whole = "".join(reference_line(list(row)) for row in zip(*expected, strict=True)).encode()
    assert lines(types, columns) == whole
    assert b"".join(escaped_line(row) for row in zip(*expected, strict=True)) == whole


def test_chunked_and_sliced_columns() -> None:
    type = LogicalType(Kind.TEXT)
    chunked = pa.chunked_array([pa.array(["a", "b\t"]), pa.array(["c", None])])
    assert lines([type, type], [chunked.slice(1), chunked.slice(1)]) == b"b\\t\tb\\t\nc\tc\n\\N\t\\N\n"


def test_zero_characters_are_stripped_on_demand_only() -> None:
    type = LogicalType(Kind.TEXT)
    column = pa.array(["a\0b", "\0", None])
    assert lines([type], [column]) == b"a\0b\n\0\n\\N\n"
    assert lines([type], [column], nul="strip") == b"ab\n\n\\N\n"
    assert strip_nul(column).to_pylist() == ["ab", "", None]


def test_a_word_that_looks_like_null_stays_a_word() -> None:
    assert lines([LogicalType(Kind.TEXT)], [pa.array(["\\N", None])]) == b"\\\\N\n\\N\n"


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_text_reads_back_as_the_same_value(name: str, data: st.DataObject) -> None:
    """What lines.py writes, arrow.py reads."""
    type, values, _ = CASES[name]
    value = data.draw(values)
    text = text_value(type, value)
    assert text is not None
    raw = parse_text(type, text)
    assert (
        text_value(
            type,
            pa.array([raw.decode() if isinstance(raw, bytes) and name in ("text", "json") else raw], arrow_type(type))[
                0
            ],
        )
        == text
    )


def test_duration_limits_of_the_source() -> None:
    limit = timedelta(hours=838, minutes=59, seconds=59) // timedelta(microseconds=1)
    assert text_value(LogicalType(Kind.DURATION), -limit) == "-838:59:59.000000"
    assert text_value(LogicalType(Kind.DURATION), None) is None
