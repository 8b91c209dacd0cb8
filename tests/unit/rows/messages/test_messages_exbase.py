"""Messages of the format `exbase`: its eight members, places in transactions, images, values as strings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.messages.exbase import ExbaseFormat, cell
from anabranch.rows.messages.format import EVERY, Message, Settings
from anabranch.rows.net import TargetTable

TYPES = (LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=100))
ID = TableId("some_schema", "some_table")
TABLE = TargetTable(ID, TableId("b", "c"), ("id", "word"), TYPES, ("id",), ("id", "word"))
KEYLESS = replace(TABLE, key=())
SETTINGS = Settings(
    "j",
    "postgresql",
    "vastbase",
    lambda table: str(table.source),
    types=lambda table: ("bigint", "character varying(100)"),
)
FIRST, SECOND = Committed(5, "0/99", 1_700_000_000_000_000, "742"), Committed(6, "0/A9", 1_700_000_000_500_000, "743")
Image = tuple[Op, int, str | None]
MEMBERS = [
    "sourceDatabaseName", "commandType", "objectOwner", "objectName", "transaction", "oldColumnValues", "newColumnValues",
    "dataColumnType",
]  # fmt: skip


def changes(*images: Image, table: TargetTable = TABLE, first: int = 0, at: int = 5) -> TableChanges:
    op, key, word = (list(column) for column in zip(*images, strict=True))
    rows = pa.table({"id": pa.array(key, pa.int64()), "word": pa.array(word, pa.string())})
    count = len(images)
    numbers = np.full(count, at, np.int64), np.arange(first, first + count, dtype=np.int64)
    presence = np.ones((1, 2), np.bool_)
    return TableChanges(table, np.array(op, np.int8), *numbers, np.zeros(count, np.int16), presence, rows)


def made(*batches: ChangeBatch, **settings: Any) -> list[Message]:
    found = ExbaseFormat(replace(SETTINGS, **settings))
    found.begin()
    return [*(one for batch in batches for one in found.messages(batch).each()), *found.end().each()]


def of(*tables: TableChanges, emptied: Sequence[Emptied] = (), **settings: Any) -> list[Message]:
    return made(ChangeBatch([FIRST, SECOND], tables, emptied), **settings)


def told(messages: Sequence[Message]) -> list[Any]:
    return [None if one.value is None else json.loads(one.value) for one in messages]


def places(messages: Sequence[Message]) -> list[tuple[str, str, str]]:
    found = [one for one in told(messages) if one is not None]
    return [(one["commandType"], one["transaction"]["id"], one["transaction"]["totalOrder"]) for one in found]


THREE = (Op.INSERT, 1, 'a"\n\\'), (Op.BEFORE, 1, 'a"\n\\'), (Op.AFTER, 1, None), (Op.DELETE, 1, None)


def test_every_message_is_one_object_of_the_members_that_exbase_has() -> None:
    found = of(changes(*THREE), transactions="j.transactions", tombstones=False)
    head = '{"sourceDatabaseName":"vastbase","commandType":'
    name = '"objectOwner":"some_schema","objectName":"some_table"'
    types = '"dataColumnType":{"id":"bigint","word":"character varying(100)"}'
    text = '{"id":"1","word":"a\\"\\n\\\\"}'
    null = '{"id":"1","word":null}'
    assert [(one.topic, one.key, (one.value or b"").decode()) for one in found] == [
        (
            "some_schema.some_table",
            b'{"id":"1"}',
            f'{head}"INSERT",{name},"transaction":{{"totalOrder":"1","id":"742"}},'
            f'"oldColumnValues":{{}},"newColumnValues":{text},{types}}}',
        ),
        (
            "some_schema.some_table",
            b'{"id":"1"}',
            f'{head}"UPDATE",{name},"transaction":{{"totalOrder":"2","id":"742"}},'
            f'"oldColumnValues":{text},"newColumnValues":{null},{types}}}',
        ),
        (
            "some_schema.some_table",
            b'{"id":"1"}',
            f'{head}"DELETE",{name},"transaction":{{"totalOrder":"3","id":"742"}},'
            f'"oldColumnValues":{null},"newColumnValues":{{}},{types}}}',
        ),
        (
            "j.transactions",
            b'{"id":"742"}',
            f'{head}"COMMIT","objectOwner":"","objectName":"","transaction":{{"totalOrder":"3","id":"742"}},'
            '"oldColumnValues":{},"newColumnValues":{},"dataColumnType":{}}',
        ),
    ]


def test_commits_are_told_only_where_somebody_wants_to_know() -> None:
    assert [one[0] for one in places(of(changes(*THREE)))] == ["INSERT", "UPDATE", "DELETE"]
    assert [one[0] for one in places(made(ChangeBatch([FIRST]), transactions="t"))] == []


def test_places_go_on_over_batches_and_tables_and_begin_anew_with_each_transaction() -> None:
    other = replace(TABLE, source=TableId("some_schema", "other"))
    found = made(
        ChangeBatch([FIRST], [changes(*THREE)]),
        ChangeBatch(
            [FIRST, SECOND],
            [changes((Op.INSERT, 7, "x"), table=other, first=9), changes((Op.INSERT, 8, "x"), at=6)],
            [Emptied(other, 6, 3)],
        ),
        transactions="t",
    )
    assert places(found) == [
        ("INSERT", "742", "1"), ("UPDATE", "742", "2"), ("DELETE", "742", "3"), ("INSERT", "742", "4"), ("COMMIT", "742", "4"),
        ("INSERT", "743", "1"), ("TRUNCATE", "743", "2"), ("COMMIT", "743", "2"),
    ]  # fmt: skip
    (emptied,) = [one for one in found if one.hash == EVERY]
    assert list(told([emptied])[0]) == MEMBERS
    assert all(isinstance(one[name], dict) for one in told(found) if one for name in MEMBERS[4:])


def test_an_epoch_that_is_made_again_counts_anew() -> None:
    found = ExbaseFormat(replace(SETTINGS, transactions="t"))
    for _ in range(2):
        found.begin()
        made = list(found.messages(ChangeBatch([FIRST], [changes(*THREE)])).each())
        assert [one[2] for one in places(made)] == ["1", "2", "3"]


def test_a_changed_key_is_a_delete_and_an_insert_with_places_of_their_own() -> None:
    found = of(changes((Op.BEFORE, 1, "a"), (Op.AFTER, 2, "a")))
    assert [(one[0], one[2]) for one in places(found)] == [("DELETE", "1"), ("INSERT", "2")]
    assert [(one.key, one.value is None) for one in found] == [
        (b'{"id":"1"}', False),
        (b'{"id":"1"}', True),
        (b'{"id":"2"}', False),
    ]


def test_updates_of_a_table_without_a_key_stay_updates_in_one_partition() -> None:
    found = of(changes((Op.INSERT, 1, "a"), (Op.BEFORE, 1, "a"), (Op.AFTER, 2, "b"), table=KEYLESS))
    assert [one[0] for one in places(found)] == ["INSERT", "UPDATE"]
    assert [(one.key, one.hash) for one in found] == [(None, 0)] * 2


def test_a_mysql_names_its_database_and_a_transaction_without_a_name_has_its_position() -> None:
    anonymous = Committed(5, "bin.1:99", 0)
    (one,) = told(made(ChangeBatch([anonymous], [changes((Op.INSERT, 1, "a"))]), source="mysql", database=""))
    assert (one["sourceDatabaseName"], one["objectOwner"]) == ("some_schema", "some_schema")
    assert one["transaction"]["id"] == "5@bin.1:99"


@pytest.mark.parametrize(
    ("type", "values", "shown"),
    [
        (LogicalType(Kind.INT64), pa.array([-7, None]), ['"-7"', None]),
        (LogicalType(Kind.DECIMAL, precision=5, scale=2), pa.array(["1.50"]).cast(pa.decimal128(5, 2)), ['"1.50"']),
        (LogicalType(Kind.FLOAT64), pa.array([1.5, float("nan"), -float("inf")]), ['"1.5"', '"NaN"', '"-Infinity"']),
        (LogicalType(Kind.BOOLEAN), pa.array(["t"]), ['"t"']),
        (LogicalType(Kind.BINARY), pa.array([b"\x00\xff", None, b""]), ['"AP8="', None, '""']),
        (LogicalType(Kind.JSON), pa.array(['{"a": 1}']), ['"{\\"a\\": 1}"']),
        (LogicalType(Kind.TEXT), pa.array(["\x00ä"]), ['"\\u0000ä"']),
    ],
)
def test_values_are_strings_or_null(type: LogicalType, values: Any, shown: list[str | None]) -> None:
    assert cell(type, values).to_pylist() == shown
