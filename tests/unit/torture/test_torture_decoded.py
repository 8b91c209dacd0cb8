"""The kit's own reading of pgoutput: messages as the protocol's page has them, and what their rows come to."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from anabranch.testing.torture.decoded import NotRead, Reading
from anabranch.testing.torture.rows import NoSuchRow, RowChange, Rows
from anabranch.testing.torture.tables import Column, Schema, Table

BEGIN, COMMIT = b"B" + bytes(20), b"C" + bytes(25)
KEYED = Table("t", (Column("id", "pg integer", nullable=False), Column("v", "pg text")), ("id",))
KEYLESS = Table("k", (Column("v", "pg text"), Column("w", "pg text")))
SAME = object()  # what is large and was not changed


def relation(oid: int, name: str, columns: Sequence[tuple[str, bool]]) -> bytes:
    head = b"R" + struct.pack(">I", oid) + b"torture_1\0" + name.encode() + b"\0d" + struct.pack(">H", len(columns))
    return head + b"".join(bytes([key]) + n.encode() + b"\0" + struct.pack(">Ii", 23, -1) for n, key in columns)


def values(mark: bytes, *texts: object) -> bytes:
    cells = (
        b"n" if t is None else b"u" if t is SAME else b"t" + struct.pack(">I", len(str(t).encode())) + str(t).encode()
        for t in texts
    )
    return mark + struct.pack(">H", len(texts)) + b"".join(cells)


def row(kind: bytes, oid: int, *tuples: bytes) -> bytes:
    return kind + struct.pack(">I", oid) + b"".join(tuples)


RELATIONS = [
    relation(1, "ledger", [("n", True)]),
    relation(2, "t", [("id", True), ("v", False)]),
    relation(3, "k", [("v", True), ("w", True)]),
]


def read(*messages: bytes) -> list[tuple[int, list[RowChange]]]:
    return list(Reading().transactions([*RELATIONS, BEGIN, *messages, COMMIT]))


def number(n: int) -> bytes:
    return row(b"I", 1, values(b"N", n))


def test_rows_by_key_and_by_all_that_they_are() -> None:
    ((_, changes),) = read(
        row(b"I", 2, values(b"N", 1, "ä")),
        row(b"I", 2, values(b"N", 2, None)),
        row(b"U", 2, values(b"N", 1, SAME)),
        row(b"U", 2, values(b"K", 1, None), values(b"N", 7, SAME)),
        row(b"D", 2, values(b"K", 2, None)),
        row(b"I", 3, values(b"N", None, "x")),
        row(b"I", 3, values(b"N", None, "x")),
        row(b"U", 3, values(b"O", None, "x"), values(b"N", "y", SAME)),
        number(5),
    )
    rows = Rows(Schema((KEYED, KEYLESS)))
    rows.follow(changes)
    assert rows["t"].lines() == ["7\tä".encode()]
    assert rows["k"].lines() == [b"\\N\tx", b"y\tx"]
    rows.follow([RowChange("t"), RowChange("k")])
    assert not rows["t"].lines() and not rows["k"].lines()


def test_transactions_have_their_numbers_and_tables_that_are_emptied() -> None:
    truncate = b"T" + struct.pack(">IBII", 2, 0, 2, 3)
    assert read(truncate, number(9)) == [(9, [RowChange("t"), RowChange("k")])]
    assert read() == []
    with pytest.raises(NotRead, match="has the numbers"):
        read(truncate)


def test_what_is_not_there_is_found_out() -> None:
    rows = Rows(Schema((KEYED, KEYLESS)))
    for change in (RowChange("t", {"id": "1"}), RowChange("k", {"v": "a", "w": None}), RowChange("t", new={"id": "1"})):
        with pytest.raises(NoSuchRow):
            rows.follow([change])
    with pytest.raises(NotRead):
        read(b"?")
