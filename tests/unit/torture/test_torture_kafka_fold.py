"""The torture kit's fold of a Kafka's messages: what it takes, and what it refuses; values as the checker has them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from anabranch.testing.torture.kafka_fold import Contradiction, Fold, Told, read_value, shown
from anabranch.testing.torture.kafka_snapshots import in_order
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.values import KINDS

KEYED = (Column("id", "int", nullable=False), Column("v", "exact text"))
A, B, C = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"id": 2, "v": None}


def told(op: str, before: Any = None, after: Any = None, **more: Any) -> Told:
    """Return a message as it is read. `more`: its `ordinal`, `at` (offset), `partition`; whether the table is `keyed`."""
    value = None
    if op != "tombstone":
        value = {"op": op, "ordinal": more.get("ordinal", 0), "before": before, "after": after}
    image = before or after
    key = json.dumps({"id": image["id"]}).encode() if image and more.get("keyed", True) else None
    read = read_value(None if value is None else json.dumps(value).encode())
    return Told(
        "t", more.get("partition", 0), more.get("at", 0), key, read, more.get("sequence", 1), more.get("copies", 1)
    )


def test_rows_are_what_messages_tell_and_values_are_the_checkers_texts() -> None:
    fold = Fold("t", KEYED)
    for one in (told("read", None, A), told("update", A, B), told("insert", None, C)):
        fold.take(one)
    assert fold.contents == b"1\tb\n2\t\\N\n" and fold.contents is fold.contents
    fold.take(told("delete", B))
    fold.take(told("tombstone", B))
    assert fold.contents == b"2\t\\N\n"
    fold.take(told("truncate"))
    assert fold.contents == b""


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([told("insert", None, A), told("insert", None, A)], "the row before it is b'1\\ta'"),
        ([told("insert", None, A), told("update", A, B), told("update", A, B)], "the row before it is b'1\\tb'"),
        ([told("insert", None, A), told("update", B, A)], "the row before it is b'1\\ta'"),
        ([told("update", A, B)], "the row before it is None"),
        ([told("delete", A)], "the row before it is None"),
        ([told("insert", None, A), told("update", A, B, partition=1)], "it was in partition 0 before"),
        ([told("insert", None, A), told("tombstone", A)], "a tombstone of a row that is there"),
        ([told("insert", None, {"id": 1})], "its columns are not those of the table"),
        ([told("merge", None, A)], "no such operation"),
        ([told("delete", A, keyed=False)], "a row goes that is not there"),
        ([told("insert", None, A, keyed=False), told("delete", A, keyed=False, partition=1)], "it was in partition 0"),
    ],
)
def test_what_contradicts_the_messages_before_is_refused(messages: list[Told], words: str) -> None:
    fold = Fold("t", KEYED)
    for one in messages[:-1]:
        fold.take(one)
    with pytest.raises(Contradiction) as refused:
        fold.take(messages[-1])
    assert words in str(refused.value) and "transaction 1, offset 0" in str(refused.value)


def test_rows_without_a_key_are_counted() -> None:
    fold = Fold("t", KEYED)
    for _ in range(2):
        fold.take(told("insert", None, A, keyed=False))
    fold.take(told("delete", A, keyed=False))
    assert fold.contents == b"1\ta\n"


def test_messages_of_a_transaction_come_in_the_sources_order_and_a_truncate_once() -> None:
    there = [
        told("truncate", ordinal=0, partition=0, copies=2),
        told("truncate", ordinal=0, partition=1, copies=2),
        told("insert", None, C, ordinal=2, partition=0, at=1),
        told("insert", None, A, ordinal=1, partition=1, at=1),
        told("delete", A, ordinal=3, partition=1, at=2),
        told("tombstone", A, partition=1, at=3),
    ]
    ops = [(one.op, one.partition) for one in in_order(there[::-1])]
    assert ops == [("truncate", 0), ("insert", 1), ("insert", 0), ("delete", 1), ("tombstone", 1)]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([told("delete", A)], "a delete without its tombstone"),
        ([told("tombstone", A)], "a delete and its tombstone are apart"),
        ([told("delete", A), told("insert", None, A, ordinal=1, at=1)], "a delete and its tombstone are apart"),
        ([told("delete", A), told("tombstone", C, at=1)], "a delete and its tombstone are apart"),
        ([told("insert", None, A, ordinal=1), told("insert", None, C, at=1)], "it stands behind a later one"),
        ([told("truncate", copies=2)], "not every partition is told once"),
        ([told("truncate", copies=1), told("truncate", copies=1, at=1)], "not every partition is told once"),
    ],
)
def test_a_transaction_that_is_not_whole_and_in_order_is_refused(messages: list[Told], words: str) -> None:
    with pytest.raises(Contradiction, match=words):
        list(in_order(messages))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", "-1", "-1"),
        ("bytes", base64.b64encode(b"\0k").decode(), "\\x006b"),
        ("float", "16777215", "1.6777215e+07"),
        ("double", "1e308", "1e+308"),
        ("json", '{"a":1,"b":[true,null,"x"]}', '{"a": 1, "b": [true, null, "x"]}'),
        ("moment", "2024-02-29 12:00:00.100000", "2024-02-29 12:00:00.1"),
        ("datetime", "1000-01-01 00:00:00.000000", "1000-01-01 00:00:00"),
        ("timestamp", "1970-01-01 00:00:01.000000+00", "1970-01-01 00:00:01+00"),
        ("timestamp(6)", "2038-01-19 03:14:07.499990+00", "2038-01-19 03:14:07.49999+00"),
        ("time(6)", "-838:59:58.100000", "-838:59:58.1"),
        ("decimal", "0.50", "0.50"),
        ("text", "10.00", "10.00"),
    ],
)
def test_values_are_shown_as_the_checker_has_them(kind: str, value: str, text: str) -> None:
    assert shown(KINDS[kind])(value) == text
