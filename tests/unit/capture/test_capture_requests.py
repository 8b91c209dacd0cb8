"""What users ask of capture for a table, on the memory twin and a real trail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from anabranch import connectors
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.source.capture import mark
from anabranch.connectors.memory.source.catalog import MemoryCatalog, MemoryDialect
from anabranch.contracts import LogOptions
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.log_items import LogStatement, StatementFacts
from anabranch.trail import requests
from anabranch.trail.writer import TrailWriter

THERE, AWAY = TableId("shop", "there"), TableId("shop", "away")


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[DefinitionKeeper]:
    database("requests-source").create(TableSchema(THERE, (Column("id", LogicalType(Kind.INT32), "int"),), ("id",)))
    source = connectors.source(Endpoint("memory", "", 0, "", "", "requests-source"))
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", pack=False) as trail:
        yield DefinitionKeeper(source, trail, lambda table: True, lambda: None)
    forget()


def test_a_table_that_the_source_lacks_is_refused_and_the_other_one_is_brought_in(
    keeper: DefinitionKeeper, tmp_path: Path
) -> None:
    for table in (THERE, AWAY):
        requests.request_table(tmp_path, table)
    keeper.requested.look()
    answer = requests.answer(tmp_path, AWAY)
    assert answer is not None and answer.refusal == "the source has no such table"
    assert set(keeper.requested.joining) == {THERE}
    assert [request.table for request in requests.pending(tmp_path)] == [THERE]


def test_rule_06_a_table_that_was_refused_or_is_not_asked_for_any_more_does_not_join(
    keeper: DefinitionKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryCatalog, "prepared", lambda self: frozenset("x"))
    end, staging = keeper.source.log(LogOptions(1, 1.0)).end(), keeper.trail.staging
    staging.prepare("x", end, (THERE,))
    requests.request_table(tmp_path, THERE)
    keeper.requested.patience = 0.0
    keeper.requested.look()
    assert keeper.join(end) is None and requests.answer(tmp_path, THERE).is_pending  # it waits
    assert keeper.join(end) is None
    refused = requests.answer(tmp_path, THERE)
    assert refused is not None and "x" in refused.refusal
    staging.remove("x")
    assert keeper.join(end) is None and not keeper.trail.history.in_force()
    assert requests.answer(tmp_path, THERE) == refused
    requests.request_table(tmp_path, THERE)
    keeper.requested.look()
    requests.withdraw(tmp_path, THERE)
    assert keeper.join(end) is None and not keeper.requested.joining and not keeper.trail.history.in_force()


def test_rule_06_staged_transactions_hold_up_a_table_unless_the_source_says_that_they_are_over(
    keeper: DefinitionKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by its silence, nor before the log is read past the asking."""
    shop, staging = database("requests-source"), keeper.trail.staging
    staging.prepare("x", mark(shop.identity, 0), (THERE,))
    keeper.requested.patience = 0.0
    for answer, end, joins in (
        (None, 0, False),
        (frozenset("x"), 0, False),
        (frozenset(), -1, False),
        (frozenset(), 0, True),
    ):
        monkeypatch.setattr(MemoryCatalog, "prepared", lambda self, answer=answer: answer)
        requests.request_table(tmp_path, THERE)
        keeper.requested.look()
        keeper.join(mark(shop.identity, 0))
        place = keeper.requested.joining[THERE].unlisted.mark
        keeper.requested.joining[THERE] = replace(
            keeper.requested.joining[THERE],
            unlisted=replace(keeper.requested.joining[THERE].unlisted, mark=mark(shop.identity, -end)),
        )
        assert place == mark(shop.identity, 0)
        assert (keeper.join(mark(shop.identity, 0)) is not None) is joins
        assert ("x" in staging) is not joins


def test_a_table_that_always_has_another_prepared_transaction_is_refused_with_that_reason(
    keeper: DefinitionKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryCatalog, "prepared", lambda self: frozenset("xy"))
    end, staging = mark(database("requests-source").identity, 0), keeper.trail.staging
    staging.prepare("x", end, (THERE,))
    requests.request_table(tmp_path, THERE)
    keeper.requested.patience = 0.0
    keeper.requested.look()
    assert keeper.join(end) is None
    staging.remove("x")
    staging.prepare("y", end, (THERE,))
    assert keeper.join(end) is None
    refused = requests.answer(tmp_path, THERE)
    assert refused is not None and "each time another one, now y" in refused.refusal and "pause" in refused.refusal


def test_a_statement_about_a_table_that_is_not_replicated_is_told_once_a_minute(
    keeper: DefinitionKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger there may write a replicated one."""
    monkeypatch.setattr(MemoryDialect, "facts", lambda *_: StatementFacts("data", (AWAY,)))
    keeper.wanted = {THERE}.__contains__
    with capture_logs() as logs:
        for number in range(3):
            statement = LogStatement("INSERT …", "shop", mark(database("requests-source").identity, number))
            assert keeper.on_statement(statement) is None
    (told,) = [one for one in logs if one["event"] == "statement_passed_over"]
    assert told["table"] == str(AWAY) and "triggers" in told["why"]
