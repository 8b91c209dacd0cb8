"""Types of a MySQL or MariaDB with values that hypothesis draws, and those that another one does not take."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address

from hypothesis import strategies as st

from rigs.drawn_values import (
    DAYS,
    DOCUMENTS,
    LAST_DAY,
    ODD_DOCUMENTS,
    TEXTS,
    Drawn,
    decimals,
    document,
    floats,
    hexadecimal,
    number,
    unsigned_zero,
    whole,
)

AS_CHAR = "CAST(v AS CHAR)"
UTF8 = "HEX(CONVERT(v USING utf8mb4))"
STORED = f"CONCAT(HEX(v), ' ', {UTF8})"  # in the column's own character set, and what it means
LABEL = f"CONCAT(v + 0, ' ', {UTF8})"
BYTES = st.sampled_from((b"", b"\0", b"a\0\0", b"\\N", bytes(range(256)))) | st.binary(max_size=30)
# Names of both servers -> the codec of Python whose characters they have.
CHARSETS = {"latin1": "cp1252", "ascii": "ascii", "cp1251": "cp1251", "gbk": "gb2312", "sjis": "ascii"}


def drawn(source: str, target: str) -> Iterator[Drawn]:
    """Types whose values all arrive at this family of targets, with the values that the table of types takes."""
    yield from _numbers(target)
    yield from _texts()
    yield from _clocks()
    yield from _others(source, target)


def _numbers(target: str) -> Iterator[Drawn]:
    zero = unsigned_zero if target == "mariadb" else number
    for type, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64)):
        yield Drawn(type, whole(-(1 << bits - 1), (1 << bits - 1) - 1), AS_CHAR, AS_CHAR)
        yield Drawn(f"{type} unsigned", whole(0, (1 << bits) - 1), AS_CHAR, AS_CHAR)
    yield Drawn("tinyint(1)", whole(-128, 127), AS_CHAR, AS_CHAR)
    yield Drawn("int(6) unsigned zerofill", whole(0, (1 << 32) - 1), AS_CHAR, AS_CHAR)
    for digits, scale in ((65, 30), (65, 0), (7, 2), (30, 30)):
        yield Drawn(f"decimal({digits},{scale})", decimals(digits, scale), AS_CHAR, AS_CHAR)
    yield Drawn("float", floats(4, "'{}'".format), "v * 1e0", "v * 1e0", zero)
    yield Drawn("double", floats(8, "'{}'".format), AS_CHAR, AS_CHAR, zero)
    yield Drawn("double(20,10)", decimals(18, 10), "v * 1e0", "v * 1e0", zero)
    yield Drawn("year", st.sampled_from((0, 1901, 2155)).map(str) | whole(1901, 2155), AS_CHAR, AS_CHAR)
    for width in (1, 10, 64):
        yield Drawn(f"bit({width})", whole(0, (1 << width) - 1), "HEX(v)", "HEX(v)")


def _literal(text: str) -> str:
    return f"_utf8mb4 x'{hexadecimal(text)}'"


def _texts() -> Iterator[Drawn]:
    for type in ("varchar(20)", "char(20)", "longtext", "tinytext"):
        yield Drawn(f"{type} character set utf8mb4", TEXTS.map(_literal), STORED, STORED)
    plane = TEXTS.filter(lambda text: all(ord(one) < 0x10000 for one in text))
    yield Drawn("varchar(20) character set utf8mb3", plane.map(_literal), STORED, STORED)
    yield Drawn("varchar(20) character set utf16", TEXTS.map(_literal), STORED, STORED)
    for charset, codec in CHARSETS.items():
        words = st.sampled_from(("", "a  ", "\\")) | st.text(
            st.characters(codec=codec, exclude_characters="\0"), max_size=12
        )
        yield Drawn(f"varchar(20) character set {charset}", words.map(_literal), STORED, STORED)
    literal = BYTES.map(lambda data: f"x'{data.hex()}'")
    yield Drawn("varbinary(256)", literal, "HEX(v)", "HEX(v)")
    yield Drawn("longblob", literal, "HEX(v)", "HEX(v)")
    short = st.binary(max_size=4).map(lambda data: f"x'{data.hex()}'")
    yield Drawn("binary(4)", short, "HEX(v)", "HEX(v)")
    labels = ("a", "B", "it's", "b\\", "ä,b", "{0}", "%s")
    listed = ",".join(f"'{one}'" for one in (x.replace("\\", "\\\\").replace("'", "''") for x in labels))
    yield Drawn(f"enum({listed}) character set utf8mb4", whole(1, len(labels)), LABEL, LABEL)
    yield Drawn("enum('','x') character set utf8mb4", whole(1, 2), LABEL, LABEL)
    members = ",".join(f"'m{number}'" for number in range(64))
    yield Drawn(f"set({members}) character set utf8mb4", whole(0, (1 << 64) - 1), UTF8, UTF8)


def _clocks() -> Iterator[Drawn]:
    days = st.sampled_from(("0001-01-01", "1000-01-01", LAST_DAY, "2024-02-29")) | DAYS.map(str)
    yield Drawn("date", days.map("'{}'".format), AS_CHAR, AS_CHAR)
    for digits in (6, 3, 0):
        cut = len("'YYYY-MM-DD HH:MM:SS.") + digits
        moments = st.sampled_from(("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")) | st.datetimes().map(
            lambda at: at.isoformat(" ")
        )
        texts = moments.map(lambda text, cut=cut: f"'{text}"[:cut].rstrip(".") + "'")  # type: ignore[misc]  # a default in a lambda
        yield Drawn(f"datetime({digits})", texts, AS_CHAR, AS_CHAR)
        seconds = st.sampled_from((1_000_000, ((1 << 31) - 1) * 1_000_000)) | st.integers(
            1_000_000, (1 << 31) * 10**6 - 1
        )
        instants = seconds.map(partial(_instant, digits=digits))
        yield Drawn(f"timestamp({digits}) NULL", instants, AS_CHAR, AS_CHAR)
        edges = st.sampled_from((3_020_399_000_000, -3_020_399_000_000, 0, -1, 1, 86_400_000_000))
        spans = edges | st.integers(-3_020_399_000_000, 3_020_399_000_000)
        yield Drawn(f"time({digits})", spans.map(partial(_span, digits=digits)), AS_CHAR, AS_CHAR)


def _instant(micros: int, digits: int) -> str:
    step = 10 ** (6 - digits)
    return f"FROM_UNIXTIME({micros // step * step // 1_000_000}.{micros // step * step % 1_000_000:06})"


def _span(micros: int, digits: int) -> str:
    step = 10 ** (6 - digits)
    left = abs(micros) // step * step
    seconds, part = divmod(left, 1_000_000)
    return f"'{'-' * (micros < 0)}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:06}'"


def _point(srid: int, x: float, y: float) -> str:
    return f"ST_GeomFromWKB(x'{struct.pack('<BIdd', 1, 1, x, y).hex()}', {srid})"


def _others(source: str, target: str) -> Iterator[Drawn]:
    points = st.builds(_point, st.sampled_from((0, 4326)), st.floats(-80, 80), st.floats(-80, 80))
    yield Drawn("geometry", points, "HEX(v)", "HEX(v)")
    odd = (*ODD_DOCUMENTS, '{"a": 1, "a": 2}') if source == "mariadb" and target == "mariadb" else ODD_DOCUMENTS
    documents = st.sampled_from(odd) | DOCUMENTS
    if target == "mysql":  # a document's -0.0 may be 0 there, and the last digit of a double another one
        documents = documents.filter("-0.0".__ne__)
    there = str if target == "mariadb" else document
    yield Drawn("json", documents.map(_literal), UTF8, UTF8, there)
    if source == "mariadb":
        yield Drawn("uuid", st.uuids(version=4).map("'{}'".format), AS_CHAR, AS_CHAR)
        yield Drawn("inet6", st.ip_addresses(v=6).map("'{}'".format), AS_CHAR, AS_CHAR, ip_address)
        yield Drawn("inet4", st.ip_addresses(v=4).map("'{}'".format), AS_CHAR, AS_CHAR)


# What MySQL's sessions without strict words store, and another server is not asked to: zero dates, days that no month has, the
# error value of an ENUM. MariaDB's UUIDs and addresses become texts at a MySQL, of which it takes all.
STOPPING: tuple[tuple[str, str], ...] = (
    *(("date", f"'{value}'") for value in ("0000-00-00", "2024-00-15", "2024-02-00", "2023-02-30")),
    *(("datetime(6)", f"'{value}'") for value in ("0000-00-00 00:00:00", "2024-00-15 12:00:00", "2023-02-30 12:00:00")),
    ("timestamp NULL", "'0000-00-00 00:00:00'"),
    ("enum('a','b')", "'c'"),
)
