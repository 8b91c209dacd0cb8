"""Looking through the log for what altered tables: no longer than needed, and never against a stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.capture.unlogged import Unlogged, altered_unlogged
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.capture import MemoryLog, mark
from anabranch.connectors.memory.source.catalog import MemoryDialect
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.log_items import StatementFacts

A, B = TableId("shop", "a"), TableId("shop", "b")
STATEMENTS = 50


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Both tables are others than they were; the log has a statement about A, and many about nothing."""
    made = database("capture_unlogged")
    for table in (A, B):
        made.create(definition(table, "bigint"))
    monkeypatch.setattr(MemoryDialect, "facts", facts)
    for text in ["ALTER a", *["DO 0"] * STATEMENTS]:
        made.execute(text, "shop")
    yield made
    forget(["capture_unlogged"])


def facts(self: MemoryDialect, sql: str, default_schema: str) -> StatementFacts:
    return StatementFacts("alter", (A,)) if sql == "ALTER a" else StatementFacts("harmless")


def definition(table: TableId, native: str) -> TableSchema:
    kind = Kind.INT64 if native == "bigint" else Kind.INT32
    return TableSchema(table, (Column("id", LogicalType(kind), native, nullable=False),), ("id",))


class Counting(MemoryLog):
    reads = 0

    def read(self, timeout: float) -> object:
        self.reads += 1
        return super().read(timeout)


def altered(shop: Database, *tables: TableId, reads: int = 1 << 30) -> tuple[list[TableId], int]:
    """What is found, and after how many reads; stopped after `reads`."""
    reader = Counting(shop)
    source = MemorySource(Endpoint("memory", "", 0, "", "", shop.name))
    then = {table: definition(table, "int") for table in tables}
    found = altered_unlogged(source, reader, mark(shop.identity, 0), then, lambda: reader.reads >= reads)
    return found.tables, reader.reads


def test_rule_19_the_log_is_read_until_each_table_is_explained(shop: Database) -> None:
    assert altered(shop, A, B) == ([B], STATEMENTS + 1)
    assert altered(shop, A) == ([], 1)


def test_looking_for_unlogged_changes_can_be_stopped(shop: Database) -> None:
    assert altered(shop, A, B, reads=5) == ([], 5)


def test_what_the_source_has_is_told_where_no_table_differs(shop: Database) -> None:
    source, place = MemorySource(Endpoint("memory", "", 0, "", "", shop.name)), mark(shop.identity, 0)
    same = {table: definition(table, "bigint") for table in (A, B)}
    found = altered_unlogged(source, MemoryLog(shop), place, same, lambda: False)
    assert found.tables == [] and found.found is not None and set(found.found.tables) == {A, B}
    other = same | {A: definition(A, "int")}
    assert altered_unlogged(source, MemoryLog(shop), place, other, lambda: False) == Unlogged([])
