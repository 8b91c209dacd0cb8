"""Binary values of PostgreSQL as the trail has them, against models that take them one by one (no server: bytes as its send
functions make them, and bytes that they never make)."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.binary_texts import LIMIT
from anabranch.connectors.postgresql.source.binary_values import DOMAIN_READERS, READERS
from anabranch.connectors.postgresql.source.message_buffer import Layout, MessageBuffer
from anabranch.errors import ValueRefused
from anabranch.rows.builder import ChunkBuilder
from rigs.pgoutput import SCHEMA, message

BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 114, 700, 701
DATE, TIME, TIMESTAMP, INSTANT, NUMERIC, UUID, JSONB = 1082, 1083, 1114, 1184, 1700, 2950, 3802
SECOND, DAY = 1_000_000, 86_400_000_000


def read(oid: int, values: Sequence[bytes | None]) -> list[Any]:
    found = READERS[oid](pa.array(values, pa.large_binary()))
    found.validate(full=True)
    return list(found.to_pylist())


def packed(form: str, values: Sequence[Any]) -> list[bytes | None]:
    return [None if value is None else struct.pack(">" + form, value) for value in values]


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(st.none(), values), max_size=12)


# --- models -----------------------------------------------------------------------------------------------------------


def sent_numeric(value: Decimal) -> bytes:
    """As numeric_send has a number: its digits by four from the point on, without zeros at either end."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    whole = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole = whole.rjust(scale + 1, "0")
    before, behind = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    behind = behind.ljust(-(-len(behind) // 4) * 4, "0")
    all_digits = before + behind
    fours = [int(all_digits[at : at + 4]) for at in range(0, len(all_digits), 4)]
    weight = len(before) // 4 - 1
    while fours and fours[0] == 0:
        fours.pop(0)
        weight -= 1
    while fours and fours[-1] == 0:
        fours.pop()
    is_negative = sign and fours
    head = struct.pack(">HhHH", len(fours), weight if fours else 0, 0x4000 if is_negative else 0, scale)
    return head + b"".join(struct.pack(">H", four) for four in fours)


def date_text(days: int) -> tuple[str, str]:
    """A date since 2000 and its era, by the rule of Julian days."""
    left = days + 2_451_545 + 32_044
    centuries = (4 * left + 3) // 146_097
    left -= 146_097 * centuries // 4
    years = (4 * left + 3) // 1461
    left -= 1461 * years // 4
    months = (5 * left + 2) // 153
    day = left - (153 * months + 2) // 5 + 1
    month, year = months + 3 - 12 * (months // 10), 100 * centuries + years - 4800 + months // 10
    era = " BC" if year <= 0 else ""
    return f"{1 - year if year <= 0 else year:04d}-{month:02d}-{day:02d}", era


def time_text(moment: int) -> str:
    seconds, fraction = divmod(moment, SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + f".{fraction:06d}".rstrip("0") if fraction else text


def moment_text(moment: int, zone: str) -> str:
    if abs(moment) >= (1 << 63) - 1:
        return "infinity" if moment > 0 else "-infinity"
    date, era = date_text(moment // DAY)
    return f"{date} {time_text(moment % DAY)}{zone}{era}"


# --- values -----------------------------------------------------------------------------------------------------------

decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.one_of(st.integers(-(10**45), 10**45), st.integers(-20_000, 20_000)),
    st.integers(-60, 40),
)


@settings(max_examples=500)
@given(some(decimals))
def test_numerics(values: list[Decimal | None]) -> None:
    expected = [None if v is None else format(abs(v) if v == 0 else v, "f") for v in values]
    assert read(NUMERIC, [None if v is None else sent_numeric(v) for v in values]) == expected


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("NaN", "0000 0000 c000 0000"), ("Infinity", "0000 0000 d000 0020"), ("-Infinity", "0000 0000 f000 0020"),
        ("0", "0000 0000 0000 0000"), ("0.00", "0000 0000 0000 0002"), ("-0.0001", "0001 ffff 4000 0004 0001"),
        ("0.00000001", "0001 fffe 0000 0008 0001"), ("10000", "0001 0001 0000 0000 0001"),
        ("1.5", "0002 0000 0000 0001 0001 1388"), ("12345678.90", "0003 0001 0000 0002 04d2 162e 2328"),
    ],
)  # fmt: skip
def test_numerics_as_servers_send_them(text: str, sent: str) -> None:
    one = bytes.fromhex(sent)
    assert read(NUMERIC, [one]) == [text] and read(NUMERIC, [None, one, one, None]) == [None, text, text, None]


def test_the_longest_numerics_that_a_column_with_a_precision_has() -> None:
    values = [Decimal(9).scaleb(1999), Decimal(-1).scaleb(-1000), Decimal("9" * 1000), Decimal(0).scaleb(-1000)]
    assert read(NUMERIC, list(map(sent_numeric, values))) == [format(value, "f") for value in values]


moments = st.one_of(
    st.integers(-211_813_488_000_000_000, 9_223_371_331_199_999_999),
    st.integers(-4_000_000, 4_000_000).map(lambda second: second * SECOND),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, -211_813_488_000_000_000, 9_223_371_331_199_999_999]),
)


@settings(max_examples=500)
@given(some(moments))
def test_timestamps(values: list[int | None]) -> None:
    for oid, zone in ((TIMESTAMP, ""), (INSTANT, "+00")):
        expected = [None if value is None else moment_text(value, zone) for value in values]
        assert read(oid, packed("q", values)) == expected


@settings(max_examples=300)
@given(some(st.one_of(st.integers(-2_451_545, 2_145_031_948), st.integers(-800_000, -700_000))))
def test_dates(values: list[int | None]) -> None:
    expected = [None if value is None else "".join(date_text(value)) for value in values]
    assert read(DATE, packed("i", [*values, -(1 << 31), (1 << 31) - 1])) == [*expected, "-infinity", "infinity"]


@given(some(st.one_of(st.integers(0, DAY), st.integers(0, 86_400).map(lambda second: second * SECOND))))
def test_times(values: list[int | None]) -> None:
    expected = [None if value is None else time_text(value) for value in values]
    assert read(TIME, packed("q", values)) == expected


@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    for oid, form, bits in ((INT2, "h", 16), (INT4, "i", 32), (INT8, "q", 64)):
        values = data.draw(some(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)))
        assert read(oid, packed(form, values)) == values
        of_domain = DOMAIN_READERS[oid](pa.array(packed(form, values), pa.large_binary())).to_pylist()
        assert of_domain == [None if value is None else str(value) for value in values]


@given(st.data())
def test_floats_bit_by_bit(data: st.DataObject) -> None:
    for oid, form, width in ((FLOAT4, "f", 32), (FLOAT8, "d", 64)):
        values = data.draw(some(st.floats(allow_nan=False, width=width)))  # type: ignore[arg-type]  # 32 or 64, drawn
        assert packed(form, read(oid, packed(form, values))) == packed(form, values)
        (found,) = read(oid, [struct.pack(">" + form, math.nan)])
        assert math.isnan(found)


@given(some(st.text(max_size=12)), some(st.binary(max_size=12)), some(st.uuids()), some(st.booleans()))
def test_texts_bytes_uuids_and_truths(
    texts: list[str | None], bytes_: list[bytes | None], uuids: list[uuid.UUID | None], truths: list[bool | None]
) -> None:
    sent = [None if text is None else text.encode() for text in texts]
    assert read(TEXT, sent) == texts and read(BYTEA, bytes_) == bytes_
    assert read(JSONB, [None if one is None else b"\1" + one for one in sent]) == texts
    assert read(UUID, [one and one.bytes for one in uuids]) == [one and str(one) for one in uuids]
    assert read(BOOL, packed("?", truths)) == [None if one is None else "ft"[one] for one in truths]


# --- what is none -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oid", "sent"),
    [
        (BOOL, "02"), (BOOL, ""), (INT4, "000000"), (INT8, "00" * 9), (FLOAT8, "00" * 4), (UUID, "00" * 15),
        (DATE, "80000001"), (DATE, "7ffffffe"), (TIME, "ff" * 8), (TIME, "000000141dd76001"),
        (TIMESTAMP, "7ffffffffffffffe"), (INSTANT, "8000000000000001"),
        (TEXT, "ff"), (JSON, "ff"), (JSONB, ""), (JSONB, "027b7d"), (JSONB, "01ff"),
        (NUMERIC, ""), (NUMERIC, "00" * 6), (NUMERIC, "00" * 7), (NUMERIC, "0001 0000 0000 0000"),
        (NUMERIC, "0000 0000 0000 0000 0000"), (NUMERIC, "0001 0000 0000 0000 2710"), (NUMERIC, "0000 0000 8000 0000"),
        (NUMERIC, "0001 0000 0001 0000 0001"), (NUMERIC, "0001 0000 c000 0000 0001"), (NUMERIC, "0001 7fff 0000 0000 0001"),
        (NUMERIC, "0001 8000 0000 0000 0001"), (NUMERIC, "0000 0000 0000 ffff"), (NUMERIC, "ffff 0000 0000 0000 0001"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_value_are_refused(oid: int, sent: str) -> None:
    with pytest.raises(ValueError):
        read(oid, [None, bytes.fromhex(sent)])


@settings(max_examples=1000)
@given(st.sampled_from(sorted(READERS)), some(st.binary(max_size=20)))
def test_noise_is_refused_or_a_value_and_never_crashes(oid: int, noise: list[bytes | None]) -> None:
    for readers in (READERS, DOMAIN_READERS):
        if oid not in readers:
            continue
        try:
            found = readers[oid](pa.array(noise, pa.large_binary()))
        except ValueError:
            continue
        found.validate(full=True)
        assert [one is None for one in found.to_pylist()] == [one is None for one in noise]


@settings(max_examples=500)
@given(some(st.builds(lambda head, rest: struct.pack(">Hhhh", *head) + rest, st.tuples(
    st.integers(0, 4), st.integers(-600, 600), st.sampled_from([0, 0x4000, -0x4000, -0x3000]), st.integers(0, LIMIT + 5)
), st.lists(st.integers(0, 10_001), max_size=4).map(lambda ds: b"".join(struct.pack(">H", d) for d in ds)))))  # fmt: skip
def test_numerics_that_no_server_sends_are_refused_or_numbers(noise: list[bytes | None]) -> None:
    try:
        found = read(NUMERIC, noise)
    except ValueError:
        return
    for text in found:
        assert text is None or Decimal(text) is not None


def binary(*values: bytes | None) -> bytes:
    """An insert with values in binary form."""
    return message(("I", "", (), values)).replace(b"t\0\0", b"b\0\0")


def taken(readers: tuple[Any, ...], *messages: bytes) -> dict[str, list[Any]]:
    builder = ChunkBuilder(MessageBuffer)
    buffer, layout = builder.table(SCHEMA), Layout((0, 2), (True, False), 5, readers)
    assert isinstance(buffer, MessageBuffer)
    for number, one in enumerate(messages):
        buffer.add(layout, one, 0, number)
    builder.commit("here", None, 5, len(messages))
    (table,) = builder.build("").tables
    return {name: table.batch[name].to_pylist() for name in ("id", "v")}


ONE, BOTH = b"\0\0\0\1", (READERS[INT4], READERS[TEXT])


def test_messages_with_binary_values() -> None:
    messages = [
        binary(ONE, b"ab"),
        binary(ONE, None),
        message(("U", "K", (ONE, None), (ONE, "u"))).replace(b"t\0", b"b\0"),
    ]
    assert taken(BOTH, *messages) == {"id": [1, 1, 1, 1], "v": ["ab", None, None, None]}


def test_a_type_without_a_binary_form_comes_as_text() -> None:
    assert taken(BOTH, message(("I", "", (), (b"7", b"ab")))) == {"id": [7], "v": ["ab"]}


@pytest.mark.parametrize(
    ("readers", "messages"),
    [
        ((), [binary(ONE, b"ab")]),
        (BOTH, [binary(ONE, b"ab"), message(("I", "", (), (b"0001", b"ab")))]),
        ((READERS[INT8], READERS[TEXT]), [binary(b"\0" * 8, b"ab")]),
    ],
    ids=["not asked for", "both forms in a column", "of another type"],
)
def test_forms_that_were_not_asked_for_are_refused(readers: tuple[Any, ...], messages: list[bytes]) -> None:
    with pytest.raises(ValueRefused, match="column id"):
        taken(readers, *messages)
