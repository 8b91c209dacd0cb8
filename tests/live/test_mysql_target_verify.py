"""Rows of a real MySQL and MariaDB as targets, in the text form that verification compares: pieces and lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch.connectors.mysql.target.verify import MysqlTargetReader
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.rows.lines import unescape
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_verify import INT, TEXT, create, lines, table_of
from rigs.value_texts import VALUES

pytestmark = pytest.mark.every_server("fractions")
Make = Callable[[Server], Database]


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Database:
    return source_database(mysql_family)


@pytest.fixture
def reader(database: Database) -> Iterator[MysqlTargetReader]:
    with closing(MysqlTargetReader(endpoint_of(database))) as made:
        yield made


def test_mysql_target_reads_back_the_same_lines(
    database: Database, reader: MysqlTargetReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiled code and with Python."""
    for logical, texts in VALUES:
        if logical.kind is Kind.JSON and not knows(database.server, "JSON"):
            continue
        if logical.kind is Kind.ENUM:
            texts = [text for text in texts if text]  # '' without a label is no value that a target is given
        there = [[str(number), unescape(text).decode()] for number, text in enumerate(texts)]
        create(database, (INT, logical), [*there, [str(len(texts)), None]])
        wanted = [_plain(logical, b"%d\t%s\n" % (n, text)) for n, text in enumerate([*texts, b"\\N"])]
        assert [_plain(logical, line) for line in lines(reader, table_of(database, INT, logical))] == wanted, logical
        with monkeypatch.context() as python:
            python.setattr(compiled, "NATIVE", None)
            assert [_plain(logical, line) for line in lines(reader, table_of(database, INT, logical))] == wanted, (
                logical
            )


def _plain(logical: LogicalType, line: bytes) -> object:
    """A number of floats by its value, JSON without the space between its tokens: verify/canonical.py makes them alike."""
    key, cell = line.rstrip(b"\n").split(b"\t")
    if cell == b"\\N":
        return key, cell
    if logical.kind is Kind.FLOAT32:
        import numpy as np

        return key, np.float32(cell.decode())
    if logical.kind is Kind.FLOAT64:
        return key, float(cell)
    return key, cell.replace(b" ", b"") if logical.kind is Kind.JSON else cell


FINER = [  # the source's type, the column that was there, what it has, and what is read
    (LogicalType(Kind.TIMESTAMP, fraction=0), "datetime(6)", "2024-02-29 10:20:30", b"2024-02-29 10:20:30.000000"),
    (LogicalType(Kind.TIMESTAMP, fraction=0), "datetime(6)", "2024-02-29 10:20:30.5", b"2024-02-29 10:20:30.500000"),
    (LogicalType(Kind.TIMESTAMP, fraction=3), "datetime(4)", "2024-02-29 10:20:30.12", b"2024-02-29 10:20:30.120000"),
    (LogicalType(Kind.INSTANT, fraction=0), "timestamp(3)", "2024-02-29 10:20:30", b"2024-02-29 10:20:30.000000+00"),
    (LogicalType(Kind.DURATION, fraction=0), "time(6)", "-838:59:59", b"-838:59:59.000000"),
    (LogicalType(Kind.DURATION, fraction=2), "time(4)", "-00:00:00.5", b"-00:00:00.500000"),
    (LogicalType(Kind.TIME, fraction=0), "time(6)", "10:20:30", b"10:20:30"),
    (LogicalType(Kind.TIME, fraction=0), "time", "10:20:30", b"10:20:30"),
    (
        LogicalType(Kind.TIMESTAMP, fraction=0, printed=True),
        "datetime(6)",
        "2024-02-29 10:20:00",
        b"2024-02-29 10:20:00",
    ),
    (
        LogicalType(Kind.INSTANT, fraction=0, printed=True),
        "timestamp(6)",
        "2024-02-29 10:20:00",
        b"2024-02-29 10:20:00+00",
    ),
]


def test_mysql_target_clocks_of_a_column_with_more_decimals_than_the_source(
    database: Database, reader: MysqlTargetReader
) -> None:
    """A table that was there: each has what it has, in as many decimals as the source's text form."""
    for logical, native, value, wanted in FINER:
        made = f"CREATE TABLE t (c0 int, c1 {native} NULL)"
        database.execute("DROP TABLE IF EXISTS t", made, f"INSERT INTO t VALUES (1, '{value}'), (2, NULL)")
        assert lines(reader, table_of(database, INT, logical)) == [b"1\t" + wanted + b"\n", b"2\t\\N\n"], native


def test_mysql_target_words_with_zero_characters_go_by_python(database: Database, reader: MysqlTargetReader) -> None:
    create(database, (INT, TEXT), [["1", "a\0b"], ["2", "tab\there"], ["3", None]])
    assert lines(reader, table_of(database, INT, TEXT)) == [b"1\ta\0b\n", b"2\ttab\\there\n", b"3\t\\N\n"]


KEYS: list[tuple[str, str, str]] = [  # columns, key, and the values of a row numbered {n}
    ("a int", "a", "{n} * 7 - 500"),
    ("a bigint unsigned", "a", "18446744073709551615 - {n}"),
    ("a varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", "a", "CONCAT('Ä', {n}, '''\\\\')"),
    ("a varchar(20) CHARACTER SET latin1", "a", "CONCAT('é', {n})"),
    ("a varbinary(20)", "a", "UNHEX(CONCAT('00FF', LPAD(HEX({n}), 6, '0'), '27'))"),
    ("a decimal(20,4)", "a", "{n} / 4 - 30"),
    ("a datetime(6)", "a", "'1999-12-31 23:59:59.5' + INTERVAL {n} * 1000003 MICROSECOND"),
    ("a date", "a", "DATE'0001-01-01' + INTERVAL {n} * 1000 DAY"),
    ("a enum('z', 'y', 'x'), b int", "a, b", "1 + {n} MOD 3, {n}"),
    ("a int, b varchar(10)", "a, b", "{n} DIV 50, CONCAT('k', {n})"),
    ("a int, b text", "a, b(20)", "{n} DIV 50, CONCAT('k', {n})"),  # cut by a alone
    ("a bit(40)", "a", "{n} * 1234567"),
    ("a double", "a", "{n} / 3"),  # not cut
]


def test_mysql_target_pieces_are_the_table(database: Database, reader: MysqlTargetReader) -> None:
    for columns, key, values in KEYS:
        rows = ", ".join(f"({values.replace('{n}', str(n))}, {n})" for n in range(1, 401))
        database.execute(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t ({columns}, v int NOT NULL, PRIMARY KEY ({key})) CHARACTER SET utf8mb4",
            f"INSERT INTO t VALUES {rows}",
            "ANALYZE TABLE t",
        )
        table = table_of(database, INT, names=("v",))
        pieces = reader.pieces(table, 60)
        assert len(pieces) == 1 if "double" in columns else 3 <= len(pieces) <= 20, columns
        found = [int(line) for piece in pieces for block in reader.lines(table, piece) for line in block.splitlines()]
        assert Counter(found) == Counter(range(1, 401)), columns


def test_mysql_target_without_a_key_is_one_piece(database: Database, reader: MysqlTargetReader) -> None:
    database.execute("CREATE TABLE t (v int)", f"INSERT INTO t VALUES {', '.join(['(1)'] * 100)}")
    table = table_of(database, INT, names=("v",))
    assert len(reader.pieces(table, 10)) == 1 and lines(reader, table, 10) == [b"1\n"] * 100
    with pytest.raises(TargetError, match="does not exist"):
        reader.pieces(TargetTable(table.source, TableId(database.name, "nowhere"), ("v",), (INT,), ()), 10)


def test_mysql_target_rows_stream(database: Database, reader: MysqlTargetReader) -> None:
    """The first rows come before the last are read, and who leaves early can read again."""
    database.execute("CREATE TABLE t (c0 int PRIMARY KEY, c1 longtext)")
    database.execute(*(f"INSERT INTO t VALUES ({n}, REPEAT('x', 1000000))" for n in range(40)))
    table = table_of(database, INT, LogicalType(Kind.TEXT))
    blocks = reader.lines(table, "TRUE")
    assert next(blocks).count(b"\n") < 10
    blocks.close()  # type: ignore[attr-defined]  # it is a generator
    assert sum(block.count(b"\n") for block in reader.lines(table, "TRUE")) == 40
