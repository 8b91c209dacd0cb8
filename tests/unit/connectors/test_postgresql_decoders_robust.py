"""Messages of wal2json and decoderbufs, whole, cut and with other bytes (no server: messages as the plugins write them)."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.assemble import Assembler
from anabranch.connectors.postgresql.source.decode_decoderbufs import DecoderbufsAssembler
from anabranch.connectors.postgresql.source.decode_wal2json import Wal2jsonAssembler
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.errors import AnabranchError, UnknownLogEvent, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import META, Chunk, Op

COLUMNS = (
    Column("id", LogicalType(Kind.INT32), "integer"),
    Column("v", LogicalType(Kind.TEXT), "text"),
    Column("b", LogicalType(Kind.BINARY), "bytea"),
    Column("at", LogicalType(Kind.NATIVE, native="timestamp without time zone"), "timestamp without time zone"),
    Column("f", LogicalType(Kind.FLOAT32), "real"),
)
TABLE = TableId("s", "T")
SCHEMAS = {TABLE: TableSchema(TABLE, COLUMNS, ("id",))}
OIDS = {"integer": 23, "text": 25, "bytea": 17, "timestamp without time zone": 1114, "real": 700}
AT = (2020, "2020-01-01 00:00:00")
EXPECTED = [
    (Op.INSERT, [1, "ü", b"\x00\xff", "2020-01-01 00:00:00", 1.5]),
    (Op.BEFORE, [1, None, None, None, None]),
    (Op.AFTER, [2, None, b"", "2020-01-01 00:00:00", 0.25]),
    (Op.DELETE, [2, None, None, None, None]),
]


# --- as wal2json writes it --------------------------------------------------------------------------------------------


def said(action: str, old: dict[str, object] | None = None, new: dict[str, object] | None = None) -> bytes:
    item: dict[str, object] = {"action": action, "xid": 7, "timestamp": "2020-01-01 00:00:00.5+00"}
    if action not in "BC":
        item |= {"schema": "s", "table": "T"}
    types = {column.name: column.native for column in COLUMNS}
    for part, values in (("columns", new), ("identity", old)):
        if values is not None:
            item[part] = [
                {"name": n, "type": types[n], "typeoid": OIDS[types[n]], "value": v} for n, v in values.items()
            ]
    return json.dumps(item).encode()


def wal2json() -> list[bytes]:
    return [
        said("B"),
        said("I", None, {"id": 1, "v": "ü", "b": "00ff", "at": AT[1], "f": 1.5}),
        said("U", {"id": 1}, {"id": 2, "v": None, "b": "", "at": AT[1], "f": 0.25}),
        said("D", {"id": 2}),
        said("T"),
        said("C"),
    ]


# --- as decoderbufs writes it -----------------------------------------------------------------------------------------


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def part(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def cells(field: int, values: Sequence[object]) -> bytes:
    return b"".join(part(field, cell(*one)) for one in zip(COLUMNS, values, strict=True))


def cell(column: Column, value: object) -> bytes:
    head = part(1, column.name.encode()) + number(2, OIDS[column.native])
    match value:
        case int():
            return head + number(4 if column.name == "at" else 3, value)
        case float():
            return head + _varint(5 << 3 | 5) + struct.pack("<f", value)
        case str():
            return head + part(8, value.encode())
        case bytes():
            return head + part(9, value)
        case _:
            return head


def decoderbufs() -> list[bytes]:
    head = number(1, 7) + number(2, 1_577_836_800_500_000)
    types = b"".join(part(7, part(1, column.native.encode()) + number(2, 1)) for column in COLUMNS)
    table, at, none = part(3, b's."T"'), 1_577_836_800_000_000, (None,) * 4
    return [
        head + number(4, 3),
        head + table + number(4, 0) + cells(5, (1, "ü", b"\x00\xff", at, 1.5)) + types,
        head + table + number(4, 1) + cells(5, (2, None, b"", at, 0.25)) + cells(6, (1, *none)) + types,
        head + table + number(4, 2) + cells(6, (2, *none)),
        head + part(3, b"anabranch.job") + number(4, 0) + noted("s", "T"),
        head + number(4, 4),
    ]


def noted(*names: str) -> bytes:
    return b"".join(part(5, part(1, b"n") + number(2, 25) + part(8, name.encode())) for name in names)


# --- tests ------------------------------------------------------------------------------------------------------------

MESSAGES = {"wal2json": wal2json(), "decoderbufs": decoderbufs()}


def assembler(decoder: str) -> Assembler:
    place = Place("here", 0)
    if decoder == "wal2json":
        return Wal2jsonAssembler(place, SCHEMAS.get, tells_numbers=False)
    return DecoderbufsAssembler(place, SCHEMAS.get, TableId("anabranch", "job"))


def taken(decoder: str, messages: Sequence[bytes]) -> list[Chunk]:
    made = assembler(decoder)
    for message in messages:
        made.take(message, 99)
    made.flush()
    return [item for item in made.ready if isinstance(item, Chunk)]


@pytest.mark.parametrize("decoder", MESSAGES)
def test_whole_messages_are_a_transaction(decoder: str) -> None:
    (chunk,) = taken(decoder, MESSAGES[decoder])
    (table,) = chunk.tables
    assert [(row["_op"], list(row.values())[META:]) for row in table.batch.to_pylist()] == EXPECTED
    assert chunk.transactions.to_pylist() == [
        {"native": "0/63", "gtid": "7", "commit_time": 1_577_836_800_500_000, "rows": 4, "origin": None}
    ]
    assert [(one.ordinal, one.kind, one.table) for one in chunk.barriers] == [(4, "truncate", TABLE)]


@pytest.mark.parametrize("decoder", MESSAGES)
@given(data=st.data())
def test_cut_and_changed_messages_are_refused_or_read(decoder: str, data: st.DataObject) -> None:
    messages = list(MESSAGES[decoder])
    place = data.draw(st.integers(0, len(messages) - 1))
    changed = bytearray(messages[place])
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=3)):
        changed[at] = byte
    messages[place] = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    with suppress(AnabranchError):
        taken(decoder, messages)


@pytest.mark.parametrize("decoder", MESSAGES)
@given(message=st.binary())
@example(message=b"[" * 100_000)
@example(message=b'{"action": "C", "xid": 7, "timestamp": "9999999-01-01"}')
@example(message=b'{"action": ["I"]}')
@example(message=b"\xff" * 11)
def test_any_bytes_are_refused(decoder: str, message: bytes) -> None:
    with pytest.raises(UnknownLogEvent):
        taken(decoder, [MESSAGES[decoder][0], message])


@pytest.mark.parametrize("decoder", MESSAGES)
@pytest.mark.parametrize("place", range(1, 6))
def test_what_stands_outside_a_transaction_is_refused(decoder: str, place: int) -> None:
    with pytest.raises(UnknownLogEvent):
        taken(decoder, [MESSAGES[decoder][place]])


def test_a_null_that_may_be_a_value_parks_the_table() -> None:
    messages = [
        said("B"),
        said("I", None, {"id": 1, "v": "", "b": "", "at": AT[1], "f": None}),
        said("D", {"id": 1}),
        said("C"),
    ]
    (chunk,) = taken("wal2json", messages)
    (barrier,) = chunk.barriers
    assert barrier.kind == "park" and "f, real, is NULL, NaN or infinite" in barrier.reason and not chunk.tables


def test_what_an_update_leaves_out_was_not_changed_if_it_may_be_large() -> None:
    update = {"id": 1, "b": "", "at": AT[1], "f": 1}
    (chunk,) = taken("wal2json", [said("B"), said("U", {"id": 1}, update), said("C")])
    (table,) = chunk.tables
    assert [table.shapes[s].unchanged for s in table.batch["_shape"].to_pylist()] == [
        (),
        (False, True, False, False, False),
    ]
    del update["f"]
    (chunk,) = taken("wal2json", [said("B"), said("U", {"id": 1}, update), said("C")])
    assert [one.reason for one in chunk.barriers] == ["the log has nothing where the definition has f"]


@pytest.mark.parametrize("decoder", MESSAGES)
def test_a_large_transaction_comes_in_fragments(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "FULL_IMAGES", 2)
    begin, insert, update, delete, truncate, commit = MESSAGES[decoder]
    found = taken(decoder, [begin, insert, update, delete, insert, update, truncate, commit])
    assert [chunk.part.value for chunk in found] == ["fragment", "fragment", "fragment", "last"]
    rows = [row for chunk in found for table in chunk.tables for row in table.batch.to_pylist()]
    assert [row["_ordinal"] for row in rows] == list(range(7))
    assert [(row["_op"], list(row.values())[META:]) for row in rows] == [*EXPECTED, *EXPECTED[:3]]
    assert [one.kind for one in found[-1].barriers] == ["truncate"]


@pytest.mark.parametrize("decoder", MESSAGES)
def test_text_that_is_no_utf8_is_refused_with_table_column_and_key(decoder: str) -> None:
    """A database without an encoding gives what it has."""
    stored = [
        message.replace(b"\\u00fc", b"\xe9\xe9").replace("ü".encode(), b"\xe9\xe9") for message in MESSAGES[decoder]
    ]
    assert stored != MESSAGES[decoder]
    with pytest.raises(ValueRefused, match="column v of the row with id=1 holds bytes that are no text") as refused:
        taken(decoder, stored)
    assert refused.value.table == "s.T" and "columns.drop" in refused.value.hint
