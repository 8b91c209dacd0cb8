"""The route of the audit.

What does not live here: what is noted in it (`manager/audit.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.manager.audit import Entry

routes = APIRouter(prefix="/audit", tags=["audit"], route_class=AskedRoute)


@dataclass(frozen=True)
class AuditPage:
    """Some entries, the newest first. `next`: what to give as `before` for older ones; None where there is none."""

    entries: list[Entry]
    next: int | None


@routes.get("")
def audit(
    manager: TheManager,
    caller: Asks,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    job: Annotated[str | None, Query(max_length=63)] = None,
) -> AuditPage:
    """List what was done with the manager, the newest first; all of it, or what was done to one job."""
    found = list(manager.audited(caller, limit + 1, before, job))
    return AuditPage(found[:limit], found[limit - 1].id if len(found) > limit else None)
