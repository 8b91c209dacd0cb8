"""Tables of a PostgreSQL source: what is drawn beside their schemas, and what another decoder leaves out."""

from __future__ import annotations

import random

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.history import History
from anabranch.testing.torture.postgresql_tables import (
    SHAPES,
    create_statements,
    is_late_key,
    is_late_unique,
    shape_of,
)
from anabranch.testing.torture.schemas import draw_schema
from anabranch.testing.torture.tables import Column, Schema, Table

SCHEMAS = 60
MYSQL = Database(Server("mysql", "8.0.33", "127.0.0.1", 3306, "root", ""), "")  # nobody speaks to it


def schemas(decoder: str = "") -> list[Schema]:
    return [draw_schema(random.Random(f"schema {n}"), "postgresql", (15, 20), decoder) for n in range(SCHEMAS)]


def test_every_shape_is_drawn_and_no_unique_key_lacks_the_column_of_partitions() -> None:
    tables = [table for one in schemas() for table in one.tables]
    assert {shape_of(table) for table in tables} == {"", *SHAPES}
    assert not any(shape_of(table) and table.uniques for table in tables)
    assert any(is_late_unique(table, unique) for table in tables for unique in table.uniques)
    assert any(is_late_key(table, key) for table in tables for key in table.foreign_keys)
    said = [statement for one in schemas() for statement in create_statements(one)]
    for words in (
        "USING INDEX",
        "IDENTITY FULL",
        "PARTITION BY LIST",
        "_p1 FOR VALUES",
        "DEFERRABLE INITIALLY DEFERRED",
    ):
        assert any(words in statement for statement in said), words
    assert said == [statement for one in schemas() for statement in create_statements(one)]


def test_a_target_that_asks_each_row_gets_no_values_that_a_source_has_not_asked_for() -> None:
    """A PostgreSQL's session without foreign keys asks no key that is checked late, and leaves rows with equal values."""

    def drawn(target: Database | None) -> list[History]:
        late = []
        for seed in range(SCHEMAS):
            history = draw_history(seed, "postgresql", (18, 4), target=target)
            if any(is_late_unique(table, unique) for table in history.schema.tables for unique in table.uniques):
                late.append(history)
        return late

    assert all(one.checks for history in drawn(MYSQL) for one in history.transactions)
    assert not all(one.checks for history in drawn(None) for one in history.transactions)


def test_each_partition_has_its_own_identity() -> None:
    columns = (Column("g", "pg integer"), Column("v1", "pg text"))
    tables = (Table(f"t{n}", columns) for n in range(200))
    (first, *_) = (t for t in tables if shape_of(t) and any("IDENTITY FULL" in s for s in _said(t)))
    full = [one for one in _said(first) if "IDENTITY FULL" in one]
    assert [one.split()[2] for one in full] == [first.name, *(f"{first.name}_{part}" for part in ("p0", "p1", "rest"))]


def _said(table: Table) -> list[str]:
    return list(create_statements(Schema((table,))))


def test_what_a_decoder_does_not_show_is_left_out() -> None:
    for decoder, left in (
        ("wal2json", ("real", "double", "numeric")),
        ("decoderbufs", ("time with time zone", "point")),
    ):
        found = schemas(decoder)
        natives = {column.of.native for one in found for table in one.tables for column in table.columns}
        assert not any(native.startswith(left) for native in natives) and "integer" in natives
        assert not any(" PARTITION " in said for one in found for said in create_statements(one, decoder))
        history = draw_history(5, "postgresql", (15, 20), decoder=decoder)
        assert History.from_json(history.to_json()) == history and history.decoder == decoder
    assert any("numeric" in c.of.native for one in schemas() for table in one.tables for c in table.columns)
