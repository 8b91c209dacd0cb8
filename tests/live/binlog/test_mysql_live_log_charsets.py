"""Every character set that the servers have: every code is what the server makes of it, in the load and from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import product

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.charsets import CHARSETS, BadText, decoder
from anabranch.contracts import SnapshotReader, ValueRules
from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

Make = Callable[[Server], Database]
BYTES = ("binary",)  # a character set by name only: its columns are binary types
UNITS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
# What a column may hold although its character set has no such code.
BAD = {"cp1250": "61 81", "gbk": "61 A161", "tis620": "61 DB", "big5": "61 A15A", "swe7": "61 FF", "ucs2": "D83D DE00"}
UNKNOWN = "\ufffd".encode()
KEYS: dict[str, list[bytes]] = {  # by character set: keys that have the same text as other ones
    "cp932": [b"\xed\x40", b"\xfa\x5c", b"\x81\xbe"],
    "sjis": [b"\\", b"\x81\x5f"],
    **{name: [] for name in ("gbk", "utf16", "ucs2", "swe7", "koi8r", "latin1")},
}
EVERY_CODE = (
    "SELECT GROUP_CONCAT(HEX(c) ORDER BY c SEPARATOR ''), COUNT(*) FROM ("
    "SELECT c, CAST(CONVERT(CONVERT(c USING {0}) USING utf8mb4) AS BINARY) AS t, CHAR_LENGTH(CONVERT(c USING {0})) AS n,"
    " LENGTH(CONVERT(c USING {0})) AS l FROM codes WHERE LENGTH(c) <= {1}"
    ") AS told WHERE n = 1 AND l = LENGTH(c) AND t NOT IN ('', x'EFBFBD') AND (t <> x'3F' OR c = x'3F')"
)


@cache
def codes(charset: str) -> list[bytes]:
    """All codes of one and two bytes that are one character to us, three bytes where 0x8F leads them, samples of four."""
    longest, unit = CHARSETS[charset].longest, UNITS.get(charset, 1)
    found = [bytes((byte,)).rjust(unit, b"\0") for byte in range(256)] if charset != "utf16le" else []
    if longest > 1:
        found += [
            bytes(pair).rjust(unit, b"\0") for pair in product(range(0x00 if unit > 1 else 0x80, 256), range(256))
        ]
    if charset in ("ujis", "eucjpms"):
        found += [b"\x8f" + bytes(pair) for pair in product(range(0xA1, 0xFF), repeat=2)]
    if charset == "gb18030":
        found += [
            bytes(four)
            for four in product(range(0x81, 0xFF), range(0x30, 0x3A), range(0x81, 0xFF, 5), range(0x30, 0x3A, 3))
        ]
    return [code for code in found if len(_text(charset, code)) == 1]


def _text(charset: str, code: bytes) -> str:
    try:
        return decoder(charset)(code).decode()
    except BadText:
        return ""


def fill(database: Database) -> None:
    """A table of all codes of one and two bytes."""
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("CREATE TABLE codes (c varbinary(2) primary key)")
        every = [f"(x'{byte:02x}')" for byte in range(256)] + [f"(x'{pair:04x}')" for pair in range(0x8000, 0x10000)]
        cursor.execute(f"INSERT INTO codes VALUES {', '.join(every)}")


def charsets(database: Database) -> list[str]:
    return sorted(row[0] for row in database.query("SHOW CHARACTER SET") if row[0] not in BYTES)


@pytest.mark.every_server
def test_pitfall_36_the_same_codes_have_a_character(mysql_family: Server, source_database: Make) -> None:
    """To us as to the server; sets of Unicode's own forms need no table."""
    database = source_database(mysql_family)
    fill(database)
    names = charsets(database)
    assert set(names) <= set(CHARSETS)
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET SESSION group_concat_max_len = 1000000, sql_mode = ''")
        for charset in (one for one in names if not one.startswith(("utf", "ucs"))):
            width = min(CHARSETS[charset].longest, 2)
            cursor.execute(EVERY_CODE.format(charset, width))
            there = cursor.fetchone()
            ours = [code for code in codes(charset) if len(code) <= width]
            assert there == ("".join(sorted(code.hex().upper() for code in ours)), len(ours)), charset


def test_pitfall_29_36_every_code_agrees(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    """A value with every code, but for ? and U+FFFD: these the load decodes itself, as it does values that are too long for
    a line (`longtext`). Then a value with these."""
    database = source_database(mysql_family)
    names = charsets(database)
    every = {name: [one for one in codes(name) if decoder(name)(one) not in (b"?", b"\0", UNKNOWN)] for name in names}
    texts = {name: decoder(name)(b"".join(some)).decode() for name, some in every.items()}
    sizes = {name: "text" if len(b"".join(some)) < 65_000 else "longtext" for name, some in every.items()}
    made = ", ".join(f"{name} {size} CHARACTER SET {name}" for name, size in sizes.items())
    database.execute(f"CREATE TABLE t (id int primary key, {made})")
    follower = follow(database)
    follower.begin()
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for number in range(2):
            values = (
                f"_{name} x'{(mark(name) + b''.join(some[-20:]) + mark(name) if number else b''.join(some)).hex()}'"
                for name, some in every.items()
            )
            cursor.execute(f"INSERT INTO t VALUES ({number}, {', '.join(values)})")
    follower.take()
    lines = follower.told("t")
    assert len(lines) == 2
    for ours, theirs in zip(lines, follower.read("t"), strict=True):
        for name, here, there in zip(["id", *names], ours.split(b"\t"), theirs.split(b"\t"), strict=True):
            assert here == there, name
    told = database.query(f"SELECT {columns('CONVERT({0} USING utf8mb4)', names)} FROM t WHERE id = 0")[0]
    for name, text in zip(names, told, strict=True):
        assert follower.images("t")[0][name] == texts[name] == text, name


def test_pitfall_36_labels_and_defaults(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    """Labels stand in the log in the column's character set; a default is filled in where the log leaves a column out."""
    database = source_database(mysql_family)
    names = charsets(database)
    letters = {name: some_letters(name) for name in names}
    labels = {name: [f"{place}{letter}" for place, letter in enumerate(some)] for name, some in letters.items()}
    made = (
        f"e_{name} enum({quoted(some)}) CHARACTER SET {name} DEFAULT '{some[-1]}', s_{name} set({quoted(some)}) CHARACTER SET"
        f" {name}, c_{name} char(7) CHARACTER SET {name} DEFAULT '{some[-1]}?'"
        for name, some in labels.items()
    )
    database.execute(f"CREATE TABLE t (id int primary key, {', '.join(made)})")
    follower = follow(database)
    follower.begin()
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET binlog_row_image = 'MINIMAL'")
        cursor.execute("INSERT INTO t (id) VALUES (1)")
        values = (f"'{some[1]}', '{some[0]},{some[-1]}', '{some[-1]}  '" for some in labels.values())
        cursor.execute(f"INSERT INTO t VALUES (2, {', '.join(values)})")
    follower.take()
    assert follower.told("t") == follower.read("t")
    assert [image[f"e_{name}"] for name in names for image in follower.images("t")] == [
        label for name in names for label in (labels[name][-1], labels[name][1])
    ]
    assert {column.refusal for column in follower.schema("t").columns} == {""}


@pytest.mark.every_server
def test_pitfall_28_36_keys_of_other_character_sets(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """Pieces of the table and rows by their key, also by one whose characters have several codes."""
    database = source_database(mysql_family)
    for name in KEYS:
        database.execute(
            f"CREATE TABLE {name} (k varchar(9) CHARACTER SET {name}, n int, v varchar(9), PRIMARY KEY (k, n))"
        )
    follower = follow(database)
    follower.begin()
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for name, more in KEYS.items():
            keys = [decoder(name)(code).hex() for code in more] + [
                letter.encode().hex() for letter in some_letters(name)
            ]
            for number, key in enumerate(keys):
                value = f"_utf8mb4 x'{key}'" if number >= len(more) else f"_{name} x'{more[number].hex()}'"
                cursor.execute(f"INSERT INTO {name} VALUES ({value}, {number}, 'v')")
    follower.take()
    with closing(connectors.source(follower.endpoint).snapshot()) as snapshot:
        for name in KEYS:
            table = follower.schema(name)
            assert follower.told(name) == follower.read(name), name
            assert sorted(in_pieces(snapshot, table)) == follower.read(name), name
            keys = [{"k": image["k"], "n": str(image["n"])} for image in follower.images(name)]
            found = b"".join(snapshot.lines_of(table, ["k", "n", "v"], keys, ValueRules()))
            assert sorted(found.splitlines(keepends=True)) == follower.read(name), name


def in_pieces(snapshot: SnapshotReader, table: TableSchema) -> Iterator[bytes]:
    bounds = snapshot.bounds(table, 2)
    assert len(bounds) > 1
    for one in bounds:
        for block in snapshot.lines(table, ["k", "n", "v"], one, ValueRules()):
            yield from block.splitlines(keepends=True)


def columns(form: str, names: list[str]) -> str:
    return ", ".join(form.format(name) for name in names)


def quoted(texts: list[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


def mark(charset: str) -> bytes:
    """A question mark."""
    return b"?\0" if charset == "utf16le" else b"?".rjust(UNITS.get(charset, 1), b"\0")


def some_letters(charset: str) -> list[str]:
    """Five, from all over the character set."""
    found = sorted({t for code in codes(charset) if (t := decoder(charset)(code).decode()).isalpha() and t < "\ud800"})
    return ["a", "?", *(found[len(found) * place // 3] for place in (1, 2)), found[-1]]


@pytest.mark.every_server
def test_pitfall_36_bytes_that_are_no_text_stop(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    """The server's own conversion would make a question mark of them, or nothing at all."""
    database = source_database(mysql_family)
    for charset in BAD:
        database.execute(f"CREATE TABLE {charset} (id int primary key, t varchar(9) CHARACTER SET {charset})")
    for charset, stored in BAD.items():
        follower = follow(database)
        follower.begin()
        database.execute(f"INSERT INTO {charset} VALUES (6, 'fine'), (7, _{charset} x'{stored.replace(' ', '')}')")
        with pytest.raises(
            ValueRefused, match=f"column t of the row with id=7 holds bytes that are no {charset} text"
        ) as log:
            follower.take()
        assert "correct the row at the source" in log.value.hint
        with pytest.raises(ValueRefused, match=f"column t of the row with id=7 holds bytes that are no {charset} text"):
            follower.read(charset)
        assert follower.schema(charset).column("t").type.kind is Kind.TEXT
        follower.stop()
