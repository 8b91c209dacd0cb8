"""Fingerprints of rows of a real MySQL and MariaDB as targets: those of every source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.ddl import create_table
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import connect, run, table_name
from anabranch.connectors.mysql.target.verify import MysqlTargetReader
from anabranch.connectors.postgresql.target.verify import PostgresReader
from anabranch.contracts import Bounds, HashingReader, HashingSnapshot
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing, are_hashed, form_of, of_lines
from anabranch.rows.lines import parse_line, unescape
from anabranch.rows.net import TargetTable
from anabranch.testing.conformance.target_reader import of_texts
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from anabranch.verify.canonical import Canonical
from rigs.endpoints import endpoint_of
from rigs.mysql_verify import INT, RULES, TEXT, create, lines, table_of
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


HASHED = [(logical, texts) for logical, texts in VALUES if form_of(logical, Hashing.SHA256) is not None]
HASHED += [
    (LogicalType(Kind.UUID), [b"00000000-0000-0000-0000-00000000000a"]),
    (LogicalType(Kind.BOOLEAN), [b"t", b"f"]),
]
HASHED += [(LogicalType(Kind.TIMESTAMP, fraction=3), [b"2024-02-29 10:20:30.000000", b"2024-02-29 10:20:00.120000"])]
# As all servers print them, other than their text form
AS_PRINTED = {Kind.TIMESTAMP: b"", Kind.INSTANT: b"+00"}


def printed(logical: LogicalType, text: bytes) -> str:
    zone = AS_PRINTED.get(logical.kind)
    value = unescape(text)
    if zone is not None:
        value = value.removesuffix(zone).rstrip(b"0").rstrip(b".") + zone if b"." in value else value
    return value.decode()


def hashed(table: TargetTable) -> list[Hashed]:
    return [Hashed(name, type, True) for name, type in zip(table.columns, table.types, strict=True)]


def whole(
    reader: HashingReader, table: TargetTable, piece: str, hashing: Hashing = Hashing.SHA256
) -> Fingerprint | None:
    return reader.fingerprint(table, hashed(table), piece, hashing)


def test_mysql_target_sums_are_those_of_every_other_server(
    database: Database, reader: MysqlTargetReader, target_database: Database
) -> None:
    for logical, texts in HASHED:
        if logical.kind is Kind.JSON and not knows(database.server, "JSON"):
            continue
        if logical.kind is Kind.ENUM:
            texts = [text for text in texts if text]
        there: list[tuple[str, str | None]] = [(str(n), unescape(text).decode()) for n, text in enumerate(texts)]
        there.append((str(len(texts)), None))
        create(database, (INT, logical), [list(row) for row in there])
        table = table_of(database, INT, logical)
        shown = [(str(n), printed(logical, text)) for n, text in enumerate(texts)]
        wanted = of_texts([*shown, (str(len(texts)), None)])
        assert whole(reader, table, "TRUE") == wanted, logical
        if logical.kind is not Kind.BOOLEAN:  # which a MySQL as a source has not: a number of one byte
            assert of_source(database) == wanted, logical
            full = of_source(database, Hashing.SHA256_FULL)
            assert full and whole(reader, table, "TRUE", Hashing.SHA256_FULL) == full, logical
        if logical.kind is not Kind.DURATION:  # PostgreSQL's intervals are printed otherwise: their tables are read
            assert of_postgresql(target_database, logical, there) == wanted, logical


@pytest.mark.skipif(compiled.NATIVE is None, reason="the compiled code makes them")
def test_mysql_target_lines_have_the_sums_of_a_postgresql(
    database: Database, reader: MysqlTargetReader, target_database: Database
) -> None:
    """The compiled code makes them of the lines that a digest would read; a PostgreSQL is much quicker at its own."""
    for logical, texts in HASHED:
        if form_of(logical) is None or (logical.kind is Kind.JSON and not knows(database.server, "JSON")):
            continue
        there: list[tuple[str, str | None]] = [
            (str(n), unescape(text).decode()) for n, text in enumerate(texts) if text
        ]
        there.append((str(len(texts)), None))
        create(database, (INT, logical), [list(row) for row in there])
        table = table_of(database, INT, logical)
        found = of_lines(map(Canonical(table).block, reader.lines(table, "TRUE")), hashed(table))
        assert found and found == of_postgresql(target_database, logical, there, Hashing.LOOKUP3), logical


def of_source(database: Database, hashing: Hashing = Hashing.SHA256) -> Fingerprint | None:
    """The sum of the same rows by the same server as a source."""
    source = connectors.source(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        (schema,) = catalog.tables(lambda table: table.schema == database.name).values()
    with closing(source.snapshot()) as snapshot:
        assert isinstance(snapshot, HashingSnapshot)
        columns = [Hashed(c.name, c.type, c.nullable) for c in schema.columns if c.type is not None]
        return snapshot.fingerprint(schema, columns, Bounds(), hashing)


def of_postgresql(
    database: Database, logical: LogicalType, rows: list[tuple[str, str | None]], hashing: Hashing = Hashing.SHA256
) -> Fingerprint | None:
    native = connectors.target(endpoint_of(database)).types.fit(logical, RULES).native
    database.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t (c0 int, c1 {native})")
    for row in rows:
        database.query(f"INSERT INTO t VALUES (%s, %s::{native}) RETURNING 1", row)
    table = TargetTable(TableId("s", "t"), TableId("public", "t"), ("c0", "c1"), (INT, logical), ())
    with closing(PostgresReader(endpoint_of(database))) as reader:
        return whole(reader, table, "true", hashing)


# A column of the source, the one that was at the target, values that are the same at both, and one that is not there
STOOD_THERE = [
    ("datetime(3) NOT NULL", "datetime(6)", ["2024-02-29 10:20:30.000", "2024-02-29 10:20:00.120"], "2024-02-29 10:20:30.0001"),
    ("datetime NOT NULL", "datetime(6)", ["2024-02-29 10:20:30", "2024-02-29 10:20:00"], "2024-02-29 10:20:30.5"),
    ("datetime(6)", "datetime(3)", ["2024-02-29 10:20:30.120000", "2024-02-29 10:20:00.000000"], "2024-02-29 10:20:30.121"),
    ("datetime(2)", "datetime", ["2024-02-29 10:20:30.00", "2024-02-29 10:20:00.00"], "2024-02-29 10:20:31"),
    ("timestamp(1) NULL", "datetime(1)", ["2024-02-29 10:20:30.5", "2024-02-29 10:20:00.0"], "2024-02-29 10:20:30.6"),
    ("int NOT NULL", "int(8) zerofill", ["7", "0"], "8"),
    ("bigint", "int", ["7", "-1"], "8"),
    ("decimal(6,2)", "decimal(8,2) zerofill", ["7.50", "0.00"], "7.49"),
    ("decimal(6,2)", "decimal(8,4)", ["7.50", "0.00"], "7.4999"),
    ("decimal(6,2) NOT NULL", "decimal(6,2)", ["-7.50", "0.00"], "7.50"),
    ("varchar(20) CHARACTER SET utf8mb4", "varchar(20) CHARACTER SET latin1", ["d\u00e9j\u00e0", ""], "deja"),
    ("varchar(20) CHARACTER SET latin1 NOT NULL", "varchar(20) CHARACTER SET utf8mb4", ["d\u00e9j\u00e0", ""], "d\u00e9ja"),
    ("enum('a','b') CHARACTER SET utf8mb4", "varchar(5) CHARACTER SET ascii", ["a", "b"], "A"),
]  # fmt: skip


def test_mysql_target_sums_of_columns_that_were_there_are_the_source_s(
    database: Database, reader: MysqlTargetReader
) -> None:
    """By the way that both ends of this family take: of columns that print the same values otherwise, and of a NULL where the
    source has none."""
    source = connectors.source(endpoint_of(database))
    for own, native, values, other in STOOD_THERE:
        both = "(id, v) VALUES " + ", ".join(f"({n}, '{value}')" for n, value in enumerate(values))
        database.execute(
            "SET time_zone = '+00:00'",
            "DROP TABLE IF EXISTS s, t",
            f"CREATE TABLE s (id int PRIMARY KEY, v {own})",
            f"CREATE TABLE t (id int PRIMARY KEY, v {native} NULL)",
            *(f"INSERT INTO {table} {both}" for table in "st"),
        )
        with closing(source.catalog()) as catalog:
            (schema,) = catalog.tables(lambda table: table == TableId(database.name, "s")).values()
        types = tuple(column.type for column in schema.columns if column.type is not None)
        columns = [
            Hashed(column.name, type, column.nullable) for column, type in zip(schema.columns, types, strict=True)
        ]
        table = TargetTable(schema.id, TableId(database.name, "t"), ("id", "v"), types, ("id",))
        with closing(source.snapshot()) as snapshot:
            assert isinstance(snapshot, HashingSnapshot)
            there = snapshot.fingerprint(schema, columns, Bounds(), Hashing.SHA256_FULL)

        def here(table: TargetTable = table, columns: list[Hashed] = columns) -> Fingerprint | None:
            return reader.fingerprint(table, columns, "TRUE", Hashing.SHA256_FULL)

        assert there is not None and here() == there, native
        database.execute(f"UPDATE t SET v = '{other}' WHERE id = 0")
        assert here() not in (None, there), native
        database.execute("UPDATE t SET v = NULL WHERE id = 0")
        assert here() not in (None, there), native


def test_mysql_target_sums_of_pieces_add_up(database: Database, reader: MysqlTargetReader) -> None:
    database.execute("CREATE TABLE t (c0 int PRIMARY KEY, c1 varchar(100))")
    rows = ", ".join(f"({n}, {'NULL' if n % 7 == 0 else repr('x' * (n % 50))})" for n in range(3000))
    database.execute(f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t")
    table = table_of(database, INT, TEXT)
    pieces = reader.pieces(table, 500)
    parts = [whole(reader, table, piece) for piece in pieces]
    total = sum((part for part in parts if part), Fingerprint())
    assert len(pieces) > 1 and None not in parts
    assert total == whole(reader, table, "TRUE") and total.rows == 3000
    database.execute("UPDATE t SET c1 = CONCAT(c1, ' ') WHERE c0 = 17")
    assert whole(reader, table, "TRUE") not in (None, total)


def test_mysql_target_has_no_sum_of_rows_that_are_too_long(mysql_family: Server, source_database: Make) -> None:
    """A text beyond max_allowed_packet is NULL to the server, with a warning."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (c0 int PRIMARY KEY, c1 longtext, c2 longtext)")
    database.execute("INSERT INTO t VALUES (1, REPEAT('a', 900000), REPEAT('b', 900000)), (2, 'x', 'y')")
    ((before,),) = database.query("SELECT @@GLOBAL.max_allowed_packet")
    long = LogicalType(Kind.TEXT)
    database.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with closing(MysqlTargetReader(endpoint_of(database))) as reader:
            table = table_of(database, INT, long, long)
            assert whole(reader, table, "TRUE") is None
            assert whole(reader, table, "c0 = 2") is not None
            assert sum(map(len, lines(reader, table))) > 1_800_000
    finally:
        database.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_mysql_target_reads_bytes_whose_digits_are_too_long_for_the_server(
    mysql_family: Server, source_database: Make
) -> None:
    """The digits of a value beyond half of max_allowed_packet are NULL to the server, with a warning; the value is not."""
    database = source_database(mysql_family)
    long, short = LogicalType(Kind.BINARY), LogicalType(Kind.BINARY, length=10)
    told = LogicalType(Kind.BINARY, target="longtext")  # the job's choice: the digits themselves
    database.execute("CREATE TABLE t (c0 int PRIMARY KEY, c1 longblob, c2 varbinary(10), c3 longtext)")
    database.execute(
        "INSERT INTO t VALUES (1, REPEAT(0x0a5c00ff, 225000), 0x5c09, '\\\\xff'), (2, '', NULL, NULL), (3, NULL, '', NULL)"
    )
    ((before,),) = database.query("SELECT @@GLOBAL.max_allowed_packet")
    database.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with closing(MysqlTargetReader(endpoint_of(database))) as reader:
            assert lines(reader, table_of(database, INT, long, short, told)) == [
                b"1\t\\\\x" + b"0a5c00ff" * 225_000 + b"\t\\\\x5c09\t\\\\xff\n",
                b"2\t\\\\x\t\\N\t\\N\n",
                b"3\t\\N\t\\\\x\t\\N\n",
            ]
    finally:
        database.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_mysql_source_texts_of_another_character_set(mysql_family: Server, source_database: Make) -> None:
    """A source sums up what it converts without losing any, and nothing else."""
    database = source_database(mysql_family)
    for charset, is_told in (("latin1", True), ("sjis", False)):
        database.execute(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t (c0 int PRIMARY KEY, c1 varchar(20) CHARACTER SET {charset})",
            "INSERT INTO t VALUES (1, 'abc')",
        )
        assert of_source(database) == (of_texts([("1", "abc")]) if is_told else None)


OF_POSTGRESQL = [  # types that both servers print alike, and values of them
    ("bigint", "-9223372036854775808"), ("boolean", "true"), ("numeric(12,3)", "-1.5"), ("text", "ä\t\\N 😀"),
    ("varchar(20)", "blanks  "), ("bytea", "\\x00ff5c"), ("date", "2024-02-29"), ("time(3)", "23:59:59.12"),
    ("timestamp", "2024-02-29 10:20:30"), ("timestamp(3)", "2024-02-29 10:20:30.12"),
    ("timestamptz", "2024-02-29 10:20:30.5+02"),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), ("bit(9)", "101010101"), ("smallint", "7"),
]  # fmt: skip


def test_mysql_target_sums_are_those_of_a_postgresql_source(
    database: Database, reader: MysqlTargetReader, target_database: Database
) -> None:
    """Compare the sums with those of a PostgreSQL, whose rows have values as it prints them."""
    columns = ", ".join(f"c{n} {native}" for n, (native, _) in enumerate(OF_POSTGRESQL, 1))
    target_database.execute(f"CREATE TABLE t (c0 int PRIMARY KEY, {columns})")
    places = ", ".join(f"%s::{native}" for native, _ in OF_POSTGRESQL)
    target_database.query(f"INSERT INTO t VALUES (1, {places}) RETURNING 1", [value for _, value in OF_POSTGRESQL])
    target_database.execute("INSERT INTO t (c0) VALUES (2)")
    source = connectors.source(endpoint_of(target_database))
    with closing(source.catalog()) as catalog:
        (schema,) = catalog.tables(lambda table: table.name == "t").values()
    names = tuple(column.name for column in schema.columns)
    chosen = [column.type for column in schema.columns if column.type is not None]
    table = TargetTable(schema.id, TableId(database.name, "t"), names, tuple(chosen), ("c0",), names)
    with closing(connect(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        release = Release.of(connection)
        run(connection, create_table(schema, table, RULES, release))
        with closing(source.snapshot()) as snapshot:
            snapshot.open(schema, "none")
            for line in b"".join(snapshot.lines(schema, names, Bounds(), RULES)).splitlines():
                cells = [
                    terms.constant(t, v, database.server.name) for t, v in zip(chosen, parse_line(line), strict=True)
                ]
                run(connection, f"INSERT INTO {table_name(table.target)} VALUES ({', '.join(cells)})")
    for name, type in zip(names, table.types, strict=True):
        one = [Hashed("c0", table.types[0], False), Hashed(name, type, True)]
        with closing(source.snapshot()) as snapshot:
            assert isinstance(snapshot, HashingSnapshot)
            there = snapshot.fingerprint(schema, one, Bounds(), Hashing.SHA256)
        assert there is not None and reader.fingerprint(table, one, "TRUE", Hashing.SHA256) == there, (name, str(type))
    assert are_hashed(table.types, Hashing.SHA256)


@pytest.mark.servers
def test_mysql_target_of_a_release_without_md5(mysql9: Server, source_database: Make) -> None:
    """MySQL 9.6 and later have that function in a component that may not be installed: SHA-256 all have."""
    database = source_database(mysql9)
    create(database, (INT, TEXT), [["1", "a"]])
    with closing(MysqlTargetReader(endpoint_of(database))) as reader:
        assert whole(reader, table_of(database, INT, TEXT), "TRUE") == of_texts([("1", "a")])
