"""Messages of the format `protobuf`, read by classes that protoc has made of the texts, beside those of `debezium`."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import ConfigError, RowRefused, TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op
from anabranch.rows.messages.avro.encoding import DoesNotFit
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Message, Settings
from anabranch.rows.messages.protobuf.encoding import writer
from anabranch.rows.messages.protobuf.envelope import ProtobufFormat
from anabranch.rows.messages.protobuf.schemas import file_of
from anabranch.rows.net import TargetTable
from rigs.protobuf_schemas import message_class, reprinted

FIRST = Committed(5, "bin.1:99", 1_700_000_000_123_456, "g-1:5")
TEXT = LogicalType(Kind.TEXT, length=100)
ID = LogicalType(Kind.INT64)


@dataclass
class Known:
    """Schemas by their numbers, from 1; the latest of a subject is printed as a registry may print it."""

    schemas: list[tuple[str, str]] = field(default_factory=list)

    def number(self, subject: str, text: str) -> int:
        self.schemas.append((subject, text))
        return len(self.schemas)

    def latest(self, subject: str) -> str | None:
        found = [text for one, text in self.schemas if one == subject]
        return reprinted(found[-1]) if found else None

    def read(self, message: bytes | None) -> Any:
        if message is None:
            return None
        assert message[0] == 0 and message[5] == 0, "the first message of its file"
        return message_class(self.schemas[int.from_bytes(message[1:5], "big") - 1][1]).FromString(message[6:])


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
    topic = more.pop("topic", lambda one: f"j.{one.source.name}")
    return replace(Settings("j", "mysql", "", topic, schema_id=known.number, latest=known.latest), **more)


def made(of: TargetTable, *values: object, **more: Any) -> tuple[Any, Known]:
    """Return the row of an insert, as a reader has it."""
    known = Known()
    batch = ChangeBatch([FIRST], [changes(of, [Op.INSERT], *([one] for one in values))])
    (one,) = ProtobufFormat(settings(known, **more)).messages(batch).each()
    return known.read(one.value).after, known


def without_nothing(value: Any) -> Any:
    """Return JSON without what is null: a message of Protobuf does not have it."""
    if isinstance(value, dict):
        return {name: without_nothing(one) for name, one in value.items() if one is not None}
    return value


def as_json(message: Any) -> Any:
    """Return a message as its reader's JSON, with whole numbers as numbers: Protobuf's JSON has those of 64 bits as text."""
    told = MessageToDict(message, always_print_fields_with_no_presence=True)
    wide = {
        one.json_name for one in message.DESCRIPTOR.fields if one.cpp_type in (one.CPPTYPE_INT64, one.CPPTYPE_UINT64)
    }
    inner = {one.json_name: one.name for one in message.DESCRIPTOR.fields if one.message_type}
    return {
        name: int(one) if name in wide else as_json(getattr(message, inner[name])) if name in inner else one
        for name, one in told.items()
    }


def both(batch: ChangeBatch, **more: Any) -> tuple[list[Message], list[Message], Known]:
    known = Known()
    found = ProtobufFormat(settings(known, **more)).messages(batch)
    return list(found.each()), list(DebeziumFormat(settings(known, **more)).messages(batch).each()), known


def test_what_protobuf_says_is_what_the_envelopes_say() -> None:
    ops = [Op.INSERT, Op.BEFORE, Op.AFTER, Op.BEFORE, Op.AFTER, Op.DELETE]
    told = changes(WORDS, ops, [1, 1, 1, 1, 2, 2], ["ä", "ä", None, None, "x" * 300, "x" * 300])
    found, plain, known = both(ChangeBatch([FIRST], [told], [Emptied(WORDS, 5, 9)]))
    assert [subject for subject, _ in known.schemas] == ["j.a-key", "j.a-value"], "each is asked for once"
    assert len(found) == len(plain) == 8
    for one, other in zip(found, plain, strict=True):
        assert (one.topic, one.hash, one.headers) == (other.topic, other.hash, other.headers)
        assert (one.key is None, one.value is None) == (other.key is None, other.value is None)
        for mine, theirs in ((one.key, other.key), (one.value, other.value)):
            if mine is not None and theirs is not None:
                expected, read = without_nothing(json.loads(theirs)), as_json(known.read(mine))
                for each in (read, expected):
                    for name in ("ts_ms", "ts_us", "ts_ns"):  # each was made at a time of its own
                        each.pop(name, None)
                assert read == expected


def test_a_schema_is_as_people_would_write_it() -> None:
    decimal = LogicalType(Kind.DECIMAL, precision=10, scale=2)
    of = table(("id", "price", "due_day", "n"), (ID, decimal, LogicalType(Kind.DATE), LogicalType(Kind.UINT64)))
    row, known = made(of, 1, None, 0, 0, decimal="precise")
    key, value = (text for _, text in known.schemas)
    assert key == 'syntax = "proto3";\npackage j.a;\n\nmessage Key {\n  int64 id = 1;\n}\n'
    assert value.startswith(
        'syntax = "proto3";\npackage j.a;\nimport "confluent/type/decimal.proto";\n\nmessage Envelope {\n'
    )
    assert (
        "  message Value {\n"
        "    int64 id = 1;\n"
        "    .confluent.type.Decimal price = 2;\n"
        '    optional int32 due_day = 3 [json_name = "due_day"];  // io.debezium.time.Date\n'
        "    optional uint64 n = 4;\n"
        "  }\n"
    ) in value
    assert not row.HasField("price") and row.HasField("n") and row.n == 0, "0 is told from NULL"
    assert row.HasField("due_day") and row.due_day == 0


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        (ID, -(2**63), -(2**63)),
        (ID, 2**63 - 1, 2**63 - 1),
        (LogicalType(Kind.UINT32), 2**32 - 1, 2**32 - 1),
        (LogicalType(Kind.INT16), -129, -129),
        (LogicalType(Kind.FLOAT64), -math.inf, -math.inf),
        (LogicalType(Kind.FLOAT64), -0.0, -0.0),
        (LogicalType(Kind.FLOAT32), 0.5, 0.5),
        (TEXT, "", ""),
        (TEXT, "a\x00\U0001f600", "a\x00\U0001f600"),
        (LogicalType(Kind.BINARY), b"\x00\xff", b"\x00\xff"),
        (LogicalType(Kind.BINARY), b"", b""),
        (logical_type("boolean"), "f", False),
        (logical_type("bit(10)"), "1000000001", b"\x01\x02"),
        (logical_type("uuid"), "6f1b7a52-6ef8-4b4b-9d4d-3b8b0f5b1c11", "6f1b7a52-6ef8-4b4b-9d4d-3b8b0f5b1c11"),
        (logical_type("jsonb"), '{"a": [1, null]}', '{"a": [1, null]}'),
        (logical_type("date"), "infinity", 2**31 - 1),
        (logical_type("interval"), "1 mon 2 days", "P0Y1M2DT0H0M0S"),
    ],
    ids=str,
)
def test_values_come_back_as_they_were(type: LogicalType, value: object, expected: object) -> None:
    row, _ = made(table(("id", "v"), (ID, type)), 1, value)
    assert row.HasField("v") and row.v == expected
    assert math.copysign(1, row.v) == math.copysign(1, expected) if isinstance(expected, float) else True
    absent, _ = made(table(("id", "v"), (ID, type)), 1, None)
    assert not absent.HasField("v"), "NULL is told from every value"


@pytest.mark.parametrize("decimal", ["string", "precise"])
@pytest.mark.parametrize("number", [0, 1, 2**63, 2**64 - 1], ids=str)
def test_unsigned_numbers_are_numbers_whatever_decimals_are(decimal: str, number: int) -> None:
    type = LogicalType(Kind.UINT64)
    of = table(("id", "v"), (type, type))
    row, known = made(of, number, number, decimal=decimal)
    assert (row.id, row.v) == (number, number)
    assert "  uint64 id = 1;" in known.schemas[0][1]


@pytest.mark.parametrize(
    ("native", "text", "value", "precision", "scale"),
    [
        ("numeric(10,2)", "-1.50", -150, 10, 2),
        ("numeric(3,-2)", "12300", 12300, 5, 0),
        ("numeric", "-12.5", -125, 0, 1),
        ("numeric(76,0)", "9" * 76, 10**76 - 1, 76, 0),
    ],
)
def test_decimals_are_those_that_registries_have_in_common(
    native: str, text: str, value: int, precision: int, scale: int
) -> None:
    row, _ = made(table(("id", "v"), (ID, logical_type(native))), 1, text, decimal="precise")
    found = row.v
    assert (int.from_bytes(found.value, "big", signed=True), found.precision, found.scale) == (value, precision, scale)
    as_text, _ = made(table(("id", "v"), (ID, logical_type(native))), 1, text)
    assert as_text.v == text


def test_not_a_number_is_one_of_protobuf() -> None:
    row, _ = made(table(("id", "v"), (ID, LogicalType(Kind.FLOAT64))), 1, math.nan)
    assert math.isnan(row.v)


@pytest.mark.parametrize(
    ("native", "text", "expected"),
    [
        ("integer[]", "{1,NULL,-3,0}", [1, None, -3, 0]),
        ("text[]", '{"",NULL,"NULL"}', ["", None, "NULL"]),
        ("double precision[]", "{NaN,1}", [math.nan, 1.0]),
        ("boolean[]", "{t,f,NULL}", [True, False, None]),
        ("integer[]", "{}", []),
    ],
)
def test_arrays_and_their_elements_may_be_null(native: str, text: str, expected: list[Any]) -> None:
    of = table(("id", "v", "w"), (ID, logical_type(native), logical_type(native)))
    row, _ = made(of, 1, text, None)
    found = [one.value if one.HasField("value") else None for one in row.v.item]
    assert str(found) == str(expected), "NaN is equal to nothing"
    assert row.HasField("v") and not row.HasField("w"), "an array without elements is told from none"


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}"])
def test_an_array_that_its_schema_does_not_have_is_refused(text: str) -> None:
    of = table(("id", "v"), (ID, logical_type("integer[]")))
    with pytest.raises(RowRefused, match=r"cannot be told in Protobuf: after: v: an array") as refused:
        made(of, 1, text)
    assert refused.value.table == "shop.a" and "columns.drop" in (refused.value.hint or "")


def test_what_does_not_fit_is_never_cut() -> None:
    for kind, value in (
        ("int32", 2**31),
        ("int64", 2**63),
        ("int64", -(2**63) - 1),
        ("int64", "1"),
        ("int64", 1.5),
        ("bytes", 1),
        ("bytes", "?"),
        ("string", 1),
        ("string", ["a"]),
        ("string", "\ud800"),
        ("double", True),
        ("double", "x"),
        ("boolean", "t"),
    ):
        one = {"type": kind, "optional": True, "field": "v"}
        write = writer(file_of({"type": "struct", "name": "t.Value", "fields": [one]}, {}))
        with pytest.raises(DoesNotFit, match="v: "):
            raise AssertionError(f"{kind} takes {value!r} as {write({'v': value})!r}")


def test_a_table_without_a_key_has_no_schema_of_keys() -> None:
    told = changes(table(("id",), (ID,), ()), [Op.INSERT], [1])
    (one,), (plain,), known = both(ChangeBatch([FIRST], [told]))
    assert [subject for subject, _ in known.schemas] == ["j.a-value"]
    assert one.key is None and one.hash == plain.hash


def test_names_that_protobuf_does_not_have_come_back_from_json() -> None:
    names = ("id", "a-b", "a_b", "aB", "A__B", "größe", "1st", "名前", "名", "_", "__", "_a", "a", "optional", "message",
             "Value", "Int32Array", 'q"\\\n', "class", "confluent", "a_b_2", "[", "x]")  # fmt: skip
    of = table(names, (ID, *[TEXT] * (len(names) - 1)), ("id", "aB", "a_b"))
    row, known = made(of, 1, *names[1:], topic=lambda one: "j-1.confluent..9a", decimal="precise")
    assert MessageToDict(row) == {"id": "1"} | {one: one for one in names[1:]}
    assert row.optional == "optional" and row.a_b == "a_b" and row.a_b_2 == "a_b_2" and row.aB_4 == "aB"
    assert row.DESCRIPTOR.file.package == "j_1.confluent.._9a".replace("..", "._.")
    format = ProtobufFormat(settings(known))
    assert format.check([of]) == []
    assert format.check([table(("id", "[x]"), (ID, TEXT))]) == [
        "column [x] of shop.a has a name that no schema of Protobuf can bring along"
    ]


def test_a_key_may_have_columns_with_names_of_its_messages() -> None:
    kind = logical_type("integer[]")
    of = table(("Key", "NullableInt32Array", "NullableInt32"), (kind, kind, kind), ("Key", "NullableInt32Array"))
    known = Known()
    batch = ChangeBatch([FIRST], [changes(of, [Op.INSERT], ["{1}"], ["{2}"], ["{3}"])])
    (one,) = ProtobufFormat(settings(known)).messages(batch).each()
    key = known.read(one.key)
    assert [key.Key.item[0].value, key.NullableInt32Array.item[0].value] == [1, 2]


def test_a_subject_with_a_schema_of_others_is_refused() -> None:
    known = Known([("j.a-value", 'syntax = "proto3"; message A { oneof b { string c = 1; } }')])
    batch = ChangeBatch([FIRST], [changes(WORDS, [Op.INSERT], [1], ["a"])])
    with pytest.raises(
        TargetError, match=r"latest schema of subject j\.a-value is none that a job has written"
    ) as refused:
        ProtobufFormat(settings(known)).messages(batch)
    assert "other topics" in (refused.value.hint or "")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="needs a schema registry"):
        ProtobufFormat(Settings("j", "mysql", "", lambda one: ""))
    with pytest.raises(ConfigError, match="no topic of transactions"):
        ProtobufFormat(settings(Known(), transactions="t"))
    usual = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.endswith("protobuf.encoding"):
            raise ModuleNotFoundError("No module named 'google'", name="google")
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ConfigError, match="needs the package protobuf") as missing:
        ProtobufFormat(settings(Known()))
    assert "[protobuf]" in (missing.value.hint or "")
