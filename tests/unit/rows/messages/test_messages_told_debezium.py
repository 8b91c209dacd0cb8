"""Debezium's envelopes and exBase's messages read back: each value is the text of which it was made."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op
from anabranch.rows.line_columns import columns_of_lines
from anabranch.rows.lines import cells, parse_line
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.debezium.told import DebeziumTold, form_of
from anabranch.rows.messages.debezium.values import UNAVAILABLE, told
from anabranch.rows.messages.exbase import ExbaseFormat
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.readers import READERS
from anabranch.rows.messages.told import require_whole
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import Canonical

PRINTED = {
    "boolean": ["t", "f"],
    "date": ["infinity", "-infinity", "4713-01-01 BC", "0001-12-31 BC", "0001-01-01", "2024-02-29", "5874897-12-31"],
    "time without time zone": ["24:00:00", "00:00:00.000001", "12:30:00", "12:30:00.5"],
    "time(3) without time zone": ["24:00:00", "12:30:00.25"],
    "time with time zone": ["24:00:00-15:59", "12:00:00.123+05:30", "12:00:00+00"],
    "timestamp without time zone": [
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "99999-12-31 23:59:59.999999",
        "1969-12-31 23:59:59.5",
    ],
    "timestamp(3) without time zone": ["infinity", "-infinity", "1969-12-31 23:59:59.5", "0001-01-01 00:00:00"],
    "timestamp with time zone": [
        "infinity",
        "-infinity",
        "0044-03-15 12:00:00+00 BC",
        "2024-03-31 02:30:00.5+00",
        "12024-03-31 02:30:00+00",
    ],
    "numeric": ["0.00", "-12.5", "100"],
    "numeric(10,3)": ["-9999999.999", "0.001", "0.000"],
    "numeric(2,-3)": ["-99000"],
    "bit(5)": ["10101", "00000"],
    "bit(1)": ["1", "0"],
    "jsonb": ['{"a": [1.50, null]}'],
    "oid": ["4294967295"],
    "bigint": ["-9223372036854775808"],
    "real": ["0.1", "nan", "-inf"],
    "text": ["", "back\\slash \t tab", "NULL"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "inet": ["::1"],
    "int4range": ["[1,6)"],
}
VALUES = {
    LogicalType(Kind.UINT64): [0, 2**64 - 1],
    LogicalType(Kind.INT8): [-128, 1],
    LogicalType(Kind.DATE): [-719_162, 0, 20_000],
    LogicalType(Kind.TIMESTAMP, fraction=0): [-1_000_000, 0, 1_800_000_000_000_000],
    LogicalType(Kind.TIMESTAMP): [-1, 1_800_000_000_000_001],
    LogicalType(Kind.INSTANT, fraction=0): [0, 1_800_000_000_000_000],
    LogicalType(Kind.INSTANT): [-1, 1_800_000_000_500_000],
    LogicalType(Kind.DURATION): [-45_000_250_000, 0],
    LogicalType(Kind.YEAR): [2026],
    LogicalType(Kind.BIT, length=9): [5, 511],
    LogicalType(Kind.BINARY): [b"", b"\x00\xff"],
    LogicalType(Kind.ENUM, values=("a", "b")): ["a"],
}


def _same(type: LogicalType, array: Any, decimal: str) -> None:
    form = form_of(type, decimal)
    assert form is not None
    table = TargetTable(TableId("a", "b"), TableId("a", "b"), ("c",), (type,), (), ("c",))
    canonical = Canonical(table)
    read = [
        form(json.loads(one, parse_int=str, parse_float=str))
        for one in told(type, decimal).cell(type, array).to_pylist()
    ]
    wanted = [text.encode() for text in cells([type], [array]).to_pylist()]
    assert [canonical.rows((one or b"") + b"\n") for one in read] == [canonical.rows(one + b"\n") for one in wanted]


@pytest.mark.parametrize("decimal", ["string", "precise"])
@pytest.mark.parametrize("name", PRINTED)
def test_what_a_postgresql_prints_comes_back(name: str, decimal: str) -> None:
    type, texts = logical_type(name), PRINTED[name]
    assert type is not None
    values = (
        [float(one) for one in texts] if name == "real" else [int(one) for one in texts] if name == "bigint" else texts
    )
    _same(type, pa.array(values, arrow_type(type)), decimal)


@pytest.mark.parametrize("decimal", ["string", "precise"])
@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_a_mysql_come_back(type: LogicalType, decimal: str) -> None:
    _same(type, pa.array(VALUES[type], arrow_type(type)), decimal)


def test_a_type_of_which_values_are_not_read_back_is_named() -> None:
    names = ("interval", "integer[]", "bit varying")
    types = tuple(logical_type(name) for name in names)
    table = TargetTable(TableId("a", "b"), TableId("a", "b"), names, types, (), names)
    with pytest.raises(TargetError, match=r"columns interval, integer\[\], bit varying have types"):
        DebeziumTold(table, "string")
    form = form_of(LogicalType(Kind.TEXT), "string")
    assert form is not None and form(UNAVAILABLE) is None and form("") == b""


TYPES = (LogicalType(Kind.INT32), LogicalType(Kind.TEXT), LogicalType(Kind.BINARY))
NAMES = ("id", "word", "data")
LINES = [b"1\ta\\tb\t\\\\x00ff", b"1\t\\N\t\\\\x", b"2\t\t\\N"]


@pytest.mark.parametrize("key", [("id",), ()], ids=["key", "no key"])
@pytest.mark.parametrize("schema", [False, True], ids=["", "schema"])
@pytest.mark.parametrize(("name", "kind"), [("debezium", DebeziumFormat), ("exbase", ExbaseFormat)])
def test_changes_are_told_as_they_were(name: str, kind: Any, schema: bool, key: tuple[str, ...]) -> None:
    table = TargetTable(TableId("shop", "item"), TableId("shop", "item"), NAMES, TYPES, key, NAMES)
    rows = columns_of_lines(table, LINES)
    op = np.array([Op.BEFORE, Op.AFTER, Op.INSERT], np.int8)
    numbers = np.ones(3, np.int64), np.array([0, 0, 1], np.int64), np.zeros(3, np.int16)
    changes = TableChanges(table, op, *numbers, np.ones((1, 3), np.bool_), rows)
    last = np.full(1, 2, np.int64), np.ones(1, np.int64), np.zeros(1, np.int16)
    gone = TableChanges(table, np.array([Op.DELETE], np.int8), *last, np.ones((1, 3), np.bool_), rows[2:])
    two = Committed(1, "bin.1:99", 5), Committed(2, "bin.1:100", 5)
    settings = Settings("job", "mysql", "", lambda table: "topic", "topic", schema=schema and name == "debezium")
    made: Format = kind(settings)
    made.begin()
    batch = ChangeBatch(two, [changes, gone], [Emptied(table, 2, 5)])
    reading = READERS[name](table, "string")
    messages = [*made.messages(batch).each(), *made.end().each()]
    found = [one for each in messages if each.value is not None for one in reading.told(each.key, each.value, 1)]
    assert found.pop() is None
    if key:
        assert [(reading.key(one[0]), one[1] and b"\t".join(require_whole(table, one[1]))) for one in found if one] == [  # type: ignore[arg-type]  # rows of a table with a key
            (b"1", LINES[1]),
            (b"2", LINES[2]),
            (b"2", None),
        ]
    else:
        assert found == [(LINES[0], -1), (LINES[1], 1), (LINES[2], 1), (LINES[2], -1)]
    assert parse_line(LINES[2]) == ["2", "", None]
