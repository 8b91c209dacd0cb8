"""Rows of pgoutput that come by other columns than those in force: told before their transaction, and read by the next
definition when it comes again. Both decoders make the same of it (no server)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.capture import WalReader
from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.connectors.postgresql.source.streamed import RedefinedWithin
from anabranch.contracts import LogOptions, RedefinedReader
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import BarrierKind, Chunk, Part
from anabranch.rows.log_items import LogAbandoned, LogRedefined
from rigs.pgoutput import Row, message, tuple_of

ITEM = TableId("s", "item")
TYPES = {23: "integer", 25: "text"}
ID = Column("id", LogicalType(Kind.INT32), "integer", nullable=False)
V, W = Column("v", LogicalType(Kind.TEXT), "text"), Column("w", LogicalType(Kind.TEXT), "text")
N = Column("n", LogicalType(Kind.INT32), "integer", has_default=True, default="5")
BEFORE, BETWEEN, BEHIND = (
    TableSchema(ITEM, columns, ("id",), version=version)
    for version, columns in enumerate([(ID, V), (ID, V, N), (ID, V, N, W)], 1)
)
TWO, THREE = [("id", 23), ("v", 25)], [("id", 23), ("v", 25), ("n", 23)]
FOUR = [*THREE, ("w", 25)]


def begin(at: int) -> bytes:
    return b"B" + struct.pack(">QqI", at, 0, at)


def commit(at: int) -> bytes:
    return b"C\0" + struct.pack(">QQq", at, at + 8, 0)


def relation(columns: list[tuple[str, int]], full: bool = False) -> bytes:
    parts = (
        bytes((full or not n,)) + c.encode() + b"\0" + struct.pack(">Ii", t, -1) for n, (c, t) in enumerate(columns)
    )
    return b"R" + struct.pack(">I", 7) + b"s\0item\0d" + struct.pack(">H", len(columns)) + b"".join(parts)


def insert(*row: bytes | None) -> bytes:
    return message(("I", "", (), row))


def update(mark: str, old: Row, new: Row) -> bytes:
    return message(("U", mark, old, new))


@pytest.fixture(params=["auto", "python"])
def read(request: pytest.FixtureRequest) -> Any:
    def all_of(schema: TableSchema, *messages: bytes, **how: Any) -> list[Any]:
        made = Place("h", 7), {ITEM: schema}.get, lambda oid, _: TYPES[oid], "beats"
        assembler = PgoutputAssembler(*made, decoding=request.param, **how)
        frames, at, found = [b"w" + bytes(24) + one for one in messages], 0, []
        while at < len(frames) and not any(isinstance(one, LogRedefined) for one in found):
            at = assembler.follow(frames, at)
            if at < len(frames) and not assembler.ready:
                at += 1
                assembler.take(frames[at - 1][25:])
            while assembler.ready:
                found.append(assembler.ready.popleft())
        assembler.flush()
        return [*found, *assembler.ready]

    return all_of


LOG = (
    *(begin(100), relation(TWO), insert(b"1", b"a"), commit(100)),
    *(begin(200), insert(b"2", b"b"), update("", (), (b"1", "u")), update("K", (b"2", None), (b"3", b"c"))),
    *(relation(THREE), insert(b"4", b"d", b"6"), relation(FOUR), insert(b"5", b"e", None, b"w"), commit(200)),
    *(begin(300), insert(b"6", b"f", b"7", b"x"), commit(300)),
)


def rows(*chunks: Chunk) -> list[Any]:
    found = []
    for chunk in chunks:
        for table in chunk.tables:
            batch = table.batch.to_pydict()
            values = zip(*(batch[column.name] for column in BEHIND.columns if column.name in batch), strict=True)
            found += list(
                zip(values, (table.shapes[shape].present for shape in table.batch.column(3).to_pylist()), strict=True)
            )
    return found


def test_rule_17_the_log_stops_before_the_transaction(read: Any) -> None:
    chunk, told = read(BEFORE, *LOG, tells_columns=True)
    assert isinstance(chunk, Chunk) and [values for values, _ in rows(chunk)] == [(1, "a")]
    assert isinstance(told, LogRedefined) and told.table == ITEM
    assert told.columns == (("id", "integer"), ("v", "text"), ("n", "integer"))
    assert told.mark.native == chunk.transactions.column("native")[0].as_py() and told.native > told.mark.native


def test_rule_17_rows_of_before_have_what_the_server_gave_to_them(read: Any) -> None:
    """An image that tells the key alone tells no more."""
    whole, parts = (True,) * 4, (True, False, False, False)
    unchanged = (True, False, True, True)
    (chunk,) = read(BEHIND, begin(200), relation(TWO), *LOG[5:], tells_columns=True, former={ITEM: (BEFORE, BETWEEN)})
    found = rows(chunk)
    assert found[0] == ((2, "b", 5, None), whole)
    assert found[1] == ((1, None, None, None), parts) and found[2] == ((1, None, 5, None), unchanged)
    assert found[3] == ((2, None, None, None), parts) and found[4] == ((3, "c", 5, None), whole)
    assert found[5:] == [((4, "d", 6, None), whole), ((5, "e", None, "w"), whole), ((6, "f", 7, "x"), whole)]


def test_rows_of_before_have_what_the_server_gave_whatever_is_computed_by_now(read: Any) -> None:
    """The column came with the time of its statement; its default is the time of each row from there on."""
    now = replace(N, default="now()", default_is_expression=True)
    behind = replace(BEHIND, columns=(ID, V, now))
    log = begin(200), relation(TWO), insert(b"1", b"a"), relation(THREE), insert(b"2", b"b", b"7"), commit(200)
    (chunk,) = read(behind, *log, tells_columns=True, former={ITEM: (BEFORE, BETWEEN)})
    assert [values for values, _ in rows(chunk)] == [(1, "a", 5), (2, "b", 7)]
    (told,) = read(behind, *log, tells_columns=True, former={ITEM: (BEFORE,)})
    assert isinstance(told, LogRedefined) and "what only the source can compute" in told.reason


def test_rule_17_former_definitions_are_those_of_one_transaction(read: Any) -> None:
    """In it a table may be what it was again: that ends with it."""
    log = (begin(200), relation(FOUR), insert(b"5", b"e", None, b"w"), relation(TWO), insert(b"6", b"f"), commit(200))
    (chunk,) = read(BEHIND, *log, tells_columns=True, former={ITEM: (BEFORE,)})
    assert [values for values, _ in rows(chunk)] == [(5, "e", None, "w"), (6, "f", 5, None)]
    *_, told = read(BEHIND, *log, begin(300), relation(TWO), tells_columns=True, former={ITEM: (BEFORE,)})
    assert isinstance(told, LogRedefined) and "the log has 2 columns, the definition 4" in told.reason
    (told,) = read(BEHIND, *LOG[:4], tells_columns=True)
    assert isinstance(told, LogRedefined), "it is not the transaction behind"


def test_fragments_that_were_given_are_taken_back(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "FULL_IMAGES", 2)
    first, *fragments, gone, told = read(BEFORE, *LOG, tells_columns=True)
    assert first.part is Part.WHOLE and [one.part for one in fragments] == [Part.FRAGMENT] * 2
    assert isinstance(gone, LogAbandoned) and isinstance(told, LogRedefined) and gone.mark == told.mark


def test_without_the_setting_the_table_parks_just_there(read: Any) -> None:
    (chunk,) = read(BEFORE, *LOG)
    assert [(b.kind, b.tx, b.ordinal) for b in chunk.barriers] == [(BarrierKind.PARK, 1, 5)]


def test_an_open_transaction_is_read_as_a_whole(read: Any) -> None:
    start = b"S" + struct.pack(">IB", 900, 1)
    sub = struct.pack(">I", 900)
    of_piece = relation(THREE)
    with pytest.raises(RedefinedWithin, match="the log has 3 columns"):
        read(BEFORE, start, of_piece[:1] + sub + of_piece[1:], tells_columns=True)
    row = b"I" + sub + struct.pack(">I", 7) + b"N" + tuple_of((b"1", b"a"))
    of_piece = relation(TWO)
    assert read(BEFORE, start, of_piece[:1] + sub + of_piece[1:], row, b"E", tells_columns=True)


def test_rule_17_rows_of_before_by_numbers_of_columns(read: Any) -> None:
    """One went, one got another name, one came: what was written into the first is in no row."""
    first = [replace(column, number=number) for number, column in enumerate((ID, V, W), 1)]
    before = TableSchema(ITEM, tuple(first), ("id",))
    behind = replace(before, columns=(first[0], replace(first[2], name="word"), replace(N, number=4)), version=2)
    log = (
        *(begin(200), relation([("id", 23), ("v", 25), ("w", 25)]), insert(b"1", b"gone", b"a")),
        *(
            update("", (), (b"2", "u", b"b")),
            update("", (), (b"3", b"x", "u")),
            message(("D", "K", (b"4", None, None), ())),
        ),
        *(relation([("id", 23), ("word", 25), ("n", 23)]), insert(b"5", b"c", b"7"), commit(200)),
    )
    (chunk,) = read(behind, *log, tells_columns=True, former={ITEM: (before,)})
    (table,) = chunk.tables
    batch = table.batch.to_pydict()
    shapes = [table.shapes[shape].present for shape in table.batch.column(3).to_pylist()]
    found = list(zip(batch["id"], batch["word"], batch["n"], strict=True))
    at = [0, 2, 4, 5, 6]
    assert [found[one] for one in at] == [(1, "a", 5), (2, "b", 5), (3, None, 5), (4, None, None), (5, "c", 7)]
    assert [shapes[one] for one in at] == [
        (True,) * 3,
        (True,) * 3,
        (True, False, True),
        (True, False, False),
        (True,) * 3,
    ]


def test_rule_17_two_columns_of_one_name_in_a_transaction_park_the_table(read: Any) -> None:
    """Its rows of before and those behind look alike."""
    columns = [replace(column, number=number) for number, column in enumerate((ID, V), 1)]
    before = TableSchema(ITEM, tuple(columns), ("id",))
    behind = replace(before, columns=(columns[0], replace(columns[1], number=3)), version=2)
    log = begin(200), relation(TWO), insert(b"1", b"a"), commit(200)
    (chunk,) = read(behind, *log, tells_columns=True, former={ITEM: (before,)})
    assert [barrier.kind for barrier in chunk.barriers] == [BarrierKind.PARK]


def test_only_a_decoder_that_tells_columns_leaves_changes_to_rows() -> None:
    endpoint = Endpoint("postgresql", "127.0.0.1", 1, "u", "", "d")
    found = {}
    for decoder in ("pgoutput", "wal2json", "decoderbufs"):
        reader = WalReader(endpoint, LogOptions(1, 0.05), PostgresSourceOptions(decoder=decoder))
        assert isinstance(reader, RedefinedReader)
        found[decoder] = reader.tells_columns
    assert found == {"pgoutput": True, "wal2json": False, "decoderbufs": False}
