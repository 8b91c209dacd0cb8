"""The log as the servers' own tools print it (`mysqlbinlog -vv`, `mariadb-binlog -vv`) against what our reader gives: the same
changes, in the same order, with the same values, where the tool prints them without ambiguity.

https://dev.mysql.com/doc/refman/8.0/en/mysqlbinlog-row-events.html · https://mariadb.com/kb/en/mariadb-binlog-options/
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import pytest

from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import META, Chunk, Op
from anabranch.rows.lines import lines, parse_line
from anabranch.testing import packages
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.workload import REFUSED, SCHEMA, Workload, fill

KINDS = """CREATE TABLE kinds (
  id INT AUTO_INCREMENT PRIMARY KEY, i1 TINYINT, u1 TINYINT UNSIGNED, i2 SMALLINT, u3 MEDIUMINT UNSIGNED, i3 MEDIUMINT,
  u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, n DECIMAL(20,5), big DECIMAL(65,30), c CHAR(10), v VARCHAR(300), t TEXT,
  bin BINARY(4), raw VARBINARY(300), b BLOB, e ENUM('x','y','z'), s SET('a','b','c'), bits BIT(11), y YEAR,
  d DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL, tm TIME
) DEFAULT CHARSET utf8mb4"""
TOOLS = {"mariadb": ("mariadb-binlog", ()), "mysql": ("mysqlbinlog", ("--get-server-public-key",))}
ABSENT = "absent"
ESCAPED = {
    "mysql": {ord(c): b"\\" + as_.encode() for c, as_ in zip("\b\t\n\f\r'\\", "btnfr'\\", strict=True)},
    "mariadb": {},
}
AMBIGUOUS = (Kind.FLOAT32, Kind.FLOAT64, Kind.JSON)  # printed shortened, or in a form of their own
Row = tuple[str | None, ...]
Change = tuple[str, str, Row]  # operation, table, values in text form


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_mysql_live_log_is_what_the_servers_tool_prints(
    image: str, mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable[[Database], Any]
) -> None:
    database = source_database(mysql_family)
    database.execute(*SCHEMA, KINDS, "FLUSH BINARY LOGS")
    ((file, *_),) = database.query("SHOW MASTER STATUS")
    follower = follow(database)
    follower.begin()
    work(database, image)
    chunks = [item for item in follower.take() if isinstance(item, Chunk)]
    ours = [change for chunk in chunks for change in given(chunk, follower.tables, mysql_family.name)]
    theirs = list(printed(tool(mysql_family, file), database.name, follower.tables))
    assert len(ours) > 500 and {op for op, _, _ in ours} == {"INSERT", "DELETE", "BEFORE", "AFTER"}
    for number, (our, their) in enumerate(zip_longest(ours, theirs)):
        assert our == their, f"change {number}: {difference(our, their)}"


def difference(our: Change | None, their: Change | None) -> str:
    if our is None or their is None or our[:2] != their[:2]:
        return f"ours {our}, the tool's {their}"
    pairs = enumerate(zip(our[2], their[2], strict=True), 1)
    return f"{our[:2]}: " + "; ".join(f"@{n} ours {a!r}, the tool's {b!r}" for n, (a, b) in pairs if a != b)


def work(database: Database, image: str) -> None:
    """Transactions that hurt, of one session, then rows of every kind."""
    import pymysql

    load, chance = Workload(seed=29), random.Random(29)
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SET SESSION binlog_row_image = '{image}', sql_mode = '', time_zone = '+00:00'")
        for statement in fill():
            cursor.execute(statement)
        for _ in range(80):
            transaction = load.transaction()
            for statement in transaction.statements:
                try:
                    cursor.execute(statement)
                except pymysql.err.Error as error:
                    assert error.args[0] in REFUSED, error
            connection.commit() if transaction.commits else connection.rollback()
        for number in range(120):
            values = ", ".join("NULL" if chance.random() < 0.1 else draw(chance) for draw in DRAWN)
            cursor.execute(f"INSERT INTO kinds VALUES (NULL, {values})")
            if number % 5 == 4:
                cursor.execute(f"UPDATE kinds SET v = t, i8 = -i8, e = 0, s = '' WHERE id % 7 = {number % 7}")
                cursor.execute(f"DELETE FROM kinds WHERE id = {chance.randint(1, number)}")
            connection.commit()


def _text(chance: random.Random) -> str:
    pieces = ("a", "Zoë", "☃", "😀", "''", "\\\\", "\\n", "\\t", " /* x */ ", "### @1=2", "%", "\\0", "NULL", " ")
    return "'" + "".join(chance.choices(pieces, k=chance.randint(0, 6))) + "'"


def _bytes(chance: random.Random, most: int) -> str:
    return f"X'{chance.randbytes(chance.randint(0, most)).hex()}'"


def _number(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda chance: str(chance.choice((low, high, 0, 1, chance.randint(low, high))))


def _moment(chance: random.Random) -> str:
    day = f"{chance.randint(1971, 2037)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}"
    return f"'{day} 0{chance.randint(0, 9)}:05:06.{chance.randint(0, 999_999):06}'"


# A value for every column of `kinds` behind its key.
DRAWN: tuple[Callable[[random.Random], str], ...] = (
    _number(-(2**7), 2**7 - 1), _number(0, 2**8 - 1), _number(-(2**15), 2**15 - 1), _number(0, 2**24 - 1),
    _number(-(2**23), 2**23 - 1), _number(0, 2**32 - 1), _number(-(2**63) + 1, 2**63 - 1), _number(0, 2**64 - 1),
    lambda chance: f"{chance.randint(-(10**14), 10**14)}.{chance.randint(0, 99_999):05}",
    lambda chance: f"{chance.randint(-(10**34), 10**34)}.{chance.randint(0, 10**30 - 1):030}",
    lambda chance: _text(chance).replace(" ", ""), _text, _text,
    lambda chance: _bytes(chance, 4), lambda chance: _bytes(chance, 300), lambda chance: _bytes(chance, 300),
    lambda chance: str(chance.randint(0, 3)), lambda chance: str(chance.randint(0, 7)), _number(0, 2**11 - 1),
    lambda chance: str(chance.choice((0, 1901, 2155))),
    lambda chance: f"'{chance.choice(('1000-01-01', '9999-12-31', '2024-02-29'))}'",
    _moment, _moment, _moment, _moment, _moment,
    lambda chance: f"'{chance.choice(('-838:59:59', '838:59:59', '00:00:00', '-00:00:01', '12:34:56'))}'",
)  # fmt: skip


# --- what we give -----------------------------------------------------------------------------------------------------


def given(chunk: Chunk, tables: Mapping[TableId, TableSchema], family: str) -> list[Change]:
    found: list[tuple[int, int, Change]] = []
    for rows in chunk.tables:
        schema, batch = tables[rows.table], rows.batch
        meta = batch.select(list(range(META))).to_pydict()
        types = [column.type for column in schema.columns if column.type]
        texts = lines(types, batch.columns[META:]).split(b"\n")[:-1]
        for row, text in enumerate(texts):
            present = rows.shapes[meta["_shape"][row]].present
            values = zip(parse_line(text), present, schema.columns, strict=True)
            image = tuple(_comparable(value, column, family) if there else ABSENT for value, there, column in values)
            change = (Op(meta["_op"][row]).name, rows.table.name, image)
            found.append((meta["_tx"][row], meta["_ordinal"][row], change))
    return [change for _, _, change in sorted(found, key=lambda one: one[:2])]


def _comparable(value: str | None, column: Column, family: str) -> str | None:
    assert column.type is not None
    kind = column.type.kind
    if value is None or kind in AMBIGUOUS:
        return value and "?"
    if kind is Kind.TEXT:
        return spelled(value.encode(), family)
    if kind is Kind.BINARY:
        data = bytes.fromhex(value[2:])
        return spelled(data.rstrip(b"\0") if column.native.startswith("binary") else data, family)
    return value


def spelled(data: bytes, family: str) -> str:
    """As the tool prints it: MariaDB's leaves quotes and backslashes as they are, so that nobody can read it back."""
    escaped = ESCAPED[family]
    parts = (escaped.get(byte) or (f"\\x{byte:02x}".encode() if byte < 0x20 else bytes([byte])) for byte in data)
    return b"".join(parts).decode("utf-8", "surrogateescape")


# --- what the tool prints ---------------------------------------------------------------------------------------------


def tool(server: Server, file: str) -> list[bytes]:
    """Lines that begin with ###."""
    software = packages.find_mysql(fetch=False) if server.name == "mysql" else packages.find_mariadb(fetch=False)
    name, options = TOOLS[server.name]
    command = [
        *(
            str(software.program(name)),
            "--no-defaults",
            "--read-from-remote-server",
            "-vv",
            "--base64-output=DECODE-ROWS",
        ),
        *(f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", "--protocol=tcp", *options, file),
    ]
    environment = {**os.environ, **software.environment(), "MYSQL_PWD": server.password}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return [line for line in done.stdout.split(b"\n") if line.startswith(b"###")]


HEAD = re.compile(r"### (INSERT INTO|UPDATE|DELETE FROM) `(.*?)`\.`(.*)`")
VALUE = re.compile(r"###   @(\d+)=(.*) /\* .*? \*/", re.DOTALL)


def printed(told: Sequence[bytes], schema: str, tables: Mapping[TableId, TableSchema]) -> Iterator[Change]:
    """Images in the order of the log; of other databases none."""
    what, table, image, ops = "", "", [""], iter(())
    columns: TableSchema | None = None
    op = ""
    for raw in [*told, b"### END"]:
        line = raw.decode("utf-8", "surrogateescape")
        if value := VALUE.fullmatch(line):
            place = int(value[1]) - 1
            if columns is not None:
                image[place] = _read(value[2], columns, place)  # type: ignore[call-overload]
            continue
        if columns is not None and op:
            yield op, table, tuple(image)
            op = ""
        if head := HEAD.fullmatch(line):
            what, table = head[1], head[3]
            columns = tables.get(TableId(schema, table)) if head[2] == schema else None
            ops = iter(("BEFORE", "AFTER") if what == "UPDATE" else ("INSERT",) if "INSERT" in what else ("DELETE",))
        elif line in ("### WHERE", "### SET") and columns is not None:
            op, image = next(ops), [ABSENT] * len(columns.columns)


def _read(text: str, schema: TableSchema, place: int) -> str | None:
    """A value as the tool prints it, in our text form."""
    column = schema.columns[place]
    assert column.type is not None
    kind = column.type.kind
    if text == "NULL":
        return None
    if kind in AMBIGUOUS:
        return "?"
    if (number := re.fullmatch(r"(-?\d+) \((\d+)\)", text)) and kind.startswith(("int", "uint")):
        return number[2] if kind.startswith("uint") else number[1]
    if kind is Kind.BIT:
        return text[2:-1][-(column.type.length or 1) :]
    if kind is Kind.ENUM:
        return ("", *column.type.values)[int(text)]
    if kind is Kind.SET:
        bits = int(text[2:-1], 2)
        return ",".join(label for i, label in enumerate(column.type.values) if bits >> i & 1)
    if kind is Kind.INSTANT:
        seconds, _, fraction = text.partition(".")
        moment = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"{moment}.{fraction.ljust(6, '0')}+00"
    plain = text[1:-1] if text.startswith("'") else text
    if kind is Kind.YEAR:
        return "0" if plain == "1900" else plain  # the years begin with 1901
    if kind is Kind.DATE:
        return plain.replace(":", "-")
    if kind in (Kind.TIMESTAMP, Kind.DURATION):
        whole, _, fraction = plain.partition(".")
        return f"{whole}.{fraction.ljust(6, '0')}"
    return plain
