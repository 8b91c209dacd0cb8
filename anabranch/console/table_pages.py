"""The page of one table: its state at each target, why it is parked and how it comes back, rows set aside, conflicts, versions.

What does not live here: gathering it (`manager/inside.py`), the ways back (`actions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Visits
from anabranch.console.showing import PageRoute, is_part, page
from anabranch.console.status_pages import heard_now
from anabranch.errors import AnabranchError, NotAllowed, UnknownName
from anabranch.manager.callers import Role
from anabranch.manager.inside import parsed
from anabranch.model.parked_reasons import tells_dropped

routes = APIRouter(route_class=PageRoute)


@routes.get("/jobs/{name}/tables/{table:path}")
def table(
    request: Request, manager: TheManager, visitor: Visits, name: str, table: str, ask: bool = False
) -> HTMLResponse:
    """Show the page of a table, which asks the targets as a part; with `ask`, or as a part, ask them."""
    manager.job(visitor.caller, name)
    wanted = str(parsed(table))
    may_act = visitor.caller.role_at(name).includes(Role.OPERATOR)
    facts: dict[str, Any] = {"name": name, "table": wanted, "inside": None, "error": None, "may_act": may_act}
    if is_part(request) or ask:
        try:
            facts["inside"] = manager.inside.table(visitor.caller, name, wanted)
            facts["rows"] = _rows(heard_now(manager, visitor.caller, name, fresh=True).status, wanted)
        except (UnknownName, NotAllowed):
            raise
        except AnabranchError as error:
            facts |= {"inside": None, "error": error}
    template = "_table.html" if is_part(request) else "table.html"
    return page(request, template, visitor, **facts, is_dropped=tells_dropped)


def _rows(status: Mapping[str, Any], table: str) -> dict[str, Mapping[str, Any]]:
    """Return what `status` has of the table, by target, "" of the only one."""
    targets = status["targets"]
    return {
        target["name"] if len(targets) > 1 else "": row
        for target in targets
        for row in target["tables"]
        if row["source"] == table
    }
