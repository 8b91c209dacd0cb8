"""Messages of the format `debezium`: the envelope, schemas, transactions over several batches, images that lack something."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Message, Settings
from anabranch.rows.net import TargetTable

NOW = 1_700_000_001_234_567_890
TYPES = (LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=100))
TABLE = TargetTable(TableId("shop", "a"), TableId("shop", "a"), ("id", "word"), TYPES, ("id",), ("id", "word"))
SETTINGS = Settings("j", "mysql", "", lambda table: f"j.{table.source.schema}.{table.source.name}")
FIRST = Committed(5, "bin.1:99", 1_700_000_000_123_456)
SECOND = Committed(6, "bin.1:120", 1_700_000_000_500_000, "g-1:6")
Image = tuple[Op, int, str | None]


def changes(*images: Image, carries: Sequence[tuple[bool, bool]] = (), first: int = 0, at: int = 5) -> TableChanges:
    op, key, word = (list(column) for column in zip(*images, strict=True))
    rows = pa.table({"id": pa.array(key, pa.int64()), "word": pa.array(word, pa.string())})
    count = len(images)
    presence = np.array(carries or [(True, True)] * count)
    numbers = np.full(count, at, np.int64), np.arange(first, first + count, dtype=np.int64)
    return TableChanges(TABLE, np.array(op, np.int8), *numbers, np.arange(count, dtype=np.int16), presence, rows)


def made(*tables: TableChanges, **settings: Any) -> list[Message]:
    found = DebeziumFormat(replace(SETTINGS, **settings), lambda: NOW)
    return list(found.messages(ChangeBatch([FIRST, SECOND], tables)).each())


def payload(one: Message) -> Any:
    return None if one.value is None else json.loads(one.value)


def test_the_envelope_has_the_members_of_debezium_in_their_order() -> None:
    (one,) = made(changes((Op.INSERT, 1, 'a"')))
    assert one.value is not None
    assert one.value.decode() == (
        '{"before":null,"after":{"id":1,"word":"a\\""},"source":{"version":"0.1.0","connector":"mysql","name":"j",'
        '"ts_ms":1700000000123,"snapshot":"false","db":"shop","sequence":null,"ts_us":1700000000123456,'
        '"ts_ns":1700000000123456000,"table":"a","server_id":0,"gtid":null,"file":"bin.1","pos":99,"row":0,"thread":null,'
        '"query":null},"transaction":null,"op":"c","ts_ms":1700000001234,"ts_us":1700000001234567,'
        '"ts_ns":1700000001234567890}'
    )
    assert (one.topic, one.key) == ("j.shop.a", b'{"id":1}')


def test_a_postgresql_has_its_schema_and_lsn() -> None:
    found = DebeziumFormat(replace(SETTINGS, source="postgresql", database="app"), lambda: NOW)
    known = [Committed(5, "1/A", 0)]
    (one,) = found.messages(ChangeBatch(known, [changes((Op.INSERT, 1, None))])).each()
    source = payload(one)["source"]
    assert [source[name] for name in ("db", "schema", "table", "lsn")] == ["app", "shop", "a", (1 << 32) + 10]


def test_a_changed_key_is_a_delete_a_tombstone_and_an_insert() -> None:
    found = made(changes((Op.BEFORE, 1, "a"), (Op.AFTER, 2, "a"), (Op.BEFORE, 2, "a"), (Op.AFTER, 2, "b")))
    told = [None if payload(one) is None else payload(one)["op"] for one in found]
    assert told == ["d", None, "c", "u"]
    assert [one.key for one in found] == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":2}']


def test_schemas_stand_in_front_of_key_and_value() -> None:
    (one,) = made(changes((Op.INSERT, 1, "a")), schema=True)
    key, value = json.loads(one.key or b""), payload(one)
    field = {"type": "int64", "optional": False, "field": "id"}
    assert key == {
        "schema": {"type": "struct", "fields": [field], "optional": False, "name": "j.shop.a.Key"},
        "payload": {"id": 1},
    }
    before, after, *rest = value["schema"]["fields"]
    assert before["fields"] == [field, {"type": "string", "optional": True, "field": "word"}]
    assert (before["field"], after["field"]) == ("before", "after")
    assert [each["field"] for each in rest] == ["source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    source = next(each for each in rest if each["field"] == "source")
    assert [each["field"] for each in source["fields"]] == list(value["payload"]["source"])
    assert value["payload"]["after"] == {"id": 1, "word": "a"}


def test_transactions_are_counted_over_batches() -> None:
    found = DebeziumFormat(replace(SETTINGS, transactions="j.transaction"), lambda: NOW)
    found.begin()
    large = changes((Op.INSERT, 1, "a"), (Op.BEFORE, 1, "a"), (Op.AFTER, 2, "a"))
    messages = list(found.messages(ChangeBatch([FIRST], [large])).each())
    more = changes((Op.DELETE, 2, "a"), first=9)
    behind = changes((Op.INSERT, 3, "c"), at=6)
    emptied = [Emptied(TABLE, 6, 7)]
    messages += found.messages(ChangeBatch([FIRST, SECOND], [more, behind], emptied)).each()
    messages += found.end().each()
    told = []
    for one in messages:
        value = payload(one)
        if one.topic == "j.transaction":
            told.append((value["status"], json.loads(one.key or b"")["id"], value["event_count"]))
        elif value is not None:
            told.append((value["op"], value["transaction"]["id"], value["transaction"]["total_order"]))
    first, second = "5@bin.1:99", "g-1:6"
    assert told == [
        ("BEGIN", first, None), ("c", first, 1), ("d", first, 2), ("c", first, 3), ("d", first, 4), ("END", first, 4),
        ("BEGIN", second, None), ("c", second, 1), ("t", second, 2), ("END", second, 2),
    ]  # fmt: skip
    assert payload(messages[-1])["data_collections"] == [{"data_collection": "shop.a", "event_count": 2}]
    assert list(found.end().each()) == []


def test_what_the_log_does_not_have_is_said() -> None:
    whole, part = (True, True), (True, False)
    found = made(
        changes(
            (Op.BEFORE, 1, None), (Op.AFTER, 1, None), (Op.DELETE, 1, None), (Op.BEFORE, 2, "x"), (Op.AFTER, 2, None),
            carries=[part, part, part, whole, part],
        )
    )  # fmt: skip
    images = [(payload(one)["before"], payload(one)["after"]) for one in found if one.value is not None]
    assert images == [
        (None, {"id": 1, "word": "__debezium_unavailable_value"}),
        ({"id": 1, "word": None}, None),
        ({"id": 2, "word": "x"}, {"id": 2, "word": "x"}),
    ]


def test_a_key_that_the_log_does_not_have_is_refused() -> None:
    with pytest.raises(RowRefused, match="no key"):
        made(changes((Op.DELETE, 1, "a"), carries=[(False, True)]))
