"""Values that are drawn are of their type."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.raw import parse_text
from anabranch.scan.drawn import drawn

TYPES = [
    *(LogicalType(kind) for kind in Kind if kind not in (Kind.GEOMETRY, Kind.NATIVE, Kind.VECTOR, Kind.DECIMAL)),
    LogicalType(Kind.DECIMAL, precision=65, scale=30),
    LogicalType(Kind.DECIMAL, precision=5, scale=0),
    LogicalType(Kind.DECIMAL, precision=3, scale=3),
    LogicalType(Kind.TEXT, length=3),
    LogicalType(Kind.BINARY, length=3),
    LogicalType(Kind.BIT, length=64),
    LogicalType(Kind.TIMESTAMP, fraction=0),
    LogicalType(Kind.SET, values=("a", "b")),
    LogicalType(Kind.ENUM, values=("a", "b")),
]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_each_value_is_one_of_its_type(type: LogicalType) -> None:
    values = drawn(type, Random(7), 200)
    assert len(values) == 200 and values == drawn(type, Random(7), 200)
    for value in values:
        parse_text(type, value)
        assert ("\0" not in value and value.isprintable()) or type.kind in (Kind.TEXT, Kind.JSON)
        assert type.kind is not Kind.TEXT or len(value) <= (type.length or 60)


@pytest.mark.parametrize("kind", [Kind.GEOMETRY, Kind.NATIVE, Kind.VECTOR])
def test_a_kind_without_a_form_of_its_own_is_left_to_the_source(kind: Kind) -> None:
    assert drawn(LogicalType(kind), Random(7), 10) == []
