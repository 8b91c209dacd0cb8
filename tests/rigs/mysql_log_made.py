"""Logs made of nothing: events as a server frames them, tables of plain types, and rows of them, right and wrong."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source import tablemap as t
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

SERVER = 7


@dataclass
class Log:
    """Packets of one file, each event at its place. `checksums`: the format says so."""

    family: str
    checksums: bool = True
    packets: list[bytes] = field(default_factory=list)
    offset: int = 4
    number: int = 0

    def __post_init__(self) -> None:
        body = struct.pack("<H50sIB", 4, b"10.11.0", 0, 19) + bytes(60) + bytes((self.checksums,))
        self.add(b.FORMAT, body, is_format=True)

    def add(
        self, kind: int, body: bytes, *, is_format: bool = False, damage: Callable[[bytes], bytes] | None = None
    ) -> None:
        has_sum = self.checksums or is_format
        length = b.HEADER + len(body) + (4 if has_sum else 0)
        self.offset += length
        head = struct.pack("<IBIIIH", 1_700_000_000 + self.number, kind, SERVER, length, self.offset & 0xFFFFFFFF, 0)
        data = head + body
        data += struct.pack("<I", zlib.crc32(data)) if has_sum else b""
        packet = (len(data) + 1).to_bytes(3, "little") + b"\0\0" + data
        self.packets.append(damage(packet) if damage else packet)

    def begin(self, r: random.Random) -> None:
        self.number += 1
        if self.family == "mariadb":
            self.add(b.MARIADB_GTID, struct.pack("<QIB", self.number, r.randrange(2), 0) + bytes(6))
            return
        kind = r.choice((b.GTID, b.GTID, b.GTID, b.ANONYMOUS_GTID))
        clock = bytes((2,)) + bytes(16) + (1_700_000_000_000_000 + self.number).to_bytes(7, "little")
        source = bytes((r.randrange(2),)) * 16
        number = self.number + r.choice((0, 0, 0, 5))
        self.add(kind, b"\0" + source + struct.pack("<q", number) + r.choice((b"", clock)))
        self.query(b"BEGIN")

    def query(self, sql: bytes) -> None:
        self.add(b.QUERY, struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"s\0" + sql)

    def commit(self) -> None:
        self.add(b.XID, struct.pack("<Q", self.number))

    def stream(self) -> bytes:
        return b"".join(self.packets)


Values = Callable[[random.Random], bytes]


@dataclass(frozen=True)
class Plain:
    """A column of a kind: type and metadata in the table map, the definition, stored values."""

    type: int
    meta: bytes
    native: str
    logical: LogicalType | None
    values: Values
    charset: str = ""


def _bytes(size: int) -> Values:
    return lambda r: r.randbytes(size) if r.random() < 0.7 else r.choice((b"\0", b"\xff", b"\x80")) * size


def _sized(width: int, texts: Callable[[random.Random], bytes]) -> Values:
    def value(r: random.Random) -> bytes:
        text = texts(r)
        return len(text).to_bytes(width, "little") + text

    return value


def _raw(size: int) -> Values:
    return lambda r: r.randbytes(r.randrange(size))


def _characters(codec: str) -> Callable[[random.Random], bytes]:
    return lambda r: "".join(r.choice("aZ09 é€\x00𝄞ß日") for _ in range(r.randrange(6))).encode(codec, "ignore")


def _decimal(precision: int, scale: int) -> Values:
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

    def value(r: random.Random) -> bytes:
        groups = [(precision - scale) % 9, *[9] * ((precision - scale) // 9), *[9] * (scale // 9), scale % 9]
        parts = [r.randrange(10**digits).to_bytes(sizes[digits], "big") for digits in groups]
        data = bytearray(b"".join(parts))
        data[0] ^= 0x80
        return bytes(byte ^ 0xFF for byte in data) if r.random() < 0.5 else bytes(data)

    return value


def _date(r: random.Random) -> bytes:
    return (r.randrange(1, 10_000) << 9 | r.randrange(1, 13) << 5 | r.randrange(1, 29)).to_bytes(3, "little")


def _datetime(digits: int) -> Values:
    width = (digits + 1) // 2

    def value(r: random.Random) -> bytes:
        day = (r.randrange(1, 10_000) * 13 + r.randrange(1, 13)) << 5 | r.randrange(1, 29)
        clock = r.randrange(24) << 12 | r.randrange(60) << 6 | r.randrange(60)
        whole = 1 << 39 | day << 17 | clock
        return (whole << 8 * width | r.randrange(100**width)).to_bytes(5 + width, "big")

    return value


def _type(kind: Kind, **facts: object) -> LogicalType:
    return LogicalType(kind, **facts)  # type: ignore[arg-type]  # a mapping of mixed values


_INTEGERS = [
    (t.TINY, "tinyint", 1, Kind.INT8, Kind.UINT8),
    (t.SHORT, "smallint", 2, Kind.INT16, Kind.UINT16),
    (t.INT24, "mediumint", 3, Kind.INT32, Kind.UINT32),
    (t.LONG, "int", 4, Kind.INT32, Kind.UINT32),
    (t.LONGLONG, "bigint", 8, Kind.INT64, Kind.UINT64),
]
_LABELS = ("red", "grün", "blue")
PLAIN: list[Plain] = [
    *(Plain(code, b"", name, _type(signed), _bytes(size)) for code, name, size, signed, _ in _INTEGERS),
    *(Plain(code, b"", f"{name} unsigned", _type(kind), _bytes(size)) for code, name, size, _, kind in _INTEGERS),
    Plain(t.FLOAT, b"\4", "float", _type(Kind.FLOAT32), lambda r: struct.pack("<f", r.uniform(-1e9, 1e9))),
    Plain(t.DOUBLE, b"\10", "double", _type(Kind.FLOAT64), lambda r: struct.pack("<d", r.uniform(-1e99, 1e99))),
    *(
        Plain(t.NEWDECIMAL, bytes((p, s)), f"decimal({p},{s})", _type(Kind.DECIMAL, precision=p, scale=s), _decimal(p, s))
        for p, s in ((10, 2), (5, 5), (18, 0), (20, 9), (38, 10), (65, 30), (39, 0))
    ),
    Plain(t.DATE, b"", "date", _type(Kind.DATE), _date),
    Plain(t.YEAR, b"", "year", _type(Kind.YEAR), _bytes(1)),
    *(
        Plain(t.DATETIME2, bytes((d,)), f"datetime({d})", _type(Kind.TIMESTAMP, fraction=d), _datetime(d))
        for d in (0, 1, 4, 6)
    ),
    *(
        Plain(t.TIMESTAMP2, bytes((d,)), f"timestamp({d})", _type(Kind.INSTANT, fraction=d), _bytes(4 + (d + 1) // 2))
        for d in (0, 2, 3, 6)
    ),
    *(
        Plain(t.TIME2, bytes((d,)), f"time({d})", _type(Kind.DURATION, fraction=d), _bytes(3 + (d + 1) // 2))
        for d in (0, 1, 3, 6)
    ),
    Plain(t.BIT, b"\3\2", "bit(19)", _type(Kind.BIT, length=19), _bytes(3)),
    Plain(t.STRING, b"\xf7\1", "enum('…')", _type(Kind.ENUM, values=_LABELS), lambda r: bytes((r.randrange(4),)), "utf8mb4"),
    Plain(t.STRING, b"\xf8\1", "set('…')", _type(Kind.SET, values=_LABELS), lambda r: bytes((r.randrange(8),)), "utf8mb4"),
    Plain(t.STRING, b"\xfe\x14", "char(5)", _type(Kind.TEXT, length=5), _sized(1, _characters("utf-8")), "utf8mb4"),
    Plain(t.STRING, b"\xfe\x06", "binary(6)", _type(Kind.BINARY, length=6), _sized(1, _raw(7))),
    Plain(t.VARCHAR, b"\x50\0", "varchar(20)", _type(Kind.TEXT, length=20), _sized(1, _characters("utf-8")), "utf8mb4"),
    Plain(t.VARCHAR, b"\x20\3", "varchar(200)", _type(Kind.TEXT, length=200), _sized(2, _characters("utf-8")), "utf8mb4"),
    Plain(t.VARCHAR, b"\x14\0", "varchar(20)", _type(Kind.TEXT, length=20), _sized(1, _characters("cp1252")), "latin1"),
    Plain(t.VARCHAR, b"\x14\0", "varchar(20)", _type(Kind.TEXT, length=20), _sized(1, _characters("ascii")), "ascii"),
    Plain(t.VARCHAR, b"\x28\0", "varchar(20)", _type(Kind.TEXT, length=20), _sized(1, _characters("gbk")), "gbk"),
    Plain(t.VARCHAR, b"\x14\0", "varbinary(20)", _type(Kind.BINARY, length=20), _sized(1, _raw(9))),
    Plain(t.BLOB, b"\1", "tinyblob", _type(Kind.BINARY), _sized(1, _raw(40))),
    Plain(t.BLOB, b"\2", "text", _type(Kind.TEXT), _sized(2, _characters("utf-8")), "utf8mb3"),
    Plain(t.BLOB, b"\3", "mediumtext", _type(Kind.TEXT), _sized(3, _characters("utf-8")), "utf8mb4"),
    Plain(t.BLOB, b"\4", "longblob", _type(Kind.BINARY), _sized(4, _raw(40))),
    Plain(t.BLOB, b"\2", "blob", None, _sized(2, _raw(40))),
    Plain(t.LONG, b"", "int", None, _bytes(4)),
]  # fmt: skip


@dataclass
class Table:
    """A table whose first column is its key. `kinds` of its columns, and which may be NULL."""

    name: str
    kinds: list[Plain]
    nullable: list[bool]
    number: int = 100

    @property
    def schema(self) -> TableSchema:
        columns = tuple(
            Column(f"c{i}", kind.logical, kind.native, can_be_null, charset=kind.charset)
            for i, (kind, can_be_null) in enumerate(zip(self.kinds, self.nullable, strict=True))
        )
        return TableSchema(TableId("s", self.name), columns)

    def table_map(self) -> bytes:
        name = self.name.encode()
        nulls = sum(1 << i for i, can_be_null in enumerate(self.nullable) if can_be_null)
        meta = b"".join(kind.meta for kind in self.kinds)
        return b"".join(
            (
                self.number.to_bytes(6, "little"), b"\1\0", b"\1s\0", bytes((len(name),)), name, b"\0",
                bytes((len(self.kinds),)), bytes(kind.type for kind in self.kinds), bytes((len(meta),)), meta,
                nulls.to_bytes((len(self.kinds) + 7) // 8, "little"),
            )
        )  # fmt: skip

    def rows(self, r: random.Random, kind: int, count: int, present: list[list[bool]]) -> bytes:
        """A rows event's body."""
        width = (len(self.kinds) + 7) // 8
        bitmaps = [sum(1 << i for i, there in enumerate(image) if there).to_bytes(width, "little") for image in present]
        extra = b"" if kind < 30 else b"\2\0"
        head = self.number.to_bytes(6, "little") + r.choice((b"\1\0", b"\1\0", b"\3\0")) + extra
        images = [self._image(r, image) for _ in range(count) for image in present]
        return b"".join((head, bytes((len(self.kinds),)), *bitmaps, *images))

    def _image(self, r: random.Random, present: list[bool]) -> bytes:
        places = [i for i, there in enumerate(present) if there]
        nulls, values = 0, []
        for bit, place in enumerate(places):
            if self.nullable[place] and r.random() < 0.3:
                nulls |= 1 << bit
            else:
                values.append(self.kinds[place].values(r))
        return nulls.to_bytes((len(places) + 7) // 8, "little") + b"".join(values)
