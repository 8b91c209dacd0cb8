"""The compiled decoder and the one in Python make the same of every log: chunks, places, errors (of `mysql_log_made.py`).

Each test reads a log with both, where the compiled one is installed: the header of the run says whether it is. Without it
`auto` is Python, which is then compared with itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.mysql.source import endings
from anabranch.connectors.mysql.source.assemble import Assembler
from anabranch.connectors.mysql.source.positions import Place
from anabranch.contracts import ValueRules
from anabranch.errors import AnabranchError, ConfigError
from anabranch.rows.chunk import Chunk, TableRows
from anabranch.rows.compiled import compiled
from rigs.mysql_log_made import PLAIN, Log, Table

WRITES, UPDATES, DELETES = (23, 30), (24, 31), (25, 32)
CARRY = "carry "  # in front of what becomes of zero dates: other values that cannot be converted are carried on


def read(
    log: Log, tables: list[Table], decoding: str, size: int, eager: bool = False, zero: str = "stop"
) -> tuple[list[Any], Any]:
    """Everything that comes of a log in blocks of `size`, and the error."""
    schemas = {table.schema.id: table.schema for table in tables if not table.name.startswith("left")}
    place = Place("id", log.family, "log.000001", 4, "")
    rules = ValueRules(zero.removeprefix(CARRY) or "stop", carries=zero.startswith(CARRY))
    assembler, found, error = Assembler(place, schemas.get, rules, decoding=decoding), [], None
    stream = log.stream()
    try:
        for at in range(0, len(stream), size):
            assembler.feed(stream[at : at + size])
            found += drained(assembler)
            if eager:
                assembler.flush()
        found += drained(assembler)
        assembler.flush()
        found += drained(assembler)
    except AnabranchError as raised:
        error = (type(raised), raised.message, raised.position, raised.hint, raised.table)
    return [told(item) for item in found], (error, assembler.mark() if error is None else None)


def drained(assembler: Assembler) -> list[Any]:
    found: list[Any] = []
    while True:
        assembler.advance()
        if not assembler.ready:
            return found
        found.append(assembler.ready.popleft())


def told(item: Any) -> Any:
    if not isinstance(item, Chunk):
        return repr(item)
    rows = []
    for table in item.tables:
        table.batch.validate(full=not any(map(pa.types.is_decimal, table.batch.schema.types)))
        seen = (table.shapes, table.unconverted, str(table.batch.schema), repr(table.batch.to_pydict()))
        rows.append((table.table, table.version, *seen))
    item.transactions.validate(full=True)
    return item.transactions.to_pydict(), rows, item.barriers, item.part, item.resume


def drawn_table(r: random.Random, name: str, number: int) -> Table:
    kinds = [r.choice(PLAIN) for _ in range(r.randrange(1, 12))]
    return Table(name, kinds, [r.random() < 0.6 for _ in kinds], number)


def drawn_rows(r: random.Random, table: Table) -> tuple[int, bytes]:
    kind = r.choice((*WRITES, *UPDATES, *DELETES))
    every = [True] * len(table.kinds)
    images = [every, every] if kind in UPDATES else [every]
    if kind not in WRITES and r.random() < 0.3:
        images = [[r.random() < 0.7 for _ in every] for _ in images]
        images[0][0] = True
    return kind, table.rows(r, kind, r.choice((0, 1, 1, 1, 2, 5, 30)), images)


def damaged(r: random.Random) -> Callable[[bytes], bytes]:
    def damage(packet: bytes) -> bytes:
        at = r.randrange(len(packet))
        return packet[:at] + bytes((packet[at] ^ 1 << r.randrange(8),)) + packet[at + 1 :]

    return damage


def drawn_log(r: random.Random, tables: list[Table], transactions: int, harm: float) -> Log:
    """`harm`: the part of rows events with a wrong byte."""
    log = Log(r.choice(("mariadb", "mysql")), checksums=r.random() < 0.7)
    for _ in range(transactions):
        if r.random() < 0.05:
            log.query(r.choice((b"CREATE TABLE other (id int)", b"SAVEPOINT a")))
        log.begin(r)
        for _ in range(r.choice((0, 1, 1, 1, 2, 4))):
            table = r.choice(tables)
            if r.random() < (0.3 if log.family == "mariadb" else 0.01):
                log.offset += r.choice((40, 300, 1 << 20, 1 << 32))  # an event that the server keeps to itself
            log.add(19, table.table_map())
            for _ in range(r.choice((1, 1, 1, 3))):
                kind, body = drawn_rows(r, table)
                if r.random() < harm:
                    body = damaged(r)(body)
                log.add(kind, body, damage=damaged(r) if r.random() < harm / 4 else None)
        if r.random() < 0.05:
            log.add(29, b"\x04rows")
        if r.random() < 0.1:
            log.query(r.choice((b"COMMIT", b"ROLLBACK")))
        else:
            log.commit()
    return log


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "FULL_IMAGES", 40)
    monkeypatch.setattr(endings, "FULL_BYTES", 6000)


def agree(seed: int, harm: float, transactions: int = 15) -> None:
    r = random.Random(seed)
    tables = [drawn_table(r, f"t{i}", 100 + i) for i in range(3)]
    tables.append(drawn_table(r, "left_out", 200))
    log = drawn_log(r, tables, transactions, harm)
    size, eager = r.choice((1 << 18, 4000, 333)), r.random() < 0.3
    zero = r.choice(("stop", "null", CARRY, f"{CARRY}null"))
    assert read(log, tables, "auto", size, eager, zero) == read(log, tables, "python", size, eager, zero)


@pytest.mark.parametrize("block", range(4))
def test_mysql_native_agrees_on_drawn_logs(block: int) -> None:
    """Drawn tables, rows and transactions; many values are none (dates, labels), so errors are compared as well."""
    for seed in range(6):
        agree(1000 * block + seed, 0.0)


@pytest.mark.parametrize("block", range(4))
def test_mysql_native_agrees_on_damaged_logs(block: int) -> None:
    for seed in range(6):
        agree(1000 * block + seed, 0.03)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(PLAIN),
    stored=st.binary(max_size=60),
    can_be_null=st.booleans(),
    zero=st.sampled_from(("stop", "null", CARRY)),
)
def test_mysql_native_agrees_on_any_bytes(kind: Any, stored: bytes, can_be_null: bool, zero: str) -> None:
    """Bytes as a server would never write them, for every kind of column."""
    table = Table("t", [kind], [can_be_null])
    r = random.Random(0)
    log = Log("mariadb")
    for rows in (table.rows(r, 30, 2, [[True]]), table.rows(r, 30, 0, [[True]]) + stored):
        log.begin(r)
        log.add(19, table.table_map())
        log.add(30, rows)
        log.commit()
    assert read(log, [table], "auto", 1 << 18, zero=zero) == read(log, [table], "python", 1 << 18, zero=zero)


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: f"{kind.native}-{kind.charset}-{kind.type}")
def test_mysql_native_agrees_on_each_kind(kind: Any) -> None:
    for seed in range(3):
        r = random.Random(seed)
        table = Table("t", [kind, PLAIN[3]], [seed % 2 == 0, False])
        log = Log("mysql")
        log.begin(r)
        log.add(19, table.table_map())
        log.add(30, table.rows(r, 30, 20, [[True, True]]))
        log.commit()
        assert read(log, [table], "auto", 1 << 18, zero="null") == read(log, [table], "python", 1 << 18, zero="null")


def test_mysql_native_is_what_reads_plain_rows() -> None:
    """Else all of this would compare Python with Python."""
    if not compiled("auto"):
        with pytest.raises(ConfigError, match=r"compiled decoder is (not installed|switched off)"):
            compiled("native")
        return
    kinds = [kind for kind in PLAIN if kind.charset != "gbk"]
    table, r, log = Table("t", kinds, [False] * len(kinds)), random.Random(4), Log("mariadb")
    for _ in range(3):
        log.begin(r)
        log.add(19, table.table_map())
        log.add(30, table.rows(r, 30, 2, [[True] * len(kinds)]))
        log.commit()
    schema = table.schema
    assembler = Assembler(
        Place("id", "mariadb", "log.000001", 4, ""), {schema.id: schema}.get, ValueRules("null"), decoding="native"
    )
    assembler.feed(log.stream())
    assembler.advance()
    buffer: Any = assembler._builder.table(schema)
    assert buffer.table.images == 6 and buffer.listed == 0
    assert assembler._builder.transaction == 3


@pytest.mark.parametrize("decoding", ["auto", "python"])
def test_rule_26_what_cannot_be_converted_is_left_out_and_marked(decoding: str) -> None:
    """All else is as where such values become NULL: the same log, read twice."""
    marks = 0
    for seed in range(12):
        r = random.Random(seed)
        doubtful = [kind for kind in PLAIN if kind.native.startswith("timestamp") or kind.charset == "gbk"]
        kinds = [PLAIN[0], *(r.choice(doubtful) for _ in range(3)), r.choice(PLAIN)]
        table = Table("t", kinds, [r.random() < 0.6 for _ in kinds], 100)
        log = drawn_log(r, [table], 6, 0.0)
        as_null, carried = (read_chunks(log, table, decoding, rules) for rules in NULL_OR_CARRIED)
        assert [rows.batch.to_pydict() | {"_shape": None} for rows in carried] == [
            rows.batch.to_pydict() | {"_shape": None} for rows in as_null
        ]
        for rows in carried:
            shape = rows.batch.column("_shape").to_pylist()
            lacks = {(one.row, one.column) for one in rows.unconverted}
            assert all(not rows.shapes[shape[row]].present[column] for row, column in lacks)
            assert all(one.what for one in rows.unconverted)
            marks += len(lacks)
    assert marks > 100


NULL_OR_CARRIED = (ValueRules("null", carries=True), ValueRules("stop", carries=True))


def read_chunks(log: Log, table: Table, decoding: str, rules: ValueRules) -> list[TableRows]:
    place = Place("id", log.family, "log.000001", 4, "")
    assembler = Assembler(place, {table.schema.id: table.schema}.get, rules, decoding=decoding)
    assembler.feed(log.stream())
    found = drained(assembler)
    assembler.flush()
    return [rows for item in (*found, *drained(assembler)) if isinstance(item, Chunk) for rows in item.tables]
