"""When capture parks tables whose columns were replaced by others of the same names: over the memory twin, look by look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from anabranch.capture.replaced import ReplacedColumns
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.capture import mark
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.trail.writer import TrailWriter

ONE, OTHER = (TableId("shop", name) for name in ("one", "other"))
WHY = "a was dropped at the source, and another column has its name"


class Replacing(MemorySource):
    def replaced(self, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        return dict.fromkeys(tables, WHY)


@pytest.fixture
def shop() -> Iterator[Database]:
    made = database("replaced")
    yield made
    forget(["replaced"])


def definition(table: TableId, version: int = 1) -> TableSchema:
    return TableSchema(
        table, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",), version=version
    )


def test_what_the_log_may_still_tell_is_waited_for(shop: Database, tmp_path: Path) -> None:
    """A row of between puts another definition in force: then that one counts, and is looked at the next time."""
    looks = ReplacedColumns(Replacing(Endpoint("memory", "", 0, "", "", shop.name)))
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", pack=False) as trail:
        history = trail.history
        looks.look(history.in_force())
        assert not looks.is_waiting, "no table"
        for table in (ONE, OTHER):
            trail.schema(definition(table))
        shop.execute("SELECT 1", "shop")
        looks.look(history.in_force())
        assert looks.due(mark(shop.identity, 0), history) == {} and looks.is_waiting
        trail.schema(definition(OTHER, 2))
        assert looks.due(mark(shop.identity, 1), history) == {ONE: WHY} and not looks.is_waiting
        trail.park(ONE, WHY)
        looks.look(history.in_force())
        assert looks.due(mark(shop.identity, 1), history) == {OTHER: WHY}
