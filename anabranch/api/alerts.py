"""The routes of alerts: those that go on, those that are over, and the rules.

What does not live here: judging (`manager/alerts.py`), sending (`manager/notifying.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.manager.alert_rules import Kind, Rule, as_text
from anabranch.manager.alerts import Alert, seen
from anabranch.manager.callers import Role

routes = APIRouter(prefix="/alerts", tags=["alerts"], route_class=AskedRoute)
Number = Annotated[float, Field(strict=True)]  # neither text nor true


@dataclass(frozen=True)
class RuleWanted:
    """A rule as it is to be."""

    name: str
    kind: Kind
    threshold: Number = 0.0
    jobs: str = "*"
    for_s: Number = 60.0
    calm_s: Number = 60.0
    repeat_hours: Number = 24.0


@routes.get("")
def alerts(
    manager: TheManager, caller: Asks, firing: bool = False, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[Alert]:
    """List alerts about jobs that the caller may see, the newest first. `firing`: only those that go on."""
    caller.require(Role.VIEWER)
    found = manager.alerts.all(1000, is_open=firing)
    return seen(found, caller.sees, is_everything=caller.sees_all)[:limit]


@routes.get("/rules")
def rules(manager: TheManager, caller: Asks) -> list[Rule]:
    """List the rules."""
    caller.require(Role.VIEWER)
    return list(manager.alert_rules.all())


@routes.put("/rules")
def set_rules(manager: TheManager, caller: Asks, body: list[RuleWanted]) -> list[Rule]:
    """Let these be the rules, all of them, from now on."""
    caller.require(Role.ADMINISTRATOR)
    before = as_text(manager.alert_rules.all())
    wanted = [Rule(**vars(one)) for one in body]
    with manager.audit.together():
        manager.alert_rules.set(wanted, caller.name)
        manager.audit.note(caller, "alert_rules_changed", before=before, after=as_text(wanted))
    return wanted
