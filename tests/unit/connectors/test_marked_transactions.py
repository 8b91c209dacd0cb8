"""A transaction that begins with a row of a job's state has that job as its origin, and is left out by name: both decoders of
both families, on logs that are made here (K21)."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from anabranch.connectors.mysql.source import binlog as events
from anabranch.connectors.mysql.source import endings
from anabranch.connectors.mysql.source import tablemap as t
from anabranch.connectors.mysql.source.assemble import Assembler
from anabranch.connectors.mysql.source.left_out import left_out
from anabranch.connectors.mysql.source.positions import Place as BinlogPlace
from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler
from anabranch.connectors.postgresql.source.positions import Place as WalPlace
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import Chunk
from anabranch.rows.log_items import LogStatement
from rigs.mysql_log_made import PLAIN, Log, Plain, Table, _sized

NAMES = ("here", "there")
HEAD = b"w" + bytes(24)
# What a transaction does: rows of a table that is followed (r), of one that is not (o), a marker of a job by its number.
LOGS = [
    ["r", "0r", "1r", "r"],
    ["0", "1", "0rr", "rr"],
    ["r0r", "0r1", "or", "o0r", "10r"],
    ["0rrr0", "1rrr1", "rrr", "0r"],
    ["1rrrrrr", "0rrrrrr", "rrrrrr1", "0"],
]
Outcome = list[tuple[str | None, int]]


def expected(log: Sequence[str], leave_out: Sequence[str]) -> Outcome:
    """Origin and rows of each transaction that is given: a marker counts in front of every row that is followed, and only the
    first one."""
    found: Outcome = []
    for one in log:
        front = [NAMES[int(what)] for what in one.partition("r")[0] if what.isdigit()]
        origin = f"anabranch:{front[0]}" if front else None
        if "r" in one and origin not in leave_out:
            found.append((origin, one.count("r")))
    return found


def told(items: Sequence[Any]) -> Outcome:
    """What was read, whatever chunks it came in."""
    found, rows = [], 0
    for item in items:
        assert isinstance(item, Chunk)
        assert {one.table.name for one in item.tables} <= {"rows"}
        for one in item.transactions.to_pylist():
            rows += one["rows"]
            if one["native"]:
                found.append((one["origin"], rows))
                rows = 0
    return found


@dataclass
class State(Table):
    """A table of a job's state, with the job's name in front."""

    def table_map(self) -> bytes:
        return super().table_map().replace(b"\1s\0", b"\x09anabranch\0")


JOB = Plain(t.VARCHAR, b"\xfc\0", "varchar(63)", LogicalType(Kind.TEXT), lambda r: b"\4here", "utf8mb4")


def binlog(log: Sequence[str], family: str, seed: int) -> bytes:
    r, made = random.Random(seed), Log(family)
    numbers = PLAIN[3]
    rows, other = Table("rows", [numbers], [False], 100), Table("other", [numbers], [False], 101)
    for one in log:
        made.begin(r)
        for what in one:
            table = {"r": rows, "o": other}.get(what) or State(
                r.choice(("checkpoint", "load_chunk")), [_job(NAMES[int(what)]), numbers], [False, True], 102
            )
            kind = r.choice((30, 31, 39, 24, 25)) if what.isdigit() else 30
            images = [[True] * len(table.kinds)] * (2 if kind in (24, 31, 39) else 1)
            if kind == 31:
                images = [[True, False], [False, True]]  # MINIMAL: the key before, what has changed after
            made.add(19, table.table_map())
            made.add(kind, table.rows(r, kind, 1, images))
        made.commit()
    return made.stream()


def _job(name: str) -> Plain:
    return Plain(JOB.type, JOB.meta, JOB.native, JOB.logical, _sized(1, lambda r: name.encode()), JOB.charset)


@pytest.mark.parametrize("decoding", ["auto", "python"])
@pytest.mark.parametrize("family", ["mysql", "mariadb"])
@pytest.mark.parametrize("leave_out", [(), ("anabranch:here",), ("anabranch:here", "anabranch:there"), ("77",)])
def test_rule_21_markers_in_a_binary_log(
    decoding: str, family: str, leave_out: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "FULL_IMAGES", 4)  # large transactions come in parts
    column = Column("c0", LogicalType(Kind.INT32), "int", False)
    followed = {TableId("s", "rows"): TableSchema(TableId("s", "rows"), (column,))}
    for seed, log in enumerate(LOGS):
        options = {"decoding": decoding, "own": 7, "left_out": left_out(leave_out)}
        assembler = Assembler(
            BinlogPlace("id", family, "log.000001", 4, ""), followed.get, ValueRules("stop"), **options
        )
        found: list[Any] = []
        stream = binlog(log, family, seed)
        for at in range(0, len(stream), 333):
            assembler.feed(stream[at : at + 333])
            assembler.advance()
            while assembler.ready:
                found.append(assembler.ready.popleft())
                assembler.advance()
        assembler.flush()
        assert told([*found, *assembler.ready]) == expected(log, leave_out), log
        assert assembler.is_between


def test_rule_21_a_statement_that_commits_by_itself_says_whose_it_is() -> None:
    for leave_out, found in (((), 3), (("anabranch:here",), 2)):
        made = Log("mariadb")
        for sql in (b"TRUNCATE t /* anabranch:here */", b"TRUNCATE t /* anabranch:there */", b"TRUNCATE t /* other */"):
            made.number += 1
            made.add(events.MARIADB_GTID, struct.pack("<QIB", made.number, 0, 1) + bytes(6))  # it stands alone
            made.query(sql)
        items = statements(made, leave_out)
        origins = ["anabranch:here", "anabranch:there", None][-found:]
        assert [item.origin for item in items if isinstance(item, LogStatement)] == origins


def statements(made: Log, leave_out: Sequence[str]) -> list[Any]:
    options = {"own": 7, "left_out": left_out(leave_out)}
    assembler = Assembler(BinlogPlace("id", "mariadb", "log.000001", 4, ""), {}.get, ValueRules("stop"), **options)
    assembler.feed(made.stream())
    found: list[Any] = []
    assembler.advance()
    while assembler.ready:
        found.append(assembler.ready.popleft())
        assembler.advance()
    return found


# --- PostgreSQL -------------------------------------------------------------------------------------------------------------


def wal(log: Sequence[str], seed: int) -> list[bytes]:
    r, lsn, made = random.Random(seed), 100, []
    for oid, schema, name in (
        (1, "s", "rows"),
        (2, "s", "other"),
        (3, "anabranch", "checkpoint"),
        (4, "anabranch", "load_chunk"),
    ):
        columns = [(b"c0", 23)] if schema == "s" else [(b"job", 25), (b"n", 23)]
        body = b"".join(b"\1" + column + b"\0" + struct.pack(">Ii", type, -1) for column, type in columns)
        head = struct.pack(">I", oid) + f"{schema}\0{name}\0d".encode()
        made.append(b"R" + head + struct.pack(">H", len(columns)) + body)
    for number, one in enumerate(log, 1):
        made.append(b"B" + struct.pack(">QqI", lsn + 50, number, number))
        for what in one:
            if what.isdigit():
                made.append(_marker(r, NAMES[int(what)]))
            else:
                made.append(b"I" + struct.pack(">I", 1 if what == "r" else 2) + b"N" + _tuple(b"5"))
        lsn += 58
        made.append(b"C\0" + struct.pack(">QQq", lsn - 8, lsn, number))
    return made


def _marker(r: random.Random, job: str) -> bytes:
    oid, kind = struct.pack(">I", r.choice((3, 4))), r.choice("IUUD")
    whole = _tuple(job.encode(), b"7")
    key = b"K" + _tuple(job.encode(), None)
    if kind == "D":
        return b"D" + oid + key
    return kind.encode() + oid + (key if kind == "U" and r.random() < 0.5 else b"") + b"N" + whole


def _tuple(*values: bytes | None) -> bytes:
    cells = (b"n" if value is None else b"t" + struct.pack(">I", len(value)) + value for value in values)
    return struct.pack(">H", len(values)) + b"".join(cells)


@pytest.mark.parametrize("decoding", ["auto", "python"])
@pytest.mark.parametrize("leave_out", [(), ("anabranch:here",), ("anabranch:here", "anabranch:there"), ("else",)])
def test_rule_21_markers_in_messages_of_pgoutput(decoding: str, leave_out: tuple[str, ...]) -> None:
    column = Column("c0", LogicalType(Kind.INT32), "integer")
    followed = {TableId("s", "rows"): TableSchema(TableId("s", "rows"), (column,), ("c0",))}
    for seed, log in enumerate(LOGS):
        assembler = PgoutputAssembler(
            WalPlace("h", 7),
            followed.get,
            lambda oid, _: {23: "integer", 25: "text"}[oid],
            "beats",
            decoding=decoding,
            leave_out=frozenset(leave_out),
        )
        frames, at = [HEAD + message for message in wal(log, seed)], 0
        while at < len(frames):
            at = assembler.follow(frames, at)
            if at < len(frames) and not assembler.ready:
                assembler.take(frames[at][len(HEAD) :])
                at += 1
        assembler.flush()
        assert told(list(assembler.ready)) == expected(log, leave_out), log
        assert assembler.is_between


def streamed(log: Sequence[str], seed: int) -> list[bytes]:
    """Each transaction in pieces of two changes, as it is made."""
    r, lsn, made = random.Random(seed), 100, []
    relations = [message for message in wal([], seed) if message[:1] == b"R"]
    for xid, one in enumerate(log, 10):
        name = struct.pack(">I", xid)
        for first in range(0, max(1, len(one)), 2):
            made.append(b"S" + name + bytes((first == 0,)))
            if first == 0:
                made += [message[:1] + name + message[1:] for message in relations]
            for what in one[first : first + 2]:
                row = _marker(r, NAMES[int(what)]) if what.isdigit() else b""
                row = row or b"I" + struct.pack(">I", 1 if what == "r" else 2) + b"N" + _tuple(b"5")
                made.append(row[:1] + name + row[1:])
            made.append(b"E")
        lsn += 58
        made.append(b"c" + name + b"\0" + struct.pack(">QQq", lsn - 8, lsn, xid))
    return made


@pytest.mark.parametrize("leave_out", [(), ("anabranch:here",)])
def test_rule_21_markers_of_transactions_that_come_while_they_are_open(leave_out: tuple[str, ...]) -> None:
    """What becomes of each is known before its first row is given."""
    column = Column("c0", LogicalType(Kind.INT32), "integer")
    followed = {TableId("s", "rows"): TableSchema(TableId("s", "rows"), (column,), ("c0",))}
    for seed, log in enumerate(LOGS):
        assembler = PgoutputAssembler(
            WalPlace("h", 7),
            followed.get,
            lambda oid, _: {23: "integer", 25: "text"}[oid],
            "beats",
            leave_out=frozenset(leave_out),
        )
        for message in streamed(log, seed):
            assembler.take(message)
        rows: dict[str, int] = {}
        found: Outcome = []
        for item in assembler.ready:
            if hasattr(item, "chunk"):
                rows[item.xid] = rows.get(item.xid, 0) + item.chunk.row_count
            elif rows.get(item.xid):
                found.append((item.origin, rows[item.xid]))
        assert found == expected(log, leave_out), log
