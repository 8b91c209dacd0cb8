"""Triggers that a table loses when it is made anew: they are told by name, and so is that nobody can see them."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from anabranch.connectors.mysql.target import lost_triggers
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

ITEM = TargetTable(TableId("shop", "item"), TableId("there", "item"), (), (), ())


@pytest.mark.parametrize(
    ("grant", "names", "event"),
    [
        ("DROP", [], "triggers_not_seen"),
        ("TRIGGER, DROP", [], None),
        ("ALL PRIVILEGES", [], None),
        ("TRIGGER, DROP", ["audit"], "table_made_anew_without"),
    ],
)
def test_rule_19_triggers_are_told_or_that_they_are_not_seen(
    monkeypatch: pytest.MonkeyPatch, grant: str, names: list[str], event: str | None
) -> None:
    def ask(connection: Any, sql: str, *values: str) -> list[tuple[str]]:
        if sql == "SHOW GRANTS":
            return [("GRANT USAGE ON *.* TO `a`@`%`",), (f"GRANT {grant} ON `there`.`item` TO `a`@`%`",)]
        assert values == ("there", "item")
        return [(name,) for name in names]

    monkeypatch.setattr(lost_triggers, "ask", ask)
    connection: Any = None
    with capture_logs() as told:
        lost_triggers.tell(connection, ITEM)
    assert [one["event"] for one in told] == ([event] if event else [])
    assert [one["lost"] for one in told if "lost" in one] == ([["trigger audit"]] if names else [])
