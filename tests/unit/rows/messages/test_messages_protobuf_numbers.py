"""Numbers of fields of `protobuf`: they stay with their columns over changed definitions and over what a registry prints."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnDropped, ColumnRenamed, Step
from anabranch.rows.messages.protobuf.numbers import Numbers, altered
from anabranch.rows.messages.protobuf.schemas import file_of
from anabranch.rows.messages.protobuf.text import Unreadable, numbers_in, text_of
from anabranch.rows.net import TargetTable
from rigs.protobuf_schemas import compiled, follows, message_class, reprinted

INT = LogicalType(Kind.INT32)
ITEM = TableId("shop", "item")


def change(former: tuple[str, ...], now: tuple[str, ...], *steps: Step) -> AlteredTable:
    schemas = [TableSchema(ITEM, tuple(Column(name, INT, "int") for name in one), ("id",)) for one in (former, now)]
    tables = [TargetTable(ITEM, ITEM, one, (INT,) * len(one), ("id",), one) for one in (former, now)]
    return AlteredTable(schemas[0], tables[0], schemas[1], tables[1], steps)


def text(numbers: Numbers, name: str = "Value") -> str:
    fields = [{"type": "int32", "optional": True, "field": one} for one in numbers.fields]
    return text_of(file_of({"type": "struct", "name": f"t.{name}", "fields": fields}, {name: numbers}))


FORMER = Numbers().of(("id", "a", "b"))


@pytest.mark.parametrize(
    ("now", "steps", "fields", "highest"),
    [
        (("id", "a", "b", "c"), (ColumnAdded("c"),), {"id": 1, "a": 2, "b": 3, "c": 4}, 4),
        (("c", "id", "a", "b"), (ColumnAdded("c"),), {"id": 1, "a": 2, "b": 3, "c": 4}, 4),
        (("id", "b"), (ColumnDropped("a"),), {"id": 1, "b": 3}, 3),
        (("id", "a"), (ColumnDropped("b"),), {"id": 1, "a": 2}, 3),
        (("id", "a", "c"), (ColumnRenamed("b", "c"),), {"id": 1, "a": 2, "c": 3}, 3),
        (("id", "b", "a"), (ColumnRenamed("a", "b"), ColumnRenamed("b", "a")), {"id": 1, "b": 2, "a": 3}, 3),
        (("id", "a", "b"), (ColumnDropped("b"), ColumnAdded("b")), {"id": 1, "a": 2, "b": 4}, 4),
        (
            ("id", "b", "a"),
            (ColumnDropped("b"), ColumnRenamed("a", "b"), ColumnAdded("a")),
            {"id": 1, "b": 2, "a": 4},
            4,
        ),
    ],
)
def test_a_number_stays_with_its_column(
    now: tuple[str, ...], steps: tuple[Step, ...], fields: dict[str, int], highest: int
) -> None:
    found = altered(FORMER, change(("id", "a", "b"), now, *steps))
    assert (dict(found.fields), found.highest) == (fields, highest)
    assert Numbers.from_json(found.to_json()) == found
    assert follows(text(FORMER), text(found)), "a registry takes it"
    assert numbers_in(reprinted(text(found)))["Value"] == found, "and tells it to who begins anew"


def test_a_number_that_was_left_is_nobodys_again() -> None:
    found = altered(FORMER, change(("id", "a", "b"), ("id", "a"), ColumnDropped("b")))
    assert "reserved 3;" in text(found)
    again = altered(found, change(("id", "a"), ("id", "a", "b"), ColumnAdded("b")))
    assert again.fields["b"] == 4 and "reserved 3;" in text(again)
    read = numbers_in(text(found))["Value"]
    assert read.of(("id", "a", "b")) == again, "also where the registry alone knows of it"


def test_numbers_that_protobuf_keeps_are_left_out() -> None:
    found = Numbers({"a": 18998}, 18998).of(("a", "b", "c", "d"))
    assert dict(found.fields) == {"a": 18998, "b": 18999, "c": 20000, "d": 20001}
    without = Numbers({"d": 20001}, 20005)
    assert list(without.reserved()) == [(1, 18999), (20000, 20000), (20002, 20005)]
    compiled(text(without))
    with pytest.raises(OverflowError):
        Numbers({"a": (1 << 29) - 1}).of(("a", "b"))


_NAMES = st.lists(st.text(min_size=1, max_size=12).filter(lambda one: "\x00" not in one and one[0] != "["), unique=True,
                  min_size=1, max_size=8)  # fmt: skip


@given(_NAMES.filter(lambda names: all(ord(char) < 0xD800 for name in names for char in name)), st.randoms())
def test_whatever_columns_are_called_their_numbers_are_read_back(names: list[str], random: object) -> None:
    numbers = Numbers({"gone": 2}, 5).of(names)
    printed = text(numbers)
    assert numbers_in(printed) == {"Value": numbers}


@given(st.lists(st.sampled_from(("a_b", "a-b", "aB", "AB", "a__b", "_a_b", "a_b_2", "ab2", "a b", "ä", "_", "__", "a_b_1",
                                 "_AB")), unique=True, min_size=2))  # fmt: skip
def test_names_that_are_alike_do_not_collide(names: list[str]) -> None:
    made = text(Numbers().of(names))
    found = MessageToDict(message_class(made)(**{one.name: 1 for one in message_class(made).DESCRIPTOR.fields}))
    assert found.keys() == set(names)


@pytest.mark.parametrize(
    "schema",
    [
        "message A { oneof b { string c = 1; } }",
        "message A { map<string, int32> b = 1; }",
        "message A { string b = 1",
        "message A { string b; }",
        "message A { enum B { C = 0; } }",
        '"',
    ],
)
def test_what_no_job_has_written_is_not_read(schema: str) -> None:
    with pytest.raises(Unreadable):
        numbers_in(schema)


def test_texts_of_a_registry_are_read_in_whatever_manner() -> None:
    found = numbers_in(
        'syntax=\'proto3\';package a.b;import "x.proto";option java_package = "c";/* of\nlines */message A{option deprecated='
        "true;reserved 2,4 to 6;reserved \"old\";optional .a.b.A b=0x1[deprecated=true,json_name='\\303\\244\\x41\\u00e4'];;"
        "message B{repeated string message=7;}B option=8;}"
    )
    assert found == {"A": Numbers({"äAä": 1, "option": 8}, 8), "B": Numbers({"message": 7}, 7)}
    assert numbers_in("message A { reserved 3 to max; }")["A"].highest == (1 << 29) - 1
