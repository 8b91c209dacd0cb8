"""Keys that a job of ours builds at this source, and a catalogue that is ahead of the log: what goes on and what parks.
No server runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anabranch.capture.begin import SourceDefinitions
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.memory.source.capture import mark
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Action, TableSchema
from anabranch.rows.chunk import BarrierKind
from anabranch.rows.log_items import LogStatement
from unit.capture.test_capture_definitions import HERE, Source, barriers, keep, seen, seen_at, table, with_keys

__all__ = ["keep"]  # a fixture

ADDS = "ALTER TABLE orders ADD CONSTRAINT k0 FOREIGN KEY (n) REFERENCES other (id) ON DELETE CASCADE"
OF_A_JOB = "anabranch:shop"


def of_a_job(keeper: DefinitionKeeper, sql: str, at: LogMark = HERE) -> list[tuple[BarrierKind, str]]:
    found = barriers(keeper.on_statement(LogStatement(sql, "shop", at, origin=OF_A_JOB)))
    return [one for one in found if one[0] is not BarrierKind.NOTE]


def test_rule_01_21_a_key_that_a_job_builds_is_in_force_from_its_place_on(keep: Callable) -> None:
    """And gone from the place where the job drops it; in a catalogue that shows what comes further on."""
    keeper = keep(table("orders"), table("other"))
    orders = TableId("shop", "orders")
    assert of_a_job(keeper, ADDS) == [(BarrierKind.ALTER, "orders")]
    assert (
        keeper.trail.history.in_force()[orders].foreign_keys == with_keys(table("orders"), Action.CASCADE).foreign_keys
    )
    assert of_a_job(keeper, "ALTER TABLE orders DROP FOREIGN KEY k0") == [(BarrierKind.ALTER, "orders")]
    assert keeper.trail.history.in_force()[orders].foreign_keys == ()
    assert seen(keeper, ADDS) == [(BarrierKind.PARK, "orders")], "of somebody else"


def test_rule_01_21_a_key_that_a_job_builds_parks_where_its_parent_is_not_followed(keep: Callable) -> None:
    keeper = keep(table("orders"), table("other"))
    keeper.park([TableId("shop", "other")], "somebody has altered it")
    assert of_a_job(keeper, ADDS) == [(BarrierKind.PARK, "orders")]


@pytest.mark.parametrize("is_told", [True, False])
def test_rule_19_21_a_catalogue_may_be_ahead_of_what_a_job_builds(keep: Callable, is_told: bool) -> None:
    """Until the log has come to where the catalogue was asked: what no statement has told by then was not logged."""
    keeper, places = keep(table("orders"), table("other")), [mark("server", 2 * n) for n in range(1, 6)]
    now = with_keys(table("orders"), Action.CASCADE)
    keeper.source.now[now.id] = now  # read at HERE, which is 7
    assert seen_at(keeper, "CREATE INDEX i ON other (n)", places[0]) == []
    assert seen_at(keeper, "CREATE INDEX j ON other (n)", places[1]) == []
    if is_told:
        assert of_a_job(keeper, ADDS, places[2]) == [(BarrierKind.ALTER, "orders")]
    found = seen_at(keeper, "CREATE INDEX l ON other (n)", places[4])
    parked = [(BarrierKind.PARK, "orders"), (BarrierKind.PARK, "other")]
    assert sorted(found) == ([] if is_told else parked[:1])


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("starts", [True, False])
def test_rule_19_21_no_statement_has_to_come_for_a_key_that_was_not_logged(
    keep: Callable, is_told: bool, starts: bool
) -> None:
    """Park where the log has passed the place that it had when the catalogue was asked: by a statement, or at a start."""
    keeper, places = keep(table("orders"), table("other")), [mark("server", 2 * n) for n in range(1, 6)]
    now = with_keys(table("orders"), Action.CASCADE)
    keeper.source.now[now.id] = now  # read at HERE, which is 7
    if starts:
        keeper.look_ahead()
    else:
        assert seen_at(keeper, "CREATE INDEX i ON other (n)", places[0]) == []
    assert keeper.park_untold(places[1]) is None
    if is_told:
        assert of_a_job(keeper, ADDS, places[2]) == [(BarrierKind.ALTER, "orders")]
    found = barriers(keeper.park_untold(places[4]))
    assert found == ([] if is_told else [(BarrierKind.PARK, "orders")])
    assert keeper.park_untold(places[4]) is None


def test_rule_19_21_a_key_that_is_gone_again_parks_nothing(keep: Callable) -> None:
    keeper = keep(table("orders"), table("other"))
    now = with_keys(table("orders"), Action.CASCADE)
    keeper.source.now[now.id] = now
    keeper.look_ahead()
    keeper.source.now[now.id] = table("orders")
    assert keeper.park_untold(mark("server", 8)) is None


def test_rule_19_21_at_a_start_what_was_just_read_is_read_again_only_where_keys_act_otherwise(
    keep: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keep(table("orders"), table("other"))
    just_read = SourceDefinitions(dict(keeper.source.now), HERE, HERE)
    with monkeypatch.context() as unasked:
        unasked.setattr(Source, "tables", None)
        keeper.look_ahead(just_read)
    now = with_keys(table("orders"), Action.CASCADE)
    keeper.source.now[now.id] = now
    keeper.look_ahead(replace(just_read, tables=dict(keeper.source.now)))
    assert barriers(keeper.park_untold(mark("server", 8))) == [(BarrierKind.PARK, "orders")]


def test_rule_19_21_what_is_not_ahead_is_not_noted_at_a_start(keep: Callable) -> None:
    """Leave keys that only refuse, and tables that are the same or gone, to the statements of the log."""
    keeper = keep(table("orders"), with_keys(table("lines"), Action.CASCADE), table("other"))
    now = with_keys(table("orders"), Action.RESTRICT)
    keeper.source.now[now.id] = now
    del keeper.source.now[TableId("shop", "other")]
    keeper.look_ahead()
    assert keeper.park_untold(mark("server", 8)) is None


def test_rule_19_21_keys_that_the_user_may_not_see_park_nothing(
    keep: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait until they can be read again, at a start as later; the source's being away is said to whoever waits for it."""
    keeper, behind = keep(table("orders"), table("other")), mark("server", 8)
    now = with_keys(table("orders"), Action.CASCADE)
    keeper.source.now[now.id] = now
    keeper.look_ahead()
    refused: SourceError = SourceError("its foreign keys are hidden")

    def fails(*_: object) -> dict[TableId, TableSchema]:
        raise refused

    with monkeypatch.context() as broken:
        broken.setattr(Source, "tables", fails)
        assert keeper.park_untold(behind) is None
        refused = SourceUnavailable("it is away")
        with pytest.raises(SourceUnavailable):
            keeper.park_untold(behind)
    assert barriers(keeper.park_untold(behind)) == [(BarrierKind.PARK, "orders")]
    with monkeypatch.context() as broken:
        refused = SourceError("its foreign keys are hidden")
        broken.setattr(Source, "tables", fails)
        keeper.look_ahead()
    assert keeper.park_untold(behind) is None
