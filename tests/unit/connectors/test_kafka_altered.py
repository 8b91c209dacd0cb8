"""Tests of changed definitions with Avro and Protobuf, without a Kafka: some park the table, others wait for the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target.altered_tables import refuse_altered
from anabranch.connectors.kafka.target.state_forms import fields_of, fields_values, no_table
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnDropped, ColumnRenamed, ColumnRetyped, Step
from anabranch.rows.messages.avro.envelope import subjects
from anabranch.rows.messages.avro.schemas import avro_text
from anabranch.rows.messages.format import Settings
from anabranch.rows.messages.formats import TEXTS, format_of
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.messages.protobuf.text import numbers_in
from anabranch.rows.net import TargetTable
from rigs.schema_registry import PASSWORD, SchemaRegistry, schema_registry

TINY, SMALL, INT, WIDE = (LogicalType(kind) for kind in (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64))
WORD = LogicalType(Kind.TEXT)
ITEM = TableId("shop", "item")
Defined = dict[str, LogicalType]


@pytest.fixture
def there() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


AGAIN = ColumnDropped("x"), ColumnAdded("x")


def table(columns: Defined) -> TargetTable:
    return TargetTable(ITEM, ITEM, tuple(columns), tuple(columns.values()), ("id",), tuple(columns))


def altered(former: Defined, now: Defined, *steps: Step) -> AlteredTable:
    schemas = [
        TableSchema(ITEM, tuple(Column(name, type, "") for name, type in one.items()), ("id",)) for one in (former, now)
    ]
    return AlteredTable(schemas[0], table(former), schemas[1], table(now), steps)


def alter(
    there: SchemaRegistry,
    change: AlteredTable,
    decimal: str = "string",
    format: str = "avro",
    noted: Numbers | None = None,
) -> Numbers | None:
    """Let the former definition be known to the registry, and ask whether the table may go on."""
    registry = Registry(there.url, env={"REGISTRY_PASSWORD": PASSWORD}, format=format)
    known = Settings("j", "mysql", "", lambda one: "shop.item", decimal=decimal, schema_id=registry.number)
    settings = replace(known, latest=registry.latest, fields=lambda table: noted)
    if there.answers is None:
        for subject, text in TEXTS[format](settings, change.former_table):
            registry.number(subject, text)
    return refuse_altered(change, settings, format_of(format, settings), registry)


def test_a_key_with_another_schema_parks_its_table(there: SchemaRegistry) -> None:
    with pytest.raises(TargetError, match="another schema by now, which is part of the key's bytes"):
        alter(there, altered({"id": INT}, {"id": WIDE}, ColumnRetyped("id")))


def test_a_key_whose_schema_stays_goes_on(there: SchemaRegistry) -> None:
    change = altered({"id": TINY}, {"id": SMALL}, ColumnRetyped("id"))
    alter(there, change)
    registry = Registry(there.url, env={"REGISTRY_PASSWORD": PASSWORD})
    settings = Settings("j", "mysql", "", lambda one: "shop.item", schema_id=registry.number)
    numbers = [
        registry.number(subject, avro_text(schema))
        for one in (change.former_table, change.table)
        for subject, schema in subjects(settings, one)
    ]
    assert numbers[:2] == numbers[2:], "int8 and int16 are one type of Connect, so the bytes of keys stay"


@pytest.mark.parametrize(
    ("former", "step"),
    [
        ({"id": INT, "a-b": WORD}, ColumnAdded("a_b")),
        ({"id": INT, "a-b": WORD, "c": WORD}, ColumnRenamed("c", "a_b")),
    ],
)
def test_a_column_whose_name_in_avro_is_taken_parks_its_table(
    there: SchemaRegistry, former: Defined, step: Step
) -> None:
    with pytest.raises(TargetError, match=r"columns a-b, a_b of shop\.item would have one name in Avro") as refused:
        alter(there, altered(former, {"id": INT, "a-b": WORD, "a_b": WORD}, step))
    assert not isinstance(refused.value, TargetUnavailable)


def test_a_column_of_too_many_digits_parks_its_table(there: SchemaRegistry) -> None:
    change = altered({"id": INT}, {"id": INT, "v": logical_type("numeric(100,2)")}, ColumnAdded("v"))
    with pytest.raises(TargetError, match=r"column v of shop\.item: numeric\(100,2\) has more than the 76 digits"):
        alter(there, change, "precise")


def test_a_schema_that_the_registry_refuses_parks_its_table_and_registers_nothing(there: SchemaRegistry) -> None:
    change = altered({"id": INT, "v": INT}, {"id": INT, "v": WORD}, ColumnRetyped("v"))
    with pytest.raises(TargetError, match=r"subject shop\.item-value at http://127.* is not compatible") as refused:
        alter(there, change)
    assert not isinstance(refused.value, TargetUnavailable) and refused.value.table == "shop.item"
    assert there.subjects == {"shop.item-key": [1], "shop.item-value": [2]}


@pytest.mark.parametrize("status", [401, 404, 500, 503, 302])
def test_a_registry_that_does_not_say_parks_nothing(there: SchemaRegistry, status: int) -> None:
    there.answers = status, {"error_code": status, "message": "not now"}
    with pytest.raises(TargetUnavailable, match=str(status)):
        alter(there, altered({"id": INT}, {"id": INT, "v": WORD}, ColumnAdded("v")))


def test_what_it_has_already_is_not_asked_for(there: SchemaRegistry) -> None:
    change = altered({"id": INT, "v": WORD}, {"id": INT, "v": LogicalType(Kind.TEXT, length=20)}, ColumnRetyped("v"))
    alter(there, change)
    assert not [one for one in there.asked if "compatibility" in one]


def test_numbers_of_protobuf_are_those_that_the_registry_knows_or_that_were_noted(there: SchemaRegistry) -> None:
    change = altered(
        {"id": INT, "a": INT, "b": WORD}, {"id": INT, "b": WORD, "c": INT}, *(ColumnDropped("a"), ColumnAdded("c"))
    )
    found = alter(there, change, format="protobuf")
    assert found == Numbers({"id": 1, "b": 3, "c": 4}, 4)
    assert there.subjects == {"shop.item-key": [1], "shop.item-value": [2]}, "nothing is registered"
    again = altered(
        {"id": INT, "b": WORD, "c": INT},
        {"id": INT, "c": WORD, "b": INT},
        ColumnRenamed("b", "c"),
        ColumnRenamed("c", "b"),
    )
    assert alter(there, again, format="protobuf", noted=found) == Numbers({"id": 1, "c": 3, "b": 4}, 4)


def test_a_number_that_anybody_had_is_not_given_again(there: SchemaRegistry) -> None:
    """Another writer has numbers that the job does not know, and a registry that was lost has none that the job knows."""
    noted = Numbers({"id": 1, "b": 3}, 3)
    change = altered({"id": INT, "b": WORD}, {"id": INT, "b": WORD, "c": INT}, ColumnAdded("c"))
    assert alter(there, change, format="protobuf", noted=noted) == Numbers({"id": 1, "b": 3, "c": 4}, 4)
    wider = replace(noted, fields={**noted.fields, "x": 6}, highest=6)
    others = altered({"id": INT, "b": WORD, "x": INT}, {"id": INT, "b": WORD}, ColumnDropped("x"))
    alter(there, others, format="protobuf", noted=wider)
    assert alter(there, change, format="protobuf", noted=noted) == Numbers({"id": 1, "b": 3, "c": 7}, 7)
    there.subjects.clear()
    known = Numbers({"id": 1, "b": 3, "x": 6}, 8)
    there_again = altered({"id": INT, "b": WORD, "x": INT}, {"id": INT, "b": WORD, "x": WORD}, *AGAIN)
    assert alter(there, there_again, format="protobuf", noted=known) == Numbers({"id": 1, "b": 3, "x": 9}, 9)


def test_a_column_of_a_known_name_and_another_type_is_another_one_where_the_registry_alone_knows(
    there: SchemaRegistry,
) -> None:
    first = altered({"id": INT, "a": INT, "b": INT}, {"id": INT, "a": INT, "b": INT, "c": INT}, ColumnAdded("c"))
    alter(there, first, format="protobuf")
    registry = Registry(there.url, env={"REGISTRY_PASSWORD": PASSWORD}, format="protobuf")
    settings = Settings("j", "mysql", "", lambda one: "shop.item", schema_id=registry.number, latest=registry.latest)
    anew = table({"id": INT, "a": WORD, "b": WIDE})
    *_, (subject, text) = TEXTS["protobuf"](settings, anew)
    assert numbers_in(text)["Value"] == Numbers({"id": 1, "a": 4, "b": 3}, 4) and "reserved 2;" in text
    assert registry.fits(subject, text)


def test_a_type_whose_bytes_stay_goes_on_in_protobuf_and_another_one_parks_its_table(there: SchemaRegistry) -> None:
    wider = altered({"id": INT, "v": INT}, {"id": INT, "v": WIDE}, ColumnRetyped("v"))
    assert alter(there, wider, format="protobuf") == Numbers({"id": 1, "v": 2}, 2)
    for kind in (WORD, LogicalType(Kind.FLOAT64)):
        other = altered({"id": INT, "v": INT}, {"id": INT, "v": kind}, ColumnRetyped("v"))
        with pytest.raises(TargetError, match=r"subject shop\.item-value at http://127.* is not compatible") as refused:
            alter(there, other, format="protobuf")
        assert not isinstance(refused.value, TargetUnavailable)


def test_names_that_avro_has_no_place_for_go_on_in_protobuf(there: SchemaRegistry) -> None:
    change = altered({"id": INT, "a-b": WORD}, {"id": INT, "a-b": WORD, "a_b": WORD}, ColumnAdded("a_b"))
    assert alter(there, change, format="protobuf") == Numbers({"id": 1, "a-b": 2, "a_b": 3}, 3)


def test_a_registry_that_does_not_say_which_numbers_there_are_parks_nothing(there: SchemaRegistry) -> None:
    there.answers = 503, {"error_code": 503, "message": "not now"}
    change = altered({"id": INT}, {"id": INT, "v": WORD}, ColumnAdded("v"))
    with pytest.raises(TargetUnavailable, match="503"):
        alter(there, change, format="protobuf")
    there.answers = None
    assert alter(there, change, format="protobuf") == Numbers({"id": 1, "v": 2}, 2)


def test_numbers_are_part_of_the_jobs_state() -> None:
    numbers = Numbers({"id": 1, "c": 3}, 4)
    ((key, value),) = fields_values(ITEM, numbers).items()
    assert value is not None
    records = {key: json.loads(json.dumps(value))}
    assert fields_of(records, ITEM) == numbers and fields_of({}, ITEM) is None
    assert no_table(ITEM)[key] is None
