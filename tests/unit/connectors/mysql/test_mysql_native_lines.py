"""Rows to lines by the compiled code and by Python: the same lines and the same refusals, for rows and for any bytes.

Without the compiled one Python is compared with itself; the header of the run says whether it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.mysql.source.expressions import DATE
from anabranch.connectors.mysql.source.lines import Finisher
from anabranch.connectors.mysql.source.load import _joined, _Part
from anabranch.connectors.mysql.source.native import compiled_columns, compiled_lines
from anabranch.contracts import ValueRules
from anabranch.errors import AnabranchError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.compiled import compiled
from rigs.mysql_packets import EOF, lenenc, packet, rows_of

NEEDS_COMPILED = pytest.mark.skipif(not compiled("auto"), reason="the compiled code is not installed")
COLUMNS = ("k", "d", "t")
KINDS = (Kind.INT32, Kind.TIMESTAMP, Kind.TEXT)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    tuple(Column(name, LogicalType(kind), kind.value) for name, kind in zip(COLUMNS, KINDS, strict=True)),
    primary_key=("k",),
)
NUMBERS = st.integers(-(2**31), 2**31 - 1).map(lambda number: str(number).encode())
DAYS = st.tuples(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32)).map(lambda day: b"%04d-%02d-%02d" % day)
CLOCKS = st.sampled_from([b"", b" 00:00:00", b" 23:59:59.999999"])
NULLS = st.just(b"\xfe")
DATES = NULLS | st.tuples(st.just(b"\xf9"), DAYS | st.dates().map(lambda day: day.isoformat().encode()), CLOCKS).map(
    b"".join
)
TEXTS = st.text(max_size=400) | st.text("\\\t\n\rNé€😀a", max_size=20) | st.just("x" * 240)
ROWS = st.tuples(NUMBERS, DATES, NULLS | TEXTS.map(lambda text: text.encode())).map(b"\xff".join)


IN_COLUMNS = [_Part(name, is_alone=True, mark=mark) for name, mark in zip(COLUMNS, (b"", DATE, b""), strict=True)]


def lines(data: bytes, step: int, rules: ValueRules, is_compiled: bool, parts: Sequence[_Part]) -> tuple[bytes, Any]:
    """What comes of packets that arrive `step` bytes at a time, and the error."""
    raw, connection = rows_of(data, step, len(parts))
    finisher, found, error = Finisher(ORDERS, COLUMNS, rules), [], None
    assert finisher.is_plain
    front = (compiled_lines() if len(parts) == 1 else compiled_columns(b"ndw")) if is_compiled else None
    try:
        for block in finisher.blocks(_joined(raw, parts, front)):
            found.append(block)
    except AnabranchError as refused:
        error = (type(refused), refused.message, refused.hint, refused.table)
    assert connection.is_cut == (not raw._finished)
    return b"".join(found), error


def same(data: bytes, step: int, rules: ValueRules, parts: Sequence[_Part] = (_Part("x"),)) -> tuple[bytes, Any]:
    compiled_ones, error = lines(data, step, rules, True, parts)
    python, python_error = lines(data, step, rules, False, parts)
    assert error == python_error
    if error is None:
        assert compiled_ones == python
    return compiled_ones, error


@settings(deadline=None)
@given(
    st.lists(ROWS, max_size=30),
    st.integers(1, 3000),
    st.sampled_from(["stop", "null"]),
    st.sampled_from(["stop", "strip"]),
)
def test_any_rows(rows: list[bytes], step: int, zero_date: str, nul: str) -> None:
    rules = ValueRules(zero_date=zero_date, nul=nul)
    found, error = same(b"".join(packet(lenenc(row)) for row in rows) + packet(EOF), step, rules)
    assert error or found.count(b"\n") == len(rows)
    in_columns = b"".join(packet(b"".join(map(lenenc, columns_of(row)))) for row in rows) + packet(EOF)
    assert same(in_columns, step, rules, IN_COLUMNS) == (found, error)


def columns_of(row: bytes) -> list[bytes | None]:
    """The values of a row of marked bytes, as the server sends them in columns of their own."""
    number, date, words = row.split(b"\xff")
    return [None if value == b"\xfe" else value for value in (number, date.removeprefix(DATE), words)]


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, *[st.none() | st.binary(max_size=300)] * 2), max_size=10), st.integers(1, 1000))
def test_any_bytes_in_columns(rows: list[tuple[bytes, bytes | None, bytes | None]], step: int) -> None:
    def without_marks(value: bytes | None) -> bytes | None:
        return None if value is None else value.translate(None, bytes(range(0xF5, 0x100)))

    data = b"".join(packet(b"".join(lenenc(without_marks(value)) for value in row)) for row in rows)
    same(data + packet(EOF), step, ValueRules(zero_date="null", nul="strip"), IN_COLUMNS)


@NEEDS_COMPILED
@settings(deadline=None)
@given(st.binary(max_size=600), st.text("ndwx", max_size=5).map(str.encode))
def test_any_bytes_as_rows_of_columns(data: bytes, kinds: bytes) -> None:
    front = compiled_columns(kinds)
    assert front is not None
    found, at = front(data)
    assert 0 <= at <= len(data)
    assert front(data[:at]) == (found, at)
    assert (found == b"") == (at == 0)


@NEEDS_COMPILED
@pytest.mark.parametrize(
    "values",
    [
        [b"1", b"0000-00-00", b"a"],
        [b"1", b"2024-02-29", b"a\0"],
        [b"1", b"2024-02-29", b"\xf6"],
        [b"1", b"2024-02-29"],
        [b"1", b"2024-02-29", b"a", b"b"],
    ],
)
def test_columns_that_are_not_plain_are_left(values: list[bytes]) -> None:
    front = compiled_columns(b"ndw")
    assert front is not None
    before = packet(lenenc(b"7") + lenenc(None) + lenenc(b"\\" + b"x" * 300))
    row = packet(b"".join(map(lenenc, values)))
    assert front(before + row + before) == (b"7\t\\N\t\\\\" + b"x" * 300 + b"\n", len(before))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=10), st.integers(1, 1000))
def test_any_bytes_as_values(values: list[bytes], step: int) -> None:
    rows = [b"1\xff\xfe\xff" + value.replace(b"\xff", b"").replace(b"\xfd", b"") for value in values]
    same(b"".join(packet(lenenc(row)) for row in rows) + packet(EOF), step, ValueRules(zero_date="null", nul="strip"))


@NEEDS_COMPILED
@settings(deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_at_all(data: bytes) -> None:
    """It takes whole packets from the front, never more than there is, and leaves the rest as it is."""
    front = compiled_lines()
    assert front is not None
    found, at = front(data)
    assert 0 <= at <= len(data)
    assert front(data[:at]) == (found, at)
    assert (found == b"") == (at == 0)


@NEEDS_COMPILED
@pytest.mark.parametrize(
    "row", [b"1\xff\xf92024-02-29\xffa", b"1\xff\xfe\xff\\N\t", b"1\xff\xf92000-02-29 00:00:00\xff" + b"x" * 70_000]
)
def test_plain_rows_are_taken(row: bytes) -> None:
    front = compiled_lines()
    assert front is not None
    data = packet(lenenc(row))
    assert front(data)[1] == len(data)
    assert same(data * 3 + packet(EOF), 50_000, ValueRules())[1] is None


@NEEDS_COMPILED
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xfb",
        EOF,
        b"\xff\x10\x04#HY000no",
        b"\x05abcd",
        b"\x03abcd",
        b"\xfc\x03",
        *map(
            lenenc, (b"\xf90000-00-00", b"\xf92023-02-29", b"\xf91900-02-29", b"\xf92024-1-01", b"a\0", b"\xf6hex:00")
        ),
        *map(lenenc, (b"\xf81", b"\xf71", b"\xfd", b"\xf5")),
    ],
)
def test_what_is_not_plain_is_left(payload: bytes) -> None:
    front = compiled_lines()
    assert front is not None
    before = packet(lenenc(b"a"))
    assert front(before + packet(payload) + before) == (b"a\n", len(before))
