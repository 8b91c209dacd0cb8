"""The vendors' own reader of the log as the judge: `mysqlbinlog -vv` and `mariadb-binlog -vv` of the same file.

Compared are transactions with their end and GTID, the order of images, their operation and columns, and every value in the
text that the tool prints for it. Where this text says less than the value, only that much is compared: FLOAT (six digits),
YEAR 0 (printed as 1900), BINARY (without its trailing zeros). Statements are not compared.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

from anabranch.connectors.mysql.source.log_end import log_end
from anabranch.connectors.mysql.source.tablemap import native_of
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column
from anabranch.rows.chunk import META, Op
from anabranch.testing import packages
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Workload, carry_out, fill

TOOLS = {"mysql": (packages.find_mysql, "mysqlbinlog"), "mariadb": (packages.find_mariadb, "mariadb-binlog")}
# column, type, values (SQL)
COLUMNS = (
    ("i1", "tinyint", ("-128", "127", "0", "-1")),
    ("i1u", "tinyint unsigned", ("255", "128", "0")),
    ("i2", "smallint", ("-32768", "32767")),
    ("i2u", "smallint unsigned", ("65535", "0")),
    ("i3", "mediumint", ("-8388608", "8388607", "-1")),
    ("i3u", "mediumint unsigned", ("16777215", "8388608", "1")),
    ("i4", "int", ("-2147483648", "2147483647")),
    ("i4u", "int unsigned", ("4294967295", "0")),
    ("i8", "bigint", ("-9223372036854775808", "9223372036854775807")),
    ("i8u", "bigint unsigned", ("18446744073709551615", "9223372036854775808", "7")),
    ("n1", "decimal(12,2)", ("-9999999999.99", "0", "-0.01", "123456.78")),
    ("n2", "decimal(65,30)", ("-1.000000000000000000000000000001", f"{'9' * 35}.{'9' * 30}", "0")),
    ("n3", "decimal(9,9)", ("-0.999999999", "0.000000001")),
    ("f4", "float", ("1.5", "-3.4e38", "1e-38", "16777215", "0.1", "-0e0")),
    ("f8", "double", ("-2.25e100", "0.1", "1e-300", "-0e0", "12345678901234567")),
    ("c1", "char(10)", ("'abc'", "''", "'é€😀'", "' a'")),
    ("c2", "char(200)", ("'x'", "repeat('é', 200)")),
    ("v1", "varchar(20) character set latin1", ("'naïve é'", "''", "'it''s'")),
    ("v2", "varchar(300)", ("repeat('ü', 300)", "'tab\\tnew\\nline\\\\ \\r \\0'", "'\U0001d518nicode'")),
    ("x2", "text", ("repeat('ab', 500)", "''")),
    ("b1", "binary(8)", ("x'6162'", "x'0000000000000001'", "x'2020'")),
    ("b2", "varbinary(300)", ("x'00'", "x''", "repeat(x'ff', 300)", "x'275c6100'", f"x'{bytes(range(33)).hex()}'")),
    ("b4", "mediumblob", ("repeat(x'80', 3000)", "x'0d0a'")),
    ("t1", "bit(1)", ("b'0'", "b'1'")),
    ("t33", "bit(33)", ("4294967297", "0", "8589934591")),
    ("t64", "bit(64)", ("18446744073709551615", "1")),
    ("d", "date", ("'0001-01-01'", "'9999-12-31'", "'2024-02-29'")),
    ("s0", "datetime", ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'")),
    ("s3", "datetime(3)", ("'1969-12-31 23:59:59.999'", "'2024-02-29 12:00:00.001'")),
    ("s6", "datetime(6)", ("'1970-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'")),
    ("z0", "timestamp null", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
    ("z6", "timestamp(6) null", ("'2038-01-19 03:14:07.999999'", "'2024-10-27 00:30:00.000001'")),
    ("u0", "time", ("'-838:59:59'", "'838:59:59'", "'-00:00:01'")),
    ("u6", "time(6)", ("'-00:00:00.000001'", "'23:59:59.999999'", "'-838:59:58.999999'")),
    ("y", "year", ("1901", "2155", "0")),
    ("e1", "enum('a','it''s','zé')", ("'a'", "'it''s'", "'zé'")),
    ("e2", "enum(" + ",".join(f"'e{i}'" for i in range(300)) + ")", ("'e299'", "'e0'", "'e255'")),
    ("m1", "set('r','w','é','last')", ("'r'", "''", "'r,w,é,last'")),
    ("m2", "set(" + ",".join(f"'m{i}'" for i in range(64)) + ")", ("'m0,m63'", "'m31,m32'")),
    ("j", "json", ('\'{"a": [1, 2.5, null, true, "x"], "long key": "it\\\'s"}\'', "'[]'", "'-1e100'")),
)


class Image(NamedTuple):
    """`values`: text as the tool prints it, by the column's number from 1."""

    op: str
    table: str
    values: dict[int, bytes]


Told = list[tuple[int, str, list[Image]]]
"""Transactions with rows: end, GTID, images in order."""


def test_mysql_live_the_vendors_reader_says_the_same(
    mysql_family: Server, source_database: Callable, follow: Callable
) -> None:
    database = source_database(mysql_family)
    columns = ", ".join(f"{name} {type}" for name, type, _ in COLUMNS)
    database.execute(*SCHEMA, *fill(), f"CREATE TABLE wide (id int PRIMARY KEY AUTO_INCREMENT, {columns})")
    database.execute("FLUSH BINARY LOGS")
    follower = follow(database)
    begun = follower.begin()
    follower.run("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'", *wide_rows())
    write(database, 11, 60)
    follower.take()
    file = begun.native.rpartition(":")[0]
    with closing(database.connect()) as connection:
        assert log_end(connection).file == file
    theirs = list(by_tool(mysql_family, file, database.name))
    assert_same(ours(follower), theirs)
    assert {image.op for _, _, images in theirs for image in images} == {"INSERT", "DELETE", "BEFORE", "AFTER"}


def wide_rows() -> Iterator[str]:
    """Edges one by one, then whole and partial images of updates, NULLs, deletes."""
    r = random.Random(3)
    for place in range(max(len(values) for _, _, values in COLUMNS)):
        yield f"INSERT INTO wide VALUES ({place + 1}, {', '.join(v[place % len(v)] for _, _, v in COLUMNS)})"
    for image in ("FULL", "MINIMAL", "NOBLOB"):
        yield f"SET binlog_row_image = '{image}'"
        yield "INSERT INTO wide (i1) VALUES (NULL), (5)"
        for _ in range(8):
            chosen = r.sample(COLUMNS, 3)
            assigned = ", ".join(f"{name} = {r.choice([*values, 'NULL'])}" for name, _, values in chosen)
            yield f"UPDATE wide SET {assigned} WHERE id <= {r.randint(1, 9)}"
        yield "DELETE FROM wide ORDER BY id DESC LIMIT 1"


def write(database: Database, seed: int, count: int) -> None:
    load = Workload(seed)
    with closing(database.connect(autocommit=False)) as connection:
        for _ in range(count):
            carry_out(load.transaction(), connection)


def assert_same(ours: Told, theirs: Told) -> None:
    """The first difference is what is shown."""
    for mine, other in zip(ours, theirs, strict=False):
        assert mine[:2] == other[:2]
        for one, two in zip(mine[2], other[2], strict=False):
            if one.op == "INSERT":  # what a partial image leaves out comes as its default, which is NULL here
                one = one._replace(values={n: v for n, v in one.values.items() if n in two.values or v != b"NULL"})
            assert one == two, (mine[0], one.table)
        assert len(mine[2]) == len(other[2])
    assert [t[0] for t in ours] == [t[0] for t in theirs] and len(ours) > 60


# --- what the tool says -----------------------------------------------------------------------------------------------

_STATEMENT = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`$")
_VALUE = re.compile(rb"###   @(\d+)=(.*) /\* .*? meta=\d+ nullable=[01] is_null=([01]) \*/$")
_ENDED = re.compile(rb"#\d+ +[\d:]+ server id \d+  end_log_pos (\d+) .*\tXid = \d+$")
_GTID = re.compile(rb"SET @@SESSION.GTID_NEXT= '(.*)'/\*!\*/;$|#.*\tGTID (\d+-\d+-\d+) ")
_FIRST = {b"INSERT INTO": "INSERT", b"UPDATE": "BEFORE", b"DELETE FROM": "DELETE"}


def by_tool(server: Server, file: str, schema: str) -> Iterator[tuple[int, str, list[Image]]]:
    gtid, images, op = "", [], b""
    for line in dumped(server, file).split(b"\n"):
        if found := _VALUE.match(line):
            number, text, is_null = found.groups()
            images[-1].values[int(number)] = b"NULL" if is_null == b"1" else text.rstrip(b" ")
        elif found := _STATEMENT.match(line):
            op, where, table = found.groups()
            assert where.decode() == schema
            images.append(Image(_FIRST[op], table.decode(), {}))
        elif line == b"### SET" and op == b"UPDATE":
            images.append(Image("AFTER", images[-1].table, {}))
        elif found := _GTID.match(line):
            gtid = (found[1] or found[2]).decode()
        elif (found := _ENDED.match(line)) and images:
            yield int(found[1]), gtid, images
            images = []


def dumped(server: Server, file: str) -> bytes:
    find, name = TOOLS[server.name]
    software = find()
    command = [str(software.program(name)), "--no-defaults", "--read-from-remote-server", "-vv"]
    command += [
        "--base64-output=DECODE-ROWS",
        f"--host={server.host}",
        f"--port={server.port}",
        f"--user={server.user}",
        file,
    ]
    environment = {**os.environ, **software.environment(), "MYSQL_PWD": server.password, "TZ": "UTC"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


# --- what we say, in the tool's words ---------------------------------------------------------------------------------


def ours(follower) -> Told:
    found: Told = []
    family = follower.database.server.name
    for chunk in follower.chunks():
        images = sorted(
            (image for rows in chunk.tables for image in of_table(follower, rows, family)), key=lambda i: i[:2]
        )
        for place, transaction in enumerate(chunk.transactions.to_pylist()):
            own = [image for tx, _, image in images if tx == place]
            if own:
                found.append((int(transaction["native"].rpartition(":")[2]), transaction["gtid"], own))
    return found


def of_table(follower, rows: Any, family: str) -> Iterator[tuple[int, int, Image]]:
    columns = follower.schema(rows.table.name).columns
    values = [rows.batch.column(META + place).to_pylist() for place in range(len(columns))]
    for row, facts in enumerate(rows.batch.select(range(META)).to_pylist()):
        present = rows.shapes[facts["_shape"]].present
        told = {
            place + 1: text(column, values[place][row], family)
            for place, column in enumerate(columns)
            if present[place]
        }
        yield facts["_tx"], facts["_ordinal"], Image(Op(facts["_op"]).name, rows.table.name, told)


BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def text(column: Column, value: Any, family: str) -> bytes:
    if value is None:
        return b"NULL"
    native, kind = native_of(column), column.type.kind
    if native.name in BITS:
        return integer(int(value), BITS[native.name])
    if native.name in ("enum", "set", "bit"):
        return LABELS[native.name](column, value, native.numbers)
    if kind in (Kind.TEXT, Kind.BINARY, Kind.JSON):
        return quoted(stored(column, native.name, value), family)
    return TEXTS[kind](value, (*native.numbers, 0)[0]).encode()


def integer(value: int, bits: int) -> bytes:
    """Signed, and where that is negative unsigned too."""
    signed = value - (1 << bits) if value >> (bits - 1) > 0 else value
    return (f"{signed} ({signed % (1 << bits)})" if signed < 0 else str(signed)).encode()


def bits(data: bytes, count: int) -> bytes:
    return b"b'" + "".join(f"{byte:08b}" for byte in data)[-count:].encode() + b"'"


def label_set(column: Column, value: str, _: Any) -> bytes:
    number = sum(1 << column.type.values.index(label) for label in value.split(",") if label)
    width = (len(column.type.values) + 7) // 8
    return bits(number.to_bytes(width, "little"), 8 * width)


LABELS: dict[str, Callable[[Column, Any, Any], bytes]] = {
    "enum": lambda column, value, _: str(column.type.values.index(value) + 1).encode(),
    "set": label_set,
    "bit": lambda column, value, numbers: bits(value.to_bytes(8, "big"), numbers[0]),
}


def stored(column: Column, native: str, value: Any) -> bytes:
    """The bytes of a string as the log has them."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0") if native == "binary" else value
    return value.encode("latin-1" if column.charset == "latin1" else "utf-8")


_ESCAPED = {
    "mysql": {b"\\": b"\\\\", b"'": b"\\'", b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r", b"\f": b"\\f", b"\b": b"\\b"},
    "mariadb": {},
}


def quoted(data: bytes, family: str) -> bytes:
    def escaped(found: re.Match[bytes]) -> bytes:
        return _ESCAPED[family].get(found[0]) or (b"\\x%02x" % ord(found[0]) if found[0] < b" " else found[0])

    return b"'" + re.sub(rb"[\x00-\x1f\\']", escaped, data) + b"'"


def fraction(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


def instant(value: datetime, digits: int) -> str:
    return f"{int(value.timestamp() // 1)}{fraction(value.microsecond, digits)}"


def duration(micros: int, digits: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    clock = f"{'-' * (micros < 0)}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"'{clock}{fraction(rest, digits)}'"


def moment(value: datetime, digits: int) -> str:
    whole = f"{value.year:04}-{value.month:02}-{value.day:02} {value:%H:%M:%S}"
    return f"'{whole}{fraction(value.microsecond, digits)}'"


TEXTS: dict[Kind, Callable[[Any, int], str]] = {
    Kind.DECIMAL: lambda value, _: f"{value:f}",
    Kind.FLOAT32: lambda value, _: f"{value:g}",
    Kind.FLOAT64: lambda value, _: f"{value:.20g}",
    Kind.DATE: lambda value, _: f"'{value.year:04}:{value.month:02}:{value.day:02}'",
    Kind.TIMESTAMP: moment,
    Kind.INSTANT: instant,
    Kind.DURATION: duration,
    Kind.YEAR: lambda value, _: str(value or 1900),
}
