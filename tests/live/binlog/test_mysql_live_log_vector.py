"""VECTOR of MySQL 9: from the log and in the load, into an array and into pgvector's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import TargetConnector, ValueRules
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import Op
from anabranch.rows.lines import lines
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.verify.canonical import Canonical

FORMS = {
    "real[]": (ValueRules(), ""),
    "vector": (ValueRules(vector="vector", texts=((Kind.VECTOR, TextForm.BRACKETS),)), "vector"),
}
VALUES = ([1.0, 2.5, -0.1], [0.0, 3.4e38, 1.5e-38], [16777216.0, -1.5e-7, 0.3])
KEY, VECTOR = LogicalType(Kind.INT32), LogicalType(Kind.VECTOR, length=3)


def target_of(database: Database) -> TargetConnector:
    endpoint, _ = parse_url(database.url, {}, needs_database=True)
    assert endpoint is not None
    return connectors.target(endpoint)


def target_table(source: TableId, chosen: str, types: Iterable[LogicalType]) -> TargetTable:
    rules, _ = FORMS[chosen or "real[]"]
    kinds = tuple(replace(type, target=chosen) if type.kind is Kind.VECTOR else type for type in types)
    kinds = tuple(replace(type, at_target=PostgresTypes().at_target(type, rules)) for type in kinds)
    names = ("id", "v")
    return TargetTable(source, TableId("public", f"t_{chosen or 'array'}"), names, kinds, ("id",), names)


def read_back(
    database: Database, schema: TableSchema, table: TargetTable, rules: ValueRules, content: bytes
) -> list[bytes]:
    """What verification reads of lines that were copied into a table made for them."""
    target = target_of(database)
    with closing(target.loader(rules)) as loader, closing(target.reader(rules)) as reader:
        loader.create_table(schema, table, rules, False)
        with closing(database.connect()) as there, there.cursor().copy(f"COPY {table.target.name} FROM STDIN") as copy:
            copy.write(content)
        canonical = Canonical(table)
        return sorted(row for block in reader.lines(table, "true") for row in canonical.rows(block))


@pytest.mark.parametrize("form", FORMS)
def test_postgresql_contract_vectors_read_back_equal(target_database: Database, form: str) -> None:
    rules, chosen = FORMS[form]
    target_database.execute("CREATE EXTENSION IF NOT EXISTS vector")
    columns = (Column("id", KEY, "int", nullable=False), Column("v", VECTOR, "vector(3)"))
    schema = TableSchema(TableId("shop", "t"), columns, ("id",))
    table = target_table(schema.id, chosen, (KEY, VECTOR))
    stored = [np.array(value, "<f4").tobytes() for value in VALUES]
    content = lines(table.types, [pa.array(range(4), pa.int32()), pa.array([*stored, None], pa.binary())])
    canonical = Canonical(table)
    assert read_back(target_database, schema, table, rules, content) == sorted(canonical.rows(content))
    made = target_database.query(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'v'",
        [table.target.name],
    )
    assert made == [("vector(3)" if chosen else "real[]",)]


@pytest.mark.servers
def test_mysql_live_vectors(
    mysql9: Server, source_database: Callable[[Server], Database], target_database: Database, follow: Callable[..., Any]
) -> None:
    database = source_database(mysql9)
    database.execute("CREATE TABLE t (id int primary key, v vector(3))")
    target_database.execute("CREATE EXTENSION IF NOT EXISTS vector")
    values = (*VALUES, [1.0, 2.0])  # three elements are the most that the column holds
    rows = ", ".join(f"({place}, STRING_TO_VECTOR('{value}'))" for place, value in enumerate(values))
    for rules, chosen in FORMS.values():
        follower = follow(database, rules)
        follower.begin()
        follower.run("DELETE FROM t", f"INSERT INTO t VALUES {rows}, (9, NULL)")
        schema = follower.schema("t")
        assert schema.column("v").type == LogicalType(Kind.VECTOR)
        table = target_table(schema.id, chosen, (column.type for column in schema.columns))
        images = [image["v"] for image in follower.images("t") if image["_op"] == Op.INSERT]
        told = lines(table.types, [pa.array([0, 1, 2, 3, 9], pa.int32()), pa.array(images, pa.binary())])
        assert sorted(told.splitlines(keepends=True)) == follower.read("t")
        expected = sorted(Canonical(table).rows(told))
        assert read_back(target_database, schema, table, rules, told) == expected
        follower.stop()
