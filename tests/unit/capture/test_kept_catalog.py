"""The source's catalogue over a connection that is kept while statements come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch.capture import kept_catalog
from anabranch.capture.kept_catalog import KeptCatalog, waits_behind
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.ids import TableId

ORDERS = TableId("shop", "orders")


@dataclass
class Catalog:
    number: int
    fails: list[SourceError]
    is_open: bool = True

    def tables(self, wanted: Any, whole: bool = True) -> dict[TableId, int]:
        assert self.is_open
        if self.fails:
            raise self.fails.pop()
        return {table: self.number for table in (ORDERS, TableId("shop", "other")) if wanted(table)}

    def close(self) -> None:
        self.is_open = False


@dataclass
class Source:
    """A connector that counts its catalogues; `fails`: what the next questions meet."""

    made: list[Catalog] = field(default_factory=list)
    fails: list[SourceError] = field(default_factory=list)

    def catalog(self) -> Catalog:
        self.made.append(Catalog(len(self.made) + 1, self.fails))
        return self.made[-1]

    @property
    def open(self) -> list[int]:
        return [one.number for one in self.made if one.is_open]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def kept(source: Source) -> KeptCatalog:
    anything: Any = source
    return KeptCatalog(anything)


def asked(kept: KeptCatalog) -> Any:
    kept.begin()
    return kept.table(ORDERS)


def test_statements_are_asked_for_over_one_connection(kept: KeptCatalog, source: Source) -> None:
    assert [asked(kept) for _ in range(3)] == [1, 1, 1] and kept.table(TableId("shop", "none")) is None
    kept.close()
    assert source.open == [] and asked(kept) == 2
    kept.close_idle()
    assert source.open == [2]  # it was just asked


@pytest.mark.parametrize("error", [SourceError("no right to it"), SourceUnavailable("the line broke")])
def test_what_fails_over_a_connection_that_was_there_is_asked_again_over_a_new_one(
    kept: KeptCatalog, source: Source, error: SourceError
) -> None:
    assert asked(kept) == 1
    source.fails.append(error)
    assert asked(kept) == 2 and source.open == [2]
    source.fails.extend([error, error])
    with pytest.raises(SourceError) as found:
        asked(kept)
    assert found.value is error and source.open == [] and len(source.made) == 3
    source.fails.append(error)
    with pytest.raises(SourceError):  # a new one is not tried twice
        asked(kept)
    assert source.open == [] and len(source.made) == 4


def test_what_is_not_certain_is_asked_again_over_a_new_connection_once(kept: KeptCatalog, source: Source) -> None:
    assert asked(kept) == 1 and not kept.renew()  # it was opened for this statement
    assert asked(kept) == 1 and kept.renew() and kept.table(ORDERS) == 2 and not kept.renew()
    assert source.open == [2]


def test_a_connection_that_is_idle_or_old_is_closed(
    kept: KeptCatalog, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(kept)
    monkeypatch.setattr(kept_catalog, "OLDEST_SECONDS", 0.0)
    assert asked(kept) == 2 and source.open == [2]
    monkeypatch.setattr(kept_catalog, "IDLE_SECONDS", 0.0)
    kept.close_idle()
    assert source.open == []
    kept.close_idle()


def test_a_catalogue_is_asked_for_long_behind_a_young_statement_alone() -> None:
    assert waits_behind(0) == kept_catalog.BEHIND_SECONDS and waits_behind(1) == kept_catalog.OLD_SECONDS
