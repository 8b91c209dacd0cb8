"""Messages of the format `plain`: order, keys, tombstones, images that lack something."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.messages.format import EVERY, Message, Settings
from anabranch.rows.messages.plain import PlainFormat
from anabranch.rows.net import TargetTable

TYPES = (LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=100))
TABLE = TargetTable(TableId("shop", "a"), TableId("shop", "a"), ("id", "word"), TYPES, ("id",), ("id", "word"))
KEYLESS = TargetTable(TableId("shop", "b"), TableId("shop", "b"), ("id", "word"), TYPES, (), ("id", "word"))
Image = tuple[Op, int, str | None]


def changes(
    table: TargetTable, *images: Image, carries: Sequence[tuple[bool, bool]] = (), first: int = 0, at: int = 5
) -> TableChanges:
    """All in one transaction, one behind the other; `carries`: which columns each image has."""
    op, key, word = (list(column) for column in zip(*images, strict=True))
    rows = pa.table({"id": pa.array(key, pa.int64()), "word": pa.array(word, pa.string())})
    count = len(images)
    presence = np.array(carries or [(True, True)] * count)
    numbers = np.full(count, at, np.int64), np.arange(first, first + count, dtype=np.int64)
    return TableChanges(table, np.array(op, np.int8), *numbers, np.arange(count, dtype=np.int16), presence, rows)


def told(*tables: TableChanges, emptied: Sequence[Emptied] = (), tombstones: bool = True) -> list[Message]:
    settings = Settings("shop", "mysql", "", lambda table: str(table.target), tombstones=tombstones)
    known = [Committed(5, "bin.1:99", 1_700_000_000_000_000), Committed(6, "bin.1:120", 1_700_000_000_500_000, "g-1:6")]
    return list(PlainFormat(settings).messages(ChangeBatch(known, tables, emptied)).each())


def values(messages: Sequence[Message]) -> list[tuple[str, object, object] | None]:
    found = [None if one.value is None else json.loads(one.value) for one in messages]
    return [None if one is None else (one["op"], one["before"], one["after"]) for one in found]


def test_each_change_is_an_object_of_its_images() -> None:
    made = told(changes(TABLE, (Op.INSERT, 1, 'a"\n\\'), (Op.BEFORE, 1, 'a"\n\\'), (Op.AFTER, 1, None), first=7))
    assert json.loads(made[0].value or b"") == {
        "op": "insert",
        "table": "shop.a",
        "position": "5@bin.1:99",
        "commit_time": "2023-11-14T22:13:20.000000Z",
        "ordinal": 7,
        "before": None,
        "after": {"id": 1, "word": 'a"\n\\'},
    }
    assert values(made)[1] == ("update", {"id": 1, "word": 'a"\n\\'}, {"id": 1, "word": None})
    assert [one.key for one in made] == [b'{"id":1}'] * 2
    assert made[0].topic == "shop.a"
    assert made[0].headers == (("anabranch.position", b"5@bin.1:99"), ("anabranch.transaction", b"5@bin.1:99"))


def test_a_changed_key_is_a_delete_a_tombstone_and_an_insert() -> None:
    made = told(changes(TABLE, (Op.BEFORE, 1, "a"), (Op.AFTER, 2, "a"), (Op.DELETE, 2, "a")))
    assert [one.key for one in made] == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":2}', b'{"id":2}']
    row = {"id": 2, "word": "a"}
    assert values(made) == [
        ("delete", {"id": 1, "word": "a"}, None),
        None,
        ("insert", None, row),
        ("delete", row, None),
        None,
    ]
    assert made[0].hash == made[1].hash != made[2].hash
    assert [one[0] for one in values(told(changes(TABLE, (Op.DELETE, 1, "a")), tombstones=False)) if one] == ["delete"]


def test_a_table_without_a_key_is_told_by_whole_rows() -> None:
    made = told(changes(KEYLESS, (Op.INSERT, 1, "a"), (Op.BEFORE, 1, "a"), (Op.AFTER, 1, "b"), (Op.DELETE, 1, "b")))
    assert [one[0] for one in values(made) if one] == ["insert", "delete", "insert", "delete"]
    assert [one.key for one in made] == [None] * 4
    assert made[0].hash == made[1].hash != made[2].hash == made[3].hash


def test_messages_of_all_tables_are_in_the_order_of_the_log() -> None:
    made = told(
        changes(TABLE, (Op.INSERT, 1, "a"), (Op.INSERT, 2, "b"), at=6),
        changes(KEYLESS, (Op.INSERT, 3, "c"), first=1),
        emptied=[Emptied(KEYLESS, 5, 0)],
    )
    assert [(one.topic, one.hash == EVERY) for one in made] == [
        ("shop.b", True),
        ("shop.b", False),
        ("shop.a", False),
        ("shop.a", False),
    ]
    assert values(made)[0] == ("truncate", None, None)
    assert made[2].headers[1] == ("anabranch.transaction", b"g-1:6")


def test_what_an_image_lacks_is_not_told() -> None:
    made = told(
        changes(
            TABLE,
            (Op.BEFORE, 1, "long"),
            (Op.AFTER, 1, None),
            (Op.BEFORE, 2, None),
            (Op.AFTER, 2, None),
            carries=[(True, True), (True, False), (True, False), (True, False)],
        )
    )
    assert values(made) == [
        ("update", {"id": 1, "word": "long"}, {"id": 1, "word": "long"}),
        ("update", {"id": 2}, {"id": 2}),
    ]


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_may_have_no_changes(count: int) -> None:
    assert told(*[changes(TABLE, (Op.INSERT, 1, "a"))][:count])[count:] == []
