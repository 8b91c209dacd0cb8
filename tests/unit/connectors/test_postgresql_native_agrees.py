"""The compiled decoder of pgoutput and the one in Python make the same of all messages: chunks, places, errors (no server).

Without the compiled one `auto` is Python, which is then compared with itself: the header of the run says which it is."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows import compiled
from anabranch.rows.chunk import Chunk

HEAD = b"w" + bytes(24)
KINDS: dict[Kind, tuple[int, str, tuple[bytes, ...]]] = {
    Kind.INT16: (21, "smallint", (b"0", b"-32768", b"32767")),
    Kind.INT32: (23, "integer", (b"0", b"-1", b"2147483647", b"-2147483648")),
    Kind.INT64: (20, "bigint", (b"7", b"-9223372036854775808", b"9223372036854775807")),
    Kind.FLOAT32: (700, "real", (b"0", b"-0", b"1.1", b"1e-40", b"3.4028235e+38", b"NaN", b"Infinity", b"-Infinity")),
    Kind.FLOAT64: (701, "double precision", (b"0.1", b"5e-324", b"1.7976931348623157e+308", b"NaN", b"1e15")),
    Kind.TEXT: (25, "text", (b"", b"a", "ü€😀".encode(), b"x" * 300)),
    Kind.NATIVE: (1114, "timestamp without time zone", (b"2020-01-01 00:00:00", b"infinity")),
    Kind.BINARY: (17, "bytea", (b"\\x", b"\\x00ff", b"\\xdeadbeef" * 1)),
}  # fmt: skip
# What no server writes for any of them, or only for some.
ODD = (
    *(
        b"005",
        b"+5",
        b" 5",
        b"1e400",
        b"1e-400",
        b".5",
        b"5.",
        b"x",
        b"",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\xAB",
        b"\\x0",
    ),
    *(
        b"\\xgg",
        b"0x10",
        b"32768",
        b"99999999999999999999",
        b"nan",
        b"inf",
        b"-",
        b"1_0",
        b"1e",
        b"-0",
        b"-9223372036854775809",
    ),
)
OIDS = {oid: name for oid, name, _ in KINDS.values()}


class Log:
    """Messages of drawn tables and transactions. `odd`: how likely a value is one of ODD."""

    def __init__(self, seed: int, odd: float = 0.0) -> None:
        self.r, self.odd = random.Random(seed), odd
        self.lsn = 100
        self.tables = [self._table(number) for number in range(self.r.randrange(1, 4))]
        self.messages: list[bytes] = []
        for _ in range(self.r.randrange(1, 12)):
            self._transaction()

    @property
    def schemas(self) -> dict[TableId, TableSchema]:
        """One of the tables may be left out."""
        return {schema.id: schema for schema, _, _ in self.tables if schema.id.name != "left out"}

    def _table(self, number: int) -> tuple[TableSchema, list[Kind | None], list[bool]]:
        kinds = [self.r.choice([*KINDS, Kind.INT32, Kind.TEXT]) for _ in range(self.r.randrange(1, 7))]
        columns = [Column(f"c{n}", LogicalType(kind), KINDS[kind][1]) for n, kind in enumerate(kinds)]
        if self.r.random() < 0.3:  # generated: not in the log
            columns.insert(
                self.r.randrange(len(columns)), Column("g", LogicalType(Kind.INT32), "integer", generated=True)
            )
        if self.r.random() < 0.2:  # refused
            columns = [c if n else Column(c.name, None, c.native, generated=c.generated) for n, c in enumerate(columns)]
        name = "left out" if number and self.r.random() < 0.3 else f"t{number}"
        keys = [self.r.random() < 0.5 for _ in kinds]
        return TableSchema(TableId("s", name), tuple(columns), ("c0",)), list(kinds), keys

    def _relation(self, number: int) -> None:
        schema, kinds, keys = self.tables[number]
        columns = b"".join(
            bytes((key,)) + b"c%d\0" % n + struct.pack(">Ii", KINDS[kind][0], -1)
            for n, (kind, key) in enumerate(zip(kinds, keys, strict=True))
            if kind
        )
        head = struct.pack(">I", number + 1) + b"s\0" + schema.id.name.encode() + b"\0d"
        self.messages.append(b"R" + head + struct.pack(">H", len(kinds)) + columns)

    def _transaction(self) -> None:
        xid, rows = self.r.randrange(1 << 32), self.r.randrange(8)
        at, time = self.lsn + 50, self.r.randrange(-(10**15), 10**15)
        self.messages.append(b"B" + struct.pack(">QqI", at, time, xid))
        for _ in range(rows):
            number = self.r.randrange(len(self.tables))
            if not any(m[:5] == b"R" + struct.pack(">I", number + 1) for m in self.messages) or self.r.random() < 0.1:
                self._relation(number)
            if self.r.random() < 0.03:
                self.messages.append(b"T" + struct.pack(">IBI", 1, 0, number + 1))
            self.messages.append(self._row(number))
        if self.r.random() < 0.1:
            self.messages.append(b"O" + struct.pack(">Q", 5) + b"there\0")
        self.lsn = at + 8
        self.messages.append(b"C\0" + struct.pack(">QQq", at, self.lsn, time))

    def _row(self, number: int) -> bytes:
        _, kinds, _ = self.tables[number]
        kind, head = self.r.choice("IUD"), struct.pack(">I", number + 1)
        before = b"" if kind == "I" else self.r.choice([b"K", b"O"] if kind == "D" else [b"", b"K", b"O"])
        old = before + self._tuple(kinds) if before else b""
        return kind.encode() + head + old + (b"" if kind == "D" else b"N" + self._tuple(kinds, kind == "U"))

    def _tuple(self, kinds: list[Kind | None], toasts: bool = False) -> bytes:
        return struct.pack(">H", len(kinds)) + b"".join(self._value(kind, toasts) for kind in kinds)

    def _value(self, kind: Kind | None, toasts: bool) -> bytes:
        if self.r.random() < 0.15:
            return b"u" if toasts and self.r.random() < 0.6 else b"n"
        assert kind is not None
        value = self.r.choice(ODD if self.r.random() < self.odd else KINDS[kind][2])
        return b"t" + struct.pack(">I", len(value)) + value


def read(log: Log, decoding: str, size: int) -> tuple[list[Any], Any]:
    """Everything that comes of a log in batches of `size`, and where it is then, or the error."""
    assembler = PgoutputAssembler(Place("h", 7), log.schemas.get, lambda oid, _: OIDS[oid], "beats", decoding=decoding)
    found: list[Any] = []
    try:
        for first in range(0, len(log.messages), size):
            frames, at = [HEAD + message for message in log.messages[first : first + size]], 0
            while at < len(frames):
                at = assembler.follow(frames, at)
                if at < len(frames) and not assembler.ready:
                    at += 1
                    assembler.take(frames[at - 1][len(HEAD) :])
                found += drained(assembler)
        assembler.flush()
        found += drained(assembler)
    except AnabranchError as error:
        return found, (type(error), named(error), error.position, error.table)
    except (IndexError, KeyError) as error:  # of a message that is none at all
        return found, type(error)
    return found, (assembler.mark(), assembler.is_between)


def named(error: AnabranchError) -> str:
    """Without which of several values, or of several things wrong with a message, is named: Python looks at many rows at once,
    and at the bytes behind a message that is cut."""
    what, _, rest = error.message.partition(": ")
    return what if what.startswith(("column ", "rows that cannot be read")) else what + rest


def drained(assembler: PgoutputAssembler) -> list[Any]:
    items, found = assembler.ready, []
    while items:
        found.append(told(items.popleft()))
    return found


def told(item: Any) -> Any:
    if not isinstance(item, Chunk):
        return repr(item)
    rows = []
    for table in item.tables:
        table.batch.validate(full=True)
        rows.append((table.table, table.version, table.shapes, str(table.batch.schema), repr(table.batch.to_pydict())))
    item.transactions.validate(full=True)
    return item.transactions.to_pydict(), rows, item.barriers, item.part, item.resume


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 3, 1000]), st.sampled_from([4, 20_000]))
def test_native_agrees_on_drawn_logs(seed: int, size: int, full: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "FULL_IMAGES", full)
        found = read(Log(seed), "auto", size)
        assert found == read(Log(seed), "python", size)
    assert isinstance(found[1][1], bool), found[1]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.02, 0.3]))
def test_native_agrees_on_values_that_no_server_writes(seed: int, odd: float) -> None:
    """What Python accepts both accept, and what it refuses both refuse by the same name."""
    assert read(Log(seed, odd), "auto", 1000) == read(Log(seed, odd), "python", 1000)


@settings(max_examples=300, deadline=None)
@example(1403, 1403, "byte")  # the time of a commit that no integer of eight bytes holds
@given(st.integers(0, 1 << 30), st.integers(0, 1 << 30), st.sampled_from(["byte", "cut", "longer", "gone", "twice"]))
def test_native_agrees_on_damaged_messages(seed: int, place: int, how: str) -> None:
    logs = []
    for _ in range(2):
        log = Log(seed)
        number = place % len(log.messages)
        one = bytearray(log.messages[number])
        at = place // 7 % len(one)
        if how == "byte":
            one[at] ^= 1 + place // 11 % 255
        elif how == "cut":
            del one[max(1, at) :]
        elif how == "longer":
            one += b"n"
        log.messages[number : number + 1] = {"gone": [], "twice": [bytes(one)] * 2}.get(how, [bytes(one)])
        logs.append(log)
    assert read(logs[0], "auto", 5) == read(logs[1], "python", 5)


@settings(deadline=None)
@given(st.integers(0, 1 << 30), st.binary(max_size=60))
def test_native_agrees_on_any_bytes(seed: int, data: bytes) -> None:
    found = []
    for decoding in ("auto", "python"):
        log = Log(seed)
        log.messages.insert(len(log.messages) // 2, data)
        found.append(read(log, decoding, 7))
    assert found[0] == found[1]


def test_native_is_asked_for_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "NATIVE", None)
    with pytest.raises(ConfigError, match="compiled decoder"):
        PgoutputAssembler(Place("h", 7), {}.get, lambda oid, _: "", "beats", decoding="native")
    assert read(Log(1), "auto", 9) == read(Log(1), "python", 9)


@pytest.mark.skipif(compiled.NATIVE is None, reason="the compiled decoder is not installed (make native)")
def test_native_follows_what_is_plain_by_itself() -> None:
    """Of whole transactions of relations that are known nothing is left for Python."""
    log = Log(3)
    log.messages = [m for m in log.messages if m[:1] in (b"B", b"R", b"C")]
    assembler = PgoutputAssembler(Place("h", 7), log.schemas.get, lambda oid, _: OIDS[oid], "beats", decoding="native")
    for number in range(len(log.tables)):
        log._relation(number)
        assembler.take(log.messages[-1])
    log.messages.clear()
    for _ in range(20):
        log._transaction()
    frames = [HEAD + message for message in log.messages if message[:1] in b"BIUDC"]
    assert len(frames) > 60 and assembler.follow(frames, 0) == len(frames)
