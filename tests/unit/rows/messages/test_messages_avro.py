"""Messages of the format `avro`, read by a library that others wrote (fastavro), beside those of `debezium`."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import ConfigError, RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op
from anabranch.rows.messages.avro.encoding import DoesNotFit, encoder
from anabranch.rows.messages.avro.envelope import AvroFormat
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Message, Settings
from anabranch.rows.net import TargetTable

FIRST = Committed(5, "bin.1:99", 1_700_000_000_123_456, "g-1:5")
TEXT = LogicalType(Kind.TEXT, length=100)
ID = LogicalType(Kind.INT64)


@dataclass
class Known:
    """Schemas by their numbers, from 1."""

    schemas: list[tuple[str, Any]] = field(default_factory=list)

    def number(self, subject: str, text: str) -> int:
        self.schemas.append((subject, json.loads(text)))
        return len(self.schemas)

    def read(self, message: bytes | None) -> Any:
        if message is None:
            return None
        assert message[0] == 0
        schema = self.schemas[int.from_bytes(message[1:5], "big") - 1][1]
        rest = io.BytesIO(message[5:])
        found = fastavro.schemaless_reader(rest, fastavro.parse_schema(schema), None)
        assert not rest.read(), "all of it was read"
        return found


def table(columns: Sequence[str], types: Sequence[LogicalType], key: Sequence[str] = ("id",)) -> TargetTable:
    name = TableId("shop", "a")
    return TargetTable(name, name, tuple(columns), tuple(types), tuple(key), tuple(columns))


WORDS = table(("id", "word"), (ID, TEXT))


def changes(of: TargetTable, op: Sequence[Op], *values: Sequence[object]) -> TableChanges:
    arrays = [pa.array(one, arrow_type(type)) for one, type in zip(values, of.types, strict=True)]
    count = len(op)
    numbers = np.full(count, 5, np.int64), np.arange(count, dtype=np.int64)
    presence = np.ones((1, len(of.columns)), np.bool_)
    rows = pa.table(dict(zip(of.columns, arrays, strict=True)))
    return TableChanges(of, np.array(op, np.int8), *numbers, np.zeros(count, np.int16), presence, rows)


def settings(known: Known, **more: Any) -> Settings:
    made = Settings("j", "mysql", "", lambda one: f"j.{one.source.name}", schema_id=known.number)
    return replace(made, **more)


def both(batch: ChangeBatch, **more: Any) -> tuple[list[Message], list[Message], Known]:
    known = Known()
    avro = AvroFormat(settings(known, **more)).messages(batch)
    return list(avro.each()), list(DebeziumFormat(settings(known, **more)).messages(batch).each()), known


def test_what_avro_says_is_what_the_envelopes_say() -> None:
    ops = [Op.INSERT, Op.BEFORE, Op.AFTER, Op.BEFORE, Op.AFTER, Op.DELETE]
    told = changes(WORDS, ops, [1, 1, 1, 1, 2, 2], ["ä", "ä", None, None, "x" * 300, "x" * 300])
    avro, plain, known = both(ChangeBatch([FIRST], [told], [Emptied(WORDS, 5, 9)]))
    assert [subject for subject, _ in known.schemas] == ["j.a-key", "j.a-value"], "each is asked for once"
    assert len(avro) == len(plain) == 8
    for one, other in zip(avro, plain, strict=True):
        assert (one.topic, one.hash, one.headers) == (other.topic, other.hash, other.headers)
        assert known.read(one.key) == (None if other.key is None else json.loads(other.key))
        found, expected = known.read(one.value), None if other.value is None else json.loads(other.value)
        for each in (found, expected):
            for name in ("ts_ms", "ts_us", "ts_ns") if each else ():  # each was made at a time of its own
                each.pop(name)
        assert found == expected


def test_a_schema_is_that_of_connects_converter() -> None:
    decimal = LogicalType(Kind.DECIMAL, precision=10, scale=2)
    day, flag = LogicalType(Kind.DATE), LogicalType(Kind.INT8)
    of = table(("id", "price", "day", "n"), (ID, decimal, day, flag))
    told = changes(of, [Op.INSERT], [1], [Decimal("-1.50")], [None], [7])
    (one,), _, known = both(ChangeBatch([FIRST], [told]), decimal="precise")
    key, value = (schema for _, schema in known.schemas)
    assert key == {
        "type": "record",
        "name": "Key",
        "namespace": "j.a",
        "fields": [{"name": "id", "type": "long"}],
        "connect.name": "j.a.Key",
    }
    assert (value["name"], value["namespace"], value["connect.version"]) == ("Envelope", "j.a", 2)
    before, after = value["fields"][:2]
    assert after == {"name": "after", "type": ["null", "j.a.Value"], "default": None}, "described once"
    assert before["type"][1]["fields"][1:] == [
        {
            "name": "price",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 10,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
            "default": None,
        },
        {
            "name": "day",
            "type": ["null", {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}],
            "default": None,
        },
        {"name": "n", "type": ["null", {"type": "int", "connect.type": "int16"}], "default": None},
    ]
    assert known.read(one.value)["after"] == {"id": 1, "price": Decimal("-1.50"), "day": None, "n": 7}


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        (ID, -(2**63), -(2**63)),
        (ID, 2**63 - 1, 2**63 - 1),
        (LogicalType(Kind.UINT32), 2**32 - 1, 2**32 - 1),
        (LogicalType(Kind.INT16), -129, -129),
        (LogicalType(Kind.FLOAT64), -math.inf, -math.inf),
        (LogicalType(Kind.FLOAT32), 0.5, 0.5),
        (LogicalType(Kind.BINARY), b"\x00\xff", b"\x00\xff"),
        (LogicalType(Kind.UINT64), 2**64 - 1, Decimal(2**64 - 1)),
        (logical_type("boolean"), "t", True),
        (logical_type("bit(10)"), "1000000001", b"\x01\x02"),
        (logical_type("integer[]"), "{1,NULL,-3}", [1, None, -3]),
        (logical_type("text[]"), "{}", []),
        (logical_type("numeric"), "-12.5", {"scale": 1, "value": b"\x83"}),
    ],
    ids=str,
)
def test_values_come_back_as_they_were(type: LogicalType, value: object, expected: object) -> None:
    told = changes(table(("id", "v"), (ID, type)), [Op.INSERT], [1], [value])
    (one,), _, known = both(ChangeBatch([FIRST], [told]), decimal="precise")
    assert known.read(one.value)["after"]["v"] == expected


def test_not_a_number_is_one_of_avro() -> None:
    told = changes(table(("id", "v"), (ID, LogicalType(Kind.FLOAT64))), [Op.INSERT], [1], [math.nan])
    (one,), _, known = both(ChangeBatch([FIRST], [told]))
    assert math.isnan(known.read(one.value)["after"]["v"])


def test_a_table_without_a_key_has_no_schema_of_keys() -> None:
    told = changes(table(("id",), (ID,), ()), [Op.INSERT], [1])
    (one,), (plain,), known = both(ChangeBatch([FIRST], [told]))
    assert [subject for subject, _ in known.schemas] == ["j.a-value"]
    assert one.key is None and one.hash == plain.hash


def test_names_that_avro_does_not_have_are_written_with_underscores() -> None:
    of = table(("id", "a-b", "1st"), (ID, TEXT, TEXT))
    told = changes(of, [Op.INSERT], [1], ["x"], ["y"])
    (one,), _, known = both(ChangeBatch([FIRST], [told]), topic=lambda one: "j-1.9a")
    assert known.read(one.value)["after"] == {"id": 1, "a_b": "x", "_1st": "y"}
    assert [subject for subject, _ in known.schemas] == ["j-1.9a-key", "j-1.9a-value"]
    assert known.schemas[0][1]["namespace"] == "j_1._9a"
    format = AvroFormat(settings(known))
    assert format.check([of]) == []
    assert format.check([table(("id", "a-b", "a_b"), (ID, TEXT, TEXT))]) == [
        "columns a-b, a_b of shop.a would have one name in Avro"
    ]


def test_an_array_that_its_schema_does_not_have_is_refused() -> None:
    of = table(("id", "v"), (ID, logical_type("integer[]")))
    for value in ("{{1,2},{3,4}}", "[0:1]={1,2}"):
        with pytest.raises(RowRefused, match=r"cannot be told in Avro: after: v: ") as refused:
            both(ChangeBatch([FIRST], [changes(of, [Op.INSERT], [1], [value])]))
        assert refused.value.table == "shop.a"


def test_decimals_of_too_many_digits_are_refused_in_front_of_the_job_and_name_their_column() -> None:
    of = table(("id", "v"), (ID, logical_type("numeric(100,2)")))
    known = Known()
    for format in (AvroFormat, DebeziumFormat):
        (why,) = format(settings(known, decimal="precise")).check([of])
        assert why.startswith("column v of shop.a: numeric(100,2) has more than the 76 digits")
        assert not format(settings(known)).check([of])
    with pytest.raises(RowRefused, match=r"column v: numeric\(100,2\) has more") as refused:
        both(ChangeBatch([FIRST], [changes(of, [Op.INSERT], [1], ["1.00"])]), decimal="precise")
    assert refused.value.table == "shop.a"


def test_what_does_not_fit_is_never_cut() -> None:
    for kind, value in (
        ("int16", 2**15),
        ("int32", 2**31),
        ("int64", 2**63),
        ("int32", True),
        ("boolean", 1),
        ("bytes", 1),
    ):
        with pytest.raises(DoesNotFit):
            encoder({"type": kind})(value, bytearray())
    into = bytearray()
    encoder({"type": "bytes"})(base64.b64encode(b"a" * 200).decode(), into)
    assert fastavro.schemaless_reader(io.BytesIO(into), "bytes", None) == b"a" * 200


def test_without_a_registry_there_is_no_avro() -> None:
    with pytest.raises(ConfigError, match="needs a schema registry"):
        AvroFormat(Settings("j", "mysql", "", lambda one: ""))
