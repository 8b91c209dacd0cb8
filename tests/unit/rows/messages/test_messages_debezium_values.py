"""Values of types as Debezium has them; what Debezium itself writes is in tests/live/test_messages_as_debezium.py."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source.edge_values import values_of
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import arrow_type
from anabranch.rows.messages.debezium.values import told

ARRAYS = [type for type in values_of(18) if type.endswith("[]")]


def cells(type: LogicalType, *values: object, decimal: str = "precise") -> list[Any]:
    found = told(type, decimal).cell(type, pa.array(values, arrow_type(type))).to_pylist()
    return [None if one is None else json.loads(one) for one in found]


def whole(text: str | None) -> int:
    return int.from_bytes(base64.b64decode(text or ""), "big", signed=True)


def test_decimals_are_bytes_or_text() -> None:
    two = LogicalType(Kind.DECIMAL, precision=10, scale=2)
    found = cells(two, Decimal("-1.50"), Decimal("0.00"), None)
    assert [one and whole(one) for one in found] == [-150, 0, None]
    assert cells(two, Decimal("-1.50"), decimal="string") == ["-1.50"]
    assert whole(cells(LogicalType(Kind.UINT64), 2**64 - 1)[0]) == 2**64 - 1
    assert cells(LogicalType(Kind.UINT64), 2**64 - 1, decimal="string") == ["18446744073709551615"]


def test_numbers_of_any_digits_have_a_scale_each() -> None:
    found = cells(logical_type("numeric"), "0.00", "1e30", "-12.5")
    assert [(one["scale"], whole(one["value"])) for one in found] == [(2, 0), (0, 10**30), (1, -125)]
    for type in ("numeric", "numeric(5,2)"):
        with pytest.raises(RowRefused, match=r"NaN"):
            cells(logical_type(type), "1", "NaN")
        assert cells(logical_type(type), "NaN", decimal="string") == ["NaN"]


def test_a_negative_scale_is_told_without_decimals() -> None:
    type = logical_type("numeric(3,-2)")
    assert [one and whole(one) for one in cells(type, "99900", "-100", "0", None)] == [99900, -100, 0, None]
    schema = told(type, "precise").schema
    assert schema["parameters"] == {"scale": "0", "connect.decimal.precision": "5"}
    assert cells(type, "99900", decimal="string") == ["99900"]
    long = "9" * 38 + "00"
    assert whole(cells(logical_type("numeric(38,-2)"), long)[0]) == int(long)


def test_more_digits_than_there_is_room_for_are_refused() -> None:
    most = "9" * 74 + ".99"
    assert whole(cells(logical_type("numeric(76,2)"), most)[0]) == int(most.replace(".", ""))
    for type in ("numeric(100,2)", "numeric(77,0)", "numeric(75,-2)"):
        for value in ("1", None):
            with pytest.raises(RowRefused, match="more than the 76 digits") as refused:
                cells(logical_type(type), value)
            assert refused.value.hint == 'decimal = "string" tells it'
    assert cells(logical_type("numeric(100,2)"), "1.00", decimal="string") == ["1.00"]


@pytest.mark.parametrize(
    ("type", "values", "expected"),
    [
        ("date", ["2024-02-29", "4713-01-01 BC", "10000-01-01"], [19782, -2440550, 2932897]),
        ("date", ["infinity", "-infinity", None], [2147483647, -2147483648, None]),
        ("time(3) without time zone", ["12:00:00.123"], [43_200_123]),
        ("time without time zone", ["24:00:00", "00:00:00.000001"], [86_400_000_000, 1]),
        ("time with time zone", ["12:00:00.5+05:30", "12:00:00-03"], ["12:00:00.5+05:30", "12:00:00-03:00"]),
        ("timestamp(3) without time zone", ["1969-12-31 23:59:59.999"], [-1]),
        ("timestamp without time zone", ["0001-01-01 00:00:00", None], [-62_135_596_800_000_000, None]),
        ("timestamp without time zone", ["infinity", "10000-01-01 00:00:00"], [9223372036825200000, 253402300800000000]),
        ("timestamp with time zone", ["2024-03-31 00:30:00.5+00"], ["2024-03-31T00:30:00.500000Z"]),
        (
            "timestamp with time zone",
            ["0044-03-15 11:00:00+00 BC", "-infinity", "10000-01-01 00:00:00.5+00"],
            ["-0043-03-15T11:00:00.000000Z", "-infinity", "+10000-01-01T00:00:00.500000Z"],
        ),
        ("interval", ["-10 mons -3 days +04:05:06.789", "1 year -04:00:00"], ["P0Y-10M-3DT4H5M6.789S", "P1Y0M0DT-4H0M0S"]),
        ("boolean", ["t", "f", None], [True, False, None]),
        ("bit(1)", ["1", "0"], [True, False]),
        ("bit(10)", ["1000000001"], [base64.b64encode(b"\x01\x02").decode()]),
        ("bytea[]", ['{"\\\\x00ff",NULL}'], [["\\x00ff", None]]),
        ("numeric(5,2)[]", ["{1.00,NaN}"], [["1.00", "NaN"]]),
        ("integer[]", ["{{1,NULL},{3,4}}", "[-2:0]={1,2,3}"], [[[1, None], [3, 4]], {"[-2:0]": [1, 2, 3]}]),
        ("money", ["-$12.08"], ["-$12.08"]),
        ("oid", ["4294967295"], [4294967295]),
    ],
)  # fmt: skip
def test_values_of_a_postgresql(type: str, values: list[str | None], expected: list[object]) -> None:
    made = logical_type(type, delimiter="," if type.endswith("[]") else "")
    assert cells(made, *values) == expected


def test_a_moment_that_microseconds_do_not_hold_is_refused() -> None:
    with pytest.raises(RowRefused, match="64 bits"):
        cells(logical_type("timestamp without time zone"), "294276-12-31 23:59:59.999999")


def test_domains_are_told_as_what_they_are_made_of() -> None:
    assert cells(logical_type("d", base="integer"), "-5") == [-5]
    assert cells(logical_type("d", base="bytea"), "\\x00ff") == [base64.b64encode(b"\0\xff").decode()]
    assert cells(logical_type("d", base="double precision"), "NaN", "1e23", "-0") == ["NaN", 1e23, -0.0]


def test_values_of_a_mysql() -> None:
    assert cells(LogicalType(Kind.BIT, length=10), 513) == [base64.b64encode(b"\x01\x02").decode()]
    assert cells(LogicalType(Kind.BIT, length=1), 1, 0, None) == [True, False, None]
    second = 1_711_852_200_499_999
    for fraction, end in ((0, "Z"), (3, ".499Z"), (6, ".499999Z")):
        assert cells(LogicalType(Kind.INSTANT, fraction=fraction), second, None) == [f"2024-03-31T02:30:00{end}", None]
    assert cells(LogicalType(Kind.DURATION), -3_020_399_000_000) == [-3_020_399_000_000]
    point = bytes.fromhex("0101000020e6100000" + "00" * 16)
    assert cells(LogicalType(Kind.GEOMETRY), point) == [
        {"wkb": base64.b64encode(bytes.fromhex("0101000000" + "00" * 16)).decode(), "srid": 4326}
    ]
    assert cells(LogicalType(Kind.VECTOR), b"\0\0\x80\x3f\0\0\0\x40") == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("decimal", ["string", "precise"])
def test_every_kind_has_a_schema_and_tells_null(kind: Kind, decimal: str) -> None:
    type = LogicalType(kind, length=3 if kind is Kind.BIT else None, precision=5 if kind is Kind.DECIMAL else 0)
    assert cells(type, None, decimal=decimal) == [None]
    assert told(type, decimal).schema["type"] in (
        "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "struct", "array",
    )  # fmt: skip
