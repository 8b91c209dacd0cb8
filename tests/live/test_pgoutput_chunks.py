"""From a real PostgreSQL's messages to chunks: what is in them, carried out, is what the tables have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.assemble import Assembler
from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler
from anabranch.connectors.postgresql.source.positions import Place, lsn_of
from anabranch.connectors.postgresql.source.wal_stream import DATA_HEAD
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import META, BarrierKind, Chunk, Op, Part
from rigs.postgresql_slot import Slot

INT, TEXT, BYTES, DOUBLE = (LogicalType(kind) for kind in (Kind.INT64, Kind.TEXT, Kind.BINARY, Kind.FLOAT64))
COLUMNS = (
    Column("id", INT, "bigint"),
    Column("v", TEXT, "character varying(40)"),
    Column("b", BYTES, "bytea"),
    Column("d", DOUBLE, "double precision"),
    Column("twice", None, "bigint", generated=True),
)
TABLE = "(id bigint PRIMARY KEY, v varchar(40), b bytea, d double precision, twice bigint GENERATED ALWAYS AS (id * 2) STORED)"
NAMES = ("one", "two")
FRAME = b"w" + bytes(DATA_HEAD - 1)
MakeSlot = Callable[[], Slot]
SCHEMAS = {TableId("public", name): TableSchema(TableId("public", name), COLUMNS, ("id",)) for name in NAMES}


def assembler(made: Slot, tables: dict[TableId, TableSchema] = SCHEMAS) -> Assembler:
    query = "SELECT format_type({}, {})"
    return PgoutputAssembler(
        Place("here", 0),
        tables.get,
        lambda oid, mod: made.database.query(query.format(oid, mod))[0][0],
        "beats",
        decoding="auto",
    )


def chunks(assembler: Assembler, messages: Sequence[bytes]) -> Iterator[Any]:
    frames, at = [FRAME + message for message in messages], 0
    while at < len(frames):
        at = assembler.follow(frames, at)
        if at < len(frames) and not assembler.ready:
            assembler.take(messages[at])
            at += 1
        while assembler.ready:
            yield assembler.ready.popleft()
    assembler.flush()
    yield from assembler.ready


def carried_out(found: Sequence[Chunk], table: str) -> Counter[tuple[Any, ...]]:
    """The rows that are there afterwards. An image says of the key alone whose row it is; what it leaves out stays."""
    rows: dict[Any, list[Any]] = {}
    for chunk in found:
        moments: list[tuple[int, int, Any]] = [
            (b.tx, b.ordinal, None) for b in chunk.barriers if b.kind is BarrierKind.TRUNCATE and b.table.name == table
        ]
        for one in chunk.tables:
            if one.table.name == table:
                moments += [
                    (r["_tx"], r["_ordinal"], (Op(r["_op"]), list(r.values())[META:], one.shapes[r["_shape"]]))
                    for r in one.batch.to_pylist()
                ]
        before: list[Any] = []
        for _, _, change in sorted(moments, key=lambda one: one[:2]):
            if change is None:
                rows.clear()
                continue
            op, values, shape = change
            if op in (Op.DELETE, Op.BEFORE):
                before = rows.pop(values[0])
            else:
                unchanged = shape.unchanged or (False,) * len(values)
                rows[values[0]] = [b if u else v for v, u, b in zip(values, unchanged, before or values, strict=True)]
    return Counter(tuple(row[:4]) for row in rows.values())


@pytest.mark.parametrize("small", [False, True], ids=["whole", "in fragments"])
def test_changes_carried_out_are_the_tables(slot: MakeSlot, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(assemble, "FULL_IMAGES", 7)
    made = slot()
    made.database.execute(*(f"CREATE TABLE {name} {TABLE}" for name in (*NAMES, "other")))
    made.database.execute("ALTER TABLE one ALTER v SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL")
    made.database.execute(
        "INSERT INTO one SELECT n, 'v' || n, decode(repeat(md5(n::text), 200), 'hex'), n / 3.0 FROM generate_series(1, 30) n",
        "INSERT INTO other SELECT n FROM generate_series(1, 30) n",
        "UPDATE one SET v = NULL, d = '-Infinity' WHERE id % 3 = 0",
        "UPDATE one SET id = id + 100 WHERE id % 4 = 0",
        "DELETE FROM one WHERE id % 5 = 0",
        "BEGIN; INSERT INTO two VALUES (1, 'x'); SAVEPOINT a; INSERT INTO two VALUES (2, 'y'); ROLLBACK TO a;"
        " TRUNCATE two; INSERT INTO two VALUES (3, 'z', '', 'NaN'); COMMIT",
        "TRUNCATE one",
        "INSERT INTO one SELECT n, 'again' FROM generate_series(1, 30) n",
        "UPDATE one SET b = '\\x00ff'",
    )
    found = list(chunks(assembler(made), made.take()))
    for name in NAMES:
        there = Counter(made.database.query(f"SELECT id, v, b, d FROM {name}"))
        assert [str(row) for row in sorted(carried_out(found, name))] == [str(row) for row in sorted(there)]
    assert {table.table.name for chunk in found for table in chunk.tables} == set(NAMES)
    whole = [chunk for chunk in found if chunk.part is not Part.FRAGMENT]
    times = pa.concat_tables(pa.Table.from_batches([chunk.transactions]) for chunk in whole)
    natives = [lsn_of(native) for native in times["native"].to_pylist()]
    assert natives == sorted(natives) and len(natives) == 8 and all(times["commit_time"].to_pylist())
    assert any(chunk.part is Part.LAST for chunk in found) is small


def test_rule_19_a_relation_that_is_not_as_defined_is_parked(slot: MakeSlot) -> None:
    made = slot()
    made.database.execute(*(f"CREATE TABLE {name} {TABLE}" for name in NAMES))
    made.database.execute(*(f"INSERT INTO {name} VALUES (1, 'a')" for name in NAMES))
    made.database.execute("ALTER TABLE one ALTER v TYPE varchar(50)", "ALTER TABLE two ADD extra int")
    made.database.execute(*(f"INSERT INTO {name} VALUES (2, 'b')" for name in NAMES))
    (chunk,) = chunks(assembler(made), made.take())
    assert [(b.tx, b.kind, b.table.name, b.reason) for b in chunk.barriers] == [
        (2, "park", "one", "column v is character varying(50) in the log and character varying(40) in the definition"),
        (3, "park", "two", "the log has 5 columns, the definition 4"),
    ]
    assert {one.table.name: one.batch["id"].to_pylist() for one in chunk.tables} == {"one": [1], "two": [1]}
