"""Rows of `shop.items` as tests of `mode = "transaction"` write them, and which way they went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import do_block as block
from anabranch.connectors.postgresql.target.pipelined import Pipeline
from anabranch.testing.databases import Database
from rigs.postgresql_applier import TABLES, Applied

ITEMS = "SELECT id, a, b FROM shop.items ORDER BY id"
Row = dict[str, Any]


def item(number: int, a: int | None = 0, b: str | None = "new") -> Row:
    return {"id": number, "a": a, "b": b}


def insert(row: Row) -> tuple[Any, ...]:
    return ("items", "i", row)


@pytest.fixture(params=["block", "pipeline", "appliers"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A block as early as possible, or never; or several sessions at once."""
    monkeypatch.setattr(block, "EACH", 1 if request.param == "block" else 1 << 40)
    return str(request.param)


@pytest.fixture
def one(target_database: Database, tmp_path: Path, way: str) -> Iterator[Applied]:
    target_database.execute(*TABLES)
    with closing(Applied(target_database, tmp_path / "trail", options=options(way))) as made:
        yield made


def options(way: str) -> dict[str, Any]:
    return {"per_transaction": True, "appliers": 3 if way == "appliers" else 1}


def alone(one: Applied, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sequences of transactions that go the general way."""
    found: list[int] = []
    general = one.applier.carrier.alone

    def noted(transaction: Any) -> None:
        found.append(transaction.sequence)
        general(transaction)

    monkeypatch.setattr(one.applier.carrier, "alone", noted)
    return found


def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many transactions each time went as a pipeline of statements."""
    found: list[int] = []
    send = Pipeline.carry_out

    def noted(pipeline: Pipeline, now: Any, transactions: Any) -> None:
        found.append(len(transactions))
        send(pipeline, now, transactions)

    monkeypatch.setattr(Pipeline, "carry_out", noted)
    return found
