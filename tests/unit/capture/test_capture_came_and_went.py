"""What capture notes of parked tables that the source has no longer: over the memory twin, look by look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from anabranch.capture import newcomers
from anabranch.capture.newcomers import Newcomers
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.capture import mark
from anabranch.connectors.memory.source.catalog import MemoryCatalog
from anabranch.errors import SourceUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED, NEW
from anabranch.model.schema import Column, TableSchema
from anabranch.trail import requests
from anabranch.trail.writer import TrailWriter

HAD, NEVER, STAYS, OUTSIDE = (TableId("shop", name) for name in ("had", "never", "stays", "outside"))
GONE = f"{DROPPED}, or renamed there"


def definition(table: TableId) -> TableSchema:
    return TableSchema(table, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",))


@pytest.fixture
def shop() -> Iterator[Database]:
    made = database("came_and_went")
    made.create(definition(STAYS))
    yield made
    forget(["came_and_went"])


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[TrailWriter]:
    """All but one of the tables are parked; of one it has a definition."""
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", pack=False) as made:
        made.schema(definition(HAD))
        for table in (HAD, NEVER, STAYS, OUTSIDE):
            made.park(table, "drop at the source", "DROP TABLE x")
        yield made


@pytest.fixture
def looks(shop: Database, trail: TrailWriter) -> Newcomers:
    source = MemorySource(Endpoint("memory", "", 0, "", "", shop.name))
    return Newcomers(source, trail, lambda table: table != OUTSIDE)


def found(looks: Newcomers, shop: Database, at: int = 0) -> tuple[Mapping[TableId, str], list[TableId]]:
    looks.look()
    new, gone = looks.due(mark(shop.identity, at or len(shop.log)))
    return new, list(gone)


def test_what_is_gone_is_said_once(shop: Database, trail: TrailWriter, looks: Newcomers) -> None:
    new, gone = found(looks, shop)
    assert not new and gone == [HAD, NEVER], "one stays, one is of no rule"
    for table in gone:
        trail.park(table, GONE)
    assert found(looks, shop) == ({}, []) and not looks.is_waiting


def test_what_comes_back_is_new_and_may_go_again(shop: Database, trail: TrailWriter, looks: Newcomers) -> None:
    for table in found(looks, shop)[1]:
        trail.park(table, GONE)
    for table in (HAD, NEVER):
        shop.create(definition(table))
    assert found(looks, shop) == ({HAD: NEW, NEVER: NEW}, [])
    trail.park(NEVER, NEW)
    del shop.tables[NEVER]
    assert found(looks, shop) == ({HAD: NEW}, [NEVER])


def test_the_log_is_read_up_to_there_first(shop: Database, trail: TrailWriter, looks: Newcomers) -> None:
    """What it says until then counts: one of them is in force again by a request."""
    shop.execute("DROP TABLE never", "shop")
    looks.look()
    assert looks.due(mark(shop.identity, 0)) == ({}, {}) and looks.is_waiting
    trail.schema(definition(NEVER), joined=True)
    assert looks.due(mark(shop.identity, 1)) == ({}, {HAD: ""})


def test_a_table_that_is_asked_for_is_left_to_its_request(
    shop: Database, trail: TrailWriter, looks: Newcomers, tmp_path: Path
) -> None:
    requests.request_table(tmp_path, HAD)
    assert found(looks, shop) == ({}, [NEVER])
    requests.refuse(tmp_path, HAD, "the source has no such table")
    assert found(looks, shop) == ({}, [HAD, NEVER])


@pytest.mark.parametrize("lost", ["names", "gone", "mark"])
def test_an_answer_that_is_lost_says_nothing(
    shop: Database, looks: Newcomers, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    def lose(*asked: object) -> None:
        raise SourceUnavailable("the line broke")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryCatalog, lost, lose)
        with suppress(SourceUnavailable):  # it is what the source is made to say
            looks.look()
    assert not looks.is_waiting and looks.due(mark(shop.identity, 0)) == ({}, {})
    assert found(looks, shop)[1] == [HAD, NEVER]


def test_what_is_only_hidden_is_not_gone(shop: Database, looks: Newcomers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryCatalog, "gone", lambda catalog, tables: {})
    assert found(looks, shop) == ({}, [])
    assert newcomers.gone(MemoryCatalog(shop), {}, lambda table: True, looks._trail.history) == {}
