"""Rows of a real PostgreSQL in the text form that verification compares, and pieces that are the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.verify import PostgresReader
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from rigs.endpoints import endpoint_of
from rigs.value_texts import VALUES

RULES = ValueRules()


@pytest.fixture
def reader(target_database: Any) -> Iterator[PostgresReader]:
    made = PostgresReader(endpoint_of(target_database))
    yield made
    made.close()


@pytest.mark.parametrize(("logical", "texts"), VALUES, ids=lambda v: str(v) if isinstance(v, LogicalType) else "")
def test_postgresql_loads_and_reads_back_the_same_lines(
    target_database: Any, reader: PostgresReader, logical: LogicalType, texts: list[bytes]
) -> None:
    id = LogicalType(Kind.INT32)
    columns = (Column("id", id, "", nullable=False), Column("v", logical, ""))
    schema = TableSchema(TableId("s", "t"), columns, ("id",))
    table = TargetTable(schema.id, TableId("public", "t"), ("id", "v"), (id, logical), ("id",))
    lines = [b"%d\t%s\n" % (number, text) for number, text in enumerate([*texts, b"\\N"])]
    connector = target(endpoint_of(target_database))
    store, loader = connector.store(), connector.loader(RULES)
    store.prepare()
    loader.create_table(schema, table, RULES, False)
    loader.begin_generation("j", table, 1, [Bounds()], False)
    assert loader.load_chunk("j", table, 1, 0, ("", ""), lines) == len(lines)
    store.close()
    loader.close()
    assert b"".join(reader.lines(table, "true")).splitlines(keepends=True) == lines


def test_postgresql_values_without_a_source_form_keep_their_own(target_database: Any, reader: PostgresReader) -> None:
    target_database.execute(
        "CREATE TABLE t (a timestamp, b timestamptz, c interval)",
        "INSERT INTO t VALUES ('infinity', '-infinity', '1 day 02:00'), ('0044-03-15 BC', '10000-01-01Z', '-1 hour')",
    )
    types = (LogicalType(Kind.TIMESTAMP), LogicalType(Kind.INSTANT), LogicalType(Kind.DURATION))
    table = TargetTable(TableId("s", "t"), TableId("public", "t"), ("a", "b", "c"), types, ())
    assert b"".join(reader.lines(table, "true")) == (
        b"infinity\t-infinity\t26:00:00.000000\n"
        b"0044-03-15 00:00:00 BC\t10000-01-01 00:00:00.000000+00\t-01:00:00.000000\n"
    )


@pytest.mark.parametrize("partitioned", [False, True])
def test_postgresql_pieces_are_the_table(target_database: Any, reader: PostgresReader, partitioned: bool) -> None:
    create = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    if partitioned:
        target_database.execute(
            create + " PARTITION BY HASH (id)",
            *(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
        )
    else:
        target_database.execute(create)
    target_database.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n")
    types = (LogicalType(Kind.INT32), LogicalType(Kind.TEXT))
    table = TargetTable(TableId("s", "t"), TableId("public", "t"), ("id", "v"), types, ("id",))
    for analyze in ("SELECT 1", "ANALYZE t"):
        target_database.execute(analyze)
        pieces = reader.pieces(table, 3000)
        assert 3 <= len(pieces) <= 12
        blocks = [block for piece in pieces for block in reader.lines(table, piece)]
        numbers = [int(line.split(b"\t")[0]) for line in b"".join(blocks).splitlines()]
        assert sorted(numbers) == list(range(1, 20001))


def test_postgresql_blocks_are_whole_lines_of_a_megabyte(target_database: Any, reader: PostgresReader) -> None:
    target_database.execute("CREATE TABLE t AS SELECT repeat('x', 1000) AS v FROM generate_series(1, 3000)")
    table = TargetTable(TableId("s", "t"), TableId("public", "t"), ("v",), (LogicalType(Kind.TEXT),), ())
    sizes = [len(block) for block in reader.lines(table, "true")]
    assert sum(sizes) == 3000 * 1001 and max(sizes) < (1 << 20) + 1001
    assert all(block.endswith(b"\n") for block in reader.lines(table, "true"))


def test_postgresql_pieces_of_an_empty_and_a_missing_table(target_database: Any, reader: PostgresReader) -> None:
    target_database.execute("CREATE TABLE t (v text)")
    table = TargetTable(TableId("s", "t"), TableId("public", "t"), ("v",), (LogicalType(Kind.TEXT),), ())
    assert reader.pieces(table, 10) == ["true"]
    assert list(reader.lines(table, "true")) == []
    target_database.execute("DROP TABLE t")
    with pytest.raises(TargetError, match="does not exist"):
        reader.pieces(table, 10)
