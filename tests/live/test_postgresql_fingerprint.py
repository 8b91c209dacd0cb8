"""Fingerprints that a real PostgreSQL makes of its rows: those of the same rows as lines, and none where it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from anabranch import connectors
from anabranch.connectors.postgresql import fingerprint
from anabranch.connectors.postgresql.target.verify import PostgresReader
from anabranch.contracts import Bounds, HashingReader, HashingSnapshot, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.rows.fingerprint import Fingerprint, Hashed, are_hashed, form_of, of_lines
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, create_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.value_texts import VALUES

NEEDS_COMPILED = pytest.mark.skipif(compiled.NATIVE is None, reason="the compiled code is not installed (make native)")
INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
HASHED = [(logical, texts) for logical, texts in VALUES if form_of(logical) is not None]
HASHED += [
    (LogicalType(Kind.UUID), [b"00000000-0000-0000-0000-00000000000a"]),
    (LogicalType(Kind.INT64), [b"-4294967297"]),
]
HASHED += [(LogicalType(Kind.INT16), [b"-32768"]), (LogicalType(Kind.UINT16), [b"65535"])]
HASHED += [(LogicalType(Kind.INT32), [b"-2147483648", b"2147483647"])]
RULES = ValueRules()


@pytest.fixture
def reader(target_database: Any) -> Iterator[PostgresReader]:
    made = PostgresReader(endpoint_of(target_database))
    yield made
    made.close()


def table_of(*types: LogicalType) -> TargetTable:
    names = tuple(f"c{number}" for number in range(len(types)))
    return TargetTable(TableId("s", "t"), TableId("public", "t"), names, types, names[:1])


def hashed(table: TargetTable, nullable: bool = True) -> list[Hashed]:
    return [Hashed(name, type, nullable) for name, type in zip(table.columns, table.types, strict=True)]


def made(reader: PostgresReader, table: TargetTable, nullable: bool = True, piece: str = "true") -> Fingerprint | None:
    return reader.fingerprint(table, hashed(table, nullable), piece)


def of_rows(reader: PostgresReader, table: TargetTable, nullable: bool = True) -> Fingerprint | None:
    """What compiled code makes of the table's lines."""
    return of_lines(reader.lines(table, "true"), hashed(table, nullable))


def create(database: Database, types: Sequence[LogicalType], lines: Sequence[bytes]) -> None:
    fits = [connectors.target(endpoint_of(database)).types.fit(type, RULES).native for type in types]
    database.execute(f"CREATE TABLE t ({', '.join(f'c{number} {native}' for number, native in enumerate(fits))})")
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write(b"".join(line + b"\n" for line in lines))
        connection.commit()


@NEEDS_COMPILED
@pytest.mark.parametrize(("logical", "texts"), HASHED, ids=lambda v: str(v) if isinstance(v, LogicalType) else "")
def test_postgresql_hashes_values_as_compiled_code_does(
    target_database: Database, reader: PostgresReader, logical: LogicalType, texts: list[bytes]
) -> None:
    create(target_database, [INT, logical], [b"%d\t%s" % pair for pair in enumerate([*texts, b"\\N"])])
    table = table_of(INT, logical)
    found = made(reader, table)
    assert found is not None and found.rows == len(texts) + 1
    assert found == of_rows(reader, table)
    target_database.execute("DELETE FROM t WHERE c1 IS NULL")
    found = made(reader, table, nullable=False)
    assert found is not None and found == of_rows(reader, table, nullable=False)


@NEEDS_COMPILED
def test_postgresql_hashes_rows_of_many_columns(target_database: Database, reader: PostgresReader) -> None:
    types = [INT, TEXT, LogicalType(Kind.TIMESTAMP), LogicalType(Kind.INT64)] * 50
    cells = [b"7", b"a\\tb", b"2024-02-29 01:02:03.040506", b"-9223372036854775808"] * 50
    rows = [
        b"\t".join(b"\\N" if number % step == 0 else cell for number, cell in enumerate(cells))
        for step in (2, 3, 31, 300)
    ]
    create(target_database, types, rows)
    table = table_of(*types)
    assert are_hashed(types)
    found = made(reader, table)
    assert found is not None and found.rows == 4 and found == of_rows(reader, table)


def test_postgresql_pieces_add_up_to_the_table(target_database: Database, reader: PostgresReader) -> None:
    target_database.execute(
        "CREATE TABLE t (c0 int PRIMARY KEY, c1 text) PARTITION BY HASH (c0)",
        *(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
        "INSERT INTO t SELECT n, repeat('x', n % 100) FROM generate_series(1, 20000) n",
    )
    table = table_of(INT, TEXT)
    pieces = reader.pieces(table, 3000)
    parts = [made(reader, table, piece=piece) for piece in pieces]
    assert len(pieces) > 1 and None not in parts
    total = sum((part for part in parts if part), Fingerprint())
    assert total == made(reader, table) and total.rows == 20000
    target_database.execute("UPDATE t SET c1 = c1 || 'y' WHERE c0 = 17")
    changed = made(reader, table)
    assert changed is not None and changed.rows == 20000 and changed != total


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", "'1'"), ("bigint", "1"), ("numeric", "1"), ("boolean", "true"), ("real", "1"),
    ],
)  # fmt: skip
def test_postgresql_has_none_for_a_number_of_another_type(
    target_database: Database, reader: PostgresReader, column: str, value: str
) -> None:
    target_database.execute(f"CREATE TABLE t (c0 {column})", f"INSERT INTO t VALUES ({value})")
    assert made(reader, table_of(INT)) is None


@pytest.mark.parametrize("column", ["char(5)", "integer", "bytea", '"char"', "date"])
def test_postgresql_has_none_for_text_of_another_type(
    target_database: Database, reader: PostgresReader, column: str
) -> None:
    """char(5) would lose its blanks on the way to a hash, and be equal to what it is not."""
    target_database.execute(f"CREATE TABLE t (c0 {column})")
    assert made(reader, table_of(TEXT)) is None


@NEEDS_COMPILED
def test_postgresql_tells_instants_from_times(target_database: Database, reader: PostgresReader) -> None:
    target_database.execute("CREATE TABLE t (c0 timestamp, c1 timestamptz)", "INSERT INTO t VALUES (now(), now())")
    table = table_of(LogicalType(Kind.TIMESTAMP), LogicalType(Kind.INSTANT))
    there = made(reader, table)
    assert there is not None and there == of_rows(reader, table)
    target_database.execute("ALTER TABLE t ALTER c0 TYPE timestamptz")
    assert made(reader, table) != there


def test_postgresql_has_none_where_a_null_is_not_expected(target_database: Database, reader: PostgresReader) -> None:
    """Else two rows with NULLs would be nothing, whatever else is in them."""
    target_database.execute("CREATE TABLE t (c0 int, c1 text)", "INSERT INTO t VALUES (1, 'a'), (NULL, 'b')")
    table = table_of(INT, TEXT)
    assert made(reader, table, nullable=False) is None
    assert made(reader, table) is not None and made(reader, table, nullable=False, piece="c0 = 1") is not None


@pytest.mark.parametrize("column", ["tsvector", "varbit", "name", "word", "mood"])
def test_postgresql_has_none_where_a_null_stands_for_an_empty_value(
    target_database: Database, reader: PostgresReader, column: str
) -> None:
    target_database.execute("CREATE DOMAIN word AS text", "CREATE TYPE mood AS ENUM ('', 'sad')")
    target_database.execute(f"CREATE TABLE t (c0 int, c1 {column})", "INSERT INTO t VALUES (1, '')")
    table = table_of(INT, LogicalType(Kind.NATIVE, native=column))
    empty = made(reader, table, nullable=False)
    assert empty is not None and empty.rows == 1
    target_database.execute("UPDATE t SET c1 = NULL")
    assert made(reader, table, nullable=False) is None


def test_postgresql_refuses_what_the_look_at_rows_takes(target_database: Database, reader: PostgresReader) -> None:
    target_database.execute("CREATE TABLE t (c0 money, c1 regclass)", "INSERT INTO t VALUES (1, 'pg_class')")
    assert made(reader, table_of(INT, TEXT)) is None
    assert made(reader, table_of(TEXT, TEXT)) is None
    assert list(reader.lines(table_of(INT, TEXT), "true")) == [b"$1.00\tpg_class\n"]


def test_postgresql_tells_times_apart_whose_short_hashes_are_one(
    target_database: Database, reader: PostgresReader
) -> None:
    """timestamp_hash_extended folds 64 bits to 32, with any seed."""
    target_database.execute("CREATE TABLE t (c0 timestamp)", "INSERT INTO t VALUES ('2024-06-11 09:56:03')")
    table = table_of(LogicalType(Kind.TIMESTAMP))
    one = made(reader, table)
    target_database.execute("UPDATE t SET c0 = '2024-07-16 09:50:20'")
    assert one is not None and made(reader, table) not in (one, None)


def test_postgresql_has_none_of_other_hashes(
    target_database: Database, reader: PostgresReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    target_database.execute("CREATE TABLE t (c0 int)")
    monkeypatch.setattr(fingerprint, "PROBED", fingerprint.PROBED + 1)
    assert made(reader, table_of(INT)) is None


def test_postgresql_has_none_in_another_encoding(postgresql: Server) -> None:
    plain = create_database(postgresql, "latin")
    name = plain.name + "_1"
    plain.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    database = Database(postgresql, name)
    try:
        database.execute("CREATE TABLE t (c0 int)")
        with closing(PostgresReader(endpoint_of(database))) as reader:
            assert made(reader, table_of(INT)) is None
    finally:
        plain.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_postgresql_source_and_target_hash_types_of_their_own_alike(
    target_database: Database, reader: PostgresReader, source_database: Callable[[Server], Database], postgresql: Server
) -> None:
    columns = "id bigint PRIMARY KEY, a char(5), b timestamptz, c jsonb, d numeric, e double precision, f int[], g inet, h time"
    rows = (
        "INSERT INTO t VALUES (1, 'ab', '2024-01-01 00:00+02', '{\"a\": 1.0}', 1.50, 0.1, '{1,NULL}', '10.0.0.0/8', '1:00'),"
        " (2, NULL, 'infinity', NULL, 'NaN', 'NaN', '{}', '::1', '2:00'), (3, '', NULL, 'null', NULL, NULL, NULL, NULL, NULL)"
    )
    source = source_database(postgresql)
    for one in (source, target_database):
        one.execute(f"CREATE TABLE t ({columns})", rows)
    connector = connectors.source(endpoint_of(source))
    with closing(connector.catalog()) as catalog:
        [(_, schema)] = catalog.tables(lambda table: table.name == "t").items()
    names = tuple(column.name for column in schema.columns)
    types = tuple(column.type for column in schema.columns if column.type)
    table = TargetTable(schema.id, TableId("public", "t"), names, types, ("id",), names)
    assert are_hashed(types)
    sides = [Hashed(column.name, type, column.nullable) for column, type in zip(schema.columns, types, strict=True)]
    with closing(connector.snapshot()) as snapshot:
        assert isinstance(snapshot, HashingSnapshot) and isinstance(reader, HashingReader)
        there = snapshot.fingerprint(schema, sides, Bounds())
        assert there is not None and there.rows == 3
        assert reader.fingerprint(table, sides, "true") == there
        target_database.execute("UPDATE t SET d = 1.5 WHERE id = 1")  # another number of decimals is another text
        assert reader.fingerprint(table, sides, "true") != there
        first = snapshot.fingerprint(schema, sides, Bounds(upper=("1",)))
        rest = snapshot.fingerprint(schema, sides, Bounds(lower=("1",)))
        assert first and rest and first + rest == there
