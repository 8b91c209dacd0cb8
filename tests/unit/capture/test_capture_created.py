"""Tables that a statement of the log makes: the catalogue is waited for where it may be late, and only there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.capture import created
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.memory.source.capture import MemoryOrder, mark
from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import BarrierKind
from anabranch.rows.log_items import LogStatement
from anabranch.trail.writer import TrailWriter

FRESH = TableId("shop", "fresh")
SCHEMA = TableSchema(FRESH, (Column("id", LogicalType(Kind.INT32), "int", nullable=False),), ("id",), engine="InnoDB")
CREATE = "CREATE TABLE fresh (id INT PRIMARY KEY)"


@dataclass
class Source:
    """A connector whose catalogue shows the table from the `shown_at`th look on."""

    shown_at: int
    looks: int = 0
    order: Any = field(default_factory=MemoryOrder)
    dialect: Any = field(default_factory=MysqlDialect)

    def catalog(self) -> Source:
        return self

    def writers(self) -> tuple[()]:
        return ()

    def sees_writers(self) -> bool:
        return True

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        self.looks += 1
        return {FRESH: SCHEMA} if self.looks >= self.shown_at and wanted(FRESH) else {}

    def mark(self) -> LogMark:
        return mark("server", 7)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("seconds_ago", "shown_at", "looks", "parks"),
    [
        (0.0, 3, 3, False),
        (None, 3, 3, False),  # nobody knows when
        (3600.0, 1, 1, False),
        (3600.0, 9, 1, True),
        (-3600.0, 3, 3, False),  # the source's clock is ahead
    ],
)
def test_the_catalogue_is_waited_for_behind_a_young_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds_ago: float | None, shown_at: int, looks: int, parks: bool
) -> None:
    """In a backlog each table that is gone by now would cost seconds."""
    monkeypatch.setattr(created, "PAUSE", 0.0)
    source: Any = Source(shown_at)
    at = 0 if seconds_ago is None else int((time.time() - seconds_ago) * 1e6)
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="server", pack=False) as trail:
        every = frozenset(ColumnChange)
        keeper = DefinitionKeeper(source, trail, lambda _: True, lambda: None, follows=lambda _: every)
        chunk = keeper.on_statement(LogStatement(CREATE, "shop", mark("server", 1, at)))
        kinds = [barrier.kind for barrier in chunk.barriers] if chunk else []
        assert (source.looks - parks, FRESH in trail.history.in_force()) == (looks, not parks)
        assert kinds == ([] if parks else [BarrierKind.ALTER])
