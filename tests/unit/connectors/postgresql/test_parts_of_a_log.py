"""Partitions that pgoutput names because rows are in them, with either decoder (no server)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Partition, TableSchema

ITEM, LEAF, OTHER = (TableId("s", name) for name in ("item", "leaf", "other"))
ID = Column("id", LogicalType(Kind.INT32), "integer", nullable=False)
WHOLE = TableSchema(ITEM, (ID,), ("id",), oid=7, partition_key="RANGE (id)")
PART = (ITEM, Partition("s.leaf", LEAF, oid=8, told_by=5))
BEGIN, COMMIT = b"B" + struct.pack(">QqI", 9, 0, 5), b"C\0" + struct.pack(">QQq", 9, 17, 0)
TYPE, TRUNCATE = b"Y" + struct.pack(">I", 99) + b"s\0mood\0", b"T" + struct.pack(">IBI", 1, 0, 7)
XID, STOP, STREAM_COMMIT = struct.pack(">I", 5), b"E", b"c" + struct.pack(">IBQQq", 5, 0, 9, 17, 0)


def relation(oid: int, table: TableId, xid: bytes = b"") -> bytes:
    column = b"\x01id\0" + struct.pack(">Ii", 23, -1)
    return b"R" + xid + struct.pack(">I", oid) + f"{table.schema}\0{table.name}\0d".encode() + b"\0\x01" + column


def insert(oid: int = 7) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N\0\x01t\0\0\0\x011"


@pytest.fixture(params=["auto", "python"])
def parts(request: pytest.FixtureRequest) -> Any:
    def of(*messages: bytes, schema: TableSchema = WHOLE, undone: Any = lambda subtransactions: False) -> Any:
        made = Place("h", 7), {ITEM: schema}.get, lambda oid, _: "integer", "beats"
        assembler = PgoutputAssembler(*made, decoding=request.param, undone=undone)
        frames, at = [b"w" + bytes(24) + one for one in messages], 0
        while at < len(frames):
            at = assembler.follow(frames, at)
            if at < len(frames):
                at += 1
                assembler.take(frames[at - 1][25:])
            assembler.ready.clear()
        return assembler.parts

    return of


def test_a_relation_behind_that_of_a_divided_table_is_its_partition(parts: Any) -> None:
    whole, leaf = relation(7, ITEM), relation(8, LEAF)
    assert parts(BEGIN, whole, leaf, insert(), COMMIT) == [PART]
    assert parts(BEGIN, TYPE, whole, TYPE, leaf, insert(), insert(), COMMIT) == [PART]
    assert [part.oid for _, part in parts(BEGIN, whole, leaf, insert(), whole, relation(9, OTHER), insert())] == [8, 9]


def test_any_other_relation_is_none(parts: Any) -> None:
    """A TRUNCATE names the whole alone, and other tables behind it that it empties as well."""
    other = relation(9, OTHER)
    both = b"T" + struct.pack(">IBII", 2, 0, 7, 9)
    assert parts(BEGIN, relation(7, ITEM), other, both, COMMIT) == []
    assert parts(BEGIN, relation(7, ITEM), other, relation(6, OTHER), both, relation(8, LEAF), insert(), COMMIT) == []
    assert parts(BEGIN, relation(7, ITEM), other, both, relation(7, ITEM), relation(8, LEAF), insert(), COMMIT) == [
        PART
    ]
    assert parts(BEGIN, relation(7, ITEM), other, insert(9), COMMIT) == []
    assert parts(BEGIN, relation(7, ITEM), other, COMMIT) == []
    assert parts(BEGIN, relation(7, ITEM), TRUNCATE, COMMIT, BEGIN, other, COMMIT) == []
    assert parts(BEGIN, relation(8, LEAF), other, COMMIT) == []
    assert parts(BEGIN, relation(6, ITEM), other, COMMIT) == []  # another table has its name
    plain = TableSchema(ITEM, (ID,), ("id",), oid=7)
    assert parts(BEGIN, relation(7, ITEM), insert(), other, COMMIT, schema=plain) == []


def test_those_of_a_transaction_that_is_open_count_once_it_is_committed(parts: Any) -> None:
    begin = b"S" + XID + b"\x01"
    row = b"I" + XID + insert()[1:]
    rows = begin, relation(7, ITEM, XID), relation(8, LEAF, XID), row, STOP
    assert parts(*rows) == []
    assert parts(*rows, STREAM_COMMIT) == [PART]
    assert parts(*rows, b"A" + XID + XID) == []
    emptied = b"T" + XID + struct.pack(">IBII", 2, 0, 7, 9)
    assert parts(begin, relation(7, ITEM, XID), relation(9, OTHER, XID), emptied, STOP, STREAM_COMMIT) == []
    sub = struct.pack(">I", 6)
    inside = relation(7, ITEM, XID), relation(8, LEAF, XID), row, relation(7, ITEM, sub), relation(9, OTHER, sub)
    back = b"A" + XID + sub
    assert parts(begin, *inside, b"I" + sub + insert()[1:], STOP, back, STREAM_COMMIT) == [PART]
