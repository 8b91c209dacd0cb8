"""Rows out of a partition's messages: what a reader makes of them, and which it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch.connectors.kafka.target import row_reader
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.row_reader import KafkaRowReader
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.messages.format import POSITION
from anabranch.rows.net import TargetTable

ID = TableId("shop", "item")
TYPES = (LogicalType(Kind.INT32), LogicalType(Kind.TEXT))
ITEM = TargetTable(ID, ID, ("id", "v"), TYPES, ("id",), ("id", "v"))
LOOSE = TargetTable(ID, ID, ("id", "v"), TYPES, (), ("id", "v"))
PIECE = json.dumps(("topic", 0, 0))


class Message:
    """A message of the job, as the client gives it."""

    def __init__(self, key: bytes | None, value: bytes | None, sequence: int | None) -> None:
        self._key, self._value = key, value
        self._headers = None if sequence is None else [(POSITION, f"{sequence}@bin.1:{sequence}".encode())]

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def offset(self) -> int:
        return 7


def change(sequence: int, before: Any, after: Any, is_keyed: bool = True) -> Message:
    row = after or before
    said = {"op": "update", "table": str(ID), "before": before, "after": after}
    return Message(json.dumps({"id": row["id"]}).encode() if is_keyed else None, json.dumps(said).encode(), sequence)


def tombstone(sequence: int | None, key: bytes) -> Message:
    return Message(key, None, sequence)


Reads = Callable[..., KafkaRowReader]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """A reader of one partition that has these messages."""

    def made(*messages: Message, mode: Any = "table") -> KafkaRowReader:
        found = KafkaRowReader(Endpoint("kafka", "h", 1, "", ""), KafkaTargetOptions(mode=mode), "job")
        monkeypatch.setattr(found, "_end", lambda part: len(messages))
        monkeypatch.setattr(found, "_messages", lambda part, end: iter(messages))
        monkeypatch.setattr(found, "_parts", lambda table: [row_reader._Part("topic", 0, 0)])
        return found

    return made


def rows(reader: KafkaRowReader, table: TargetTable = ITEM) -> list[bytes]:
    return b"".join(reader.lines(table, PIECE)).splitlines()


def keys(reader: KafkaRowReader) -> Iterator[list[str | None]]:
    return (key for some in reader.keys(ITEM, PIECE) for key in some)


def test_a_tombstone_tells_that_a_row_is_gone_also_where_its_delete_was_compacted(reads: Reads) -> None:
    told = [change(1, None, {"id": 1, "v": "a"}), change(1, None, {"id": 2, "v": "b"}), tombstone(2, b'{"id": 1}')]
    marker = tombstone(None, b"[]")
    assert rows(reads(*told, marker)) == [b"2\tb"]
    assert list(keys(reads(*told, tombstone(2, b'{"id": 3}'), marker))) == [["1"], ["2"], ["3"]]
    assert rows(reads(*told, mode="single")) == [b"1\ta", b"2\tb"], "the key may be another table's"
    looked = b"".join(reads(*told).lines_of(ITEM, [["1"], ["2"]]))
    assert looked == b"2\tb\n"


def test_a_row_without_a_key_that_went_more_often_than_it_came_is_refused(reads: Reads) -> None:
    came, went = (
        change(1, *images, is_keyed=False) for images in ((None, {"id": 1, "v": "a"}), ({"id": 1, "v": "a"}, None))
    )
    assert rows(reads(came, came, went), LOOSE) == [b"1\ta"]
    with pytest.raises(TargetError, match="tells of 1 rows that went more often than they came"):
        rows(reads(came, went, went), LOOSE)


@pytest.mark.parametrize(
    "strange",
    [
        Message(b'{"id": 1}', b"{}", None),
        Message(b'{"id": 1}', b"[]", 1),
        Message(None, change(1, None, {"id": 1, "v": "a"}).value(), 1),
        Message(None, None, 1),
        Message(b'{"id": 1}', None, None),
    ],
)
def test_a_message_that_is_not_the_job_s_is_named_with_its_place(reads: Reads, strange: Message) -> None:
    with pytest.raises(
        TargetError, match="the message at offset 7 of partition 0 of topic topic is none of the format"
    ):
        rows(reads(strange))
    with pytest.raises(TargetError, match="offset 7"):
        list(keys(reads(tombstone(1, b"[1]"))))


@pytest.mark.parametrize(
    ("committed", "first", "end"),
    [(10, None, 10), (6, 8, 6), (6, 7, 10), (6, 0, 10), (6, None, 10), (12, None, 10)],
)
def test_a_transaction_that_is_open_behind_the_snapshot_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, committed: int, first: int | None, end: int
) -> None:
    """Up to the snapshot's transaction 7 all is readable where the first message that is not is of a later one."""
    found = KafkaRowReader(Endpoint("kafka", "h", 1, "", ""), KafkaTargetOptions(), "job")
    found.open_shared(json.dumps([7, {"topic": [10]}]))
    monkeypatch.setattr(found, "_offsets", lambda places, isolation: dict.fromkeys(places, committed))
    monkeypatch.setattr(row_reader, "first_one", lambda endpoint, place, begin, end: first)
    assert found._end(row_reader._Part("topic", 0, 0)) == end


class Silent:
    """A client to which no broker gives anything."""

    def assign(self, places: Any) -> None: ...

    def consume(self, count: int, seconds: float) -> list[Any]:
        return []

    def unassign(self) -> None: ...


@pytest.mark.parametrize(("committed", "why"), [(6, "cannot be read up to offset 10"), (10, "no broker has given")])
def test_a_partition_of_which_nothing_comes_says_why(monkeypatch: pytest.MonkeyPatch, committed: int, why: str) -> None:
    found = KafkaRowReader(Endpoint("kafka", "h", 1, "", ""), KafkaTargetOptions(), "job")
    monkeypatch.setattr(row_reader, "reader", lambda endpoint, begins: Silent())
    monkeypatch.setattr(row_reader, "patience", lambda endpoint: 0.0)
    monkeypatch.setattr(found, "_offsets", lambda places, isolation: dict.fromkeys(places, committed))
    with pytest.raises(TargetUnavailable, match=why):
        list(found._messages(row_reader._Part("topic", 0, 0), 10))

    def refuses(places: Any, isolation: Any) -> Any:
        raise TargetError("the job's user may not")

    monkeypatch.setattr(found, "_offsets", refuses)
    with pytest.raises(TargetError, match="may not"):
        list(found._messages(row_reader._Part("topic", 0, 0), 10))
