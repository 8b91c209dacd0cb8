"""The pages of operations: those of a job, and one as it runs, with what it says and the button that cancels it.

What does not live here: what is asked for (`action_pages.py`), carrying it out (`manager/operations.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.outlook import SIGNS
from anabranch.console.showing import PageRoute, is_part, page
from anabranch.errors import NotAllowed
from anabranch.manager import Manager
from anabranch.manager.callers import Caller
from anabranch.manager.operations import OPEN, Output

routes = APIRouter(route_class=PageRoute)
EACH = 50  # operations on a page
NO_MORE = 286  # with it htmx asks no further. https://htmx.org/docs/#load_polling
KINDS = {"queued": "busy", "running": "busy", "done": "good", "failed": "bad", "cancelled": "warn", "lost": "bad"}
_Number = Annotated[int, Query(ge=1, lt=2**62)]


@routes.get("/jobs/{name}/operations")
def operations(
    request: Request, manager: TheManager, visitor: Visits, name: str, before: _Number | None = None
) -> HTMLResponse:
    """List the operations of a job, the newest first."""
    found = manager.operations.all(visitor.caller, name, EACH + 1, before)
    older = found[EACH - 1].id if len(found) > EACH else None
    facts: dict[str, Any] = {"name": name, "operations": found[:EACH], "older": older, "kinds": KINDS, "signs": SIGNS}
    return page(request, "operations.html", visitor, **facts)


@routes.get("/jobs/{name}/operations/{number}")
def operation(request: Request, manager: TheManager, visitor: Visits, name: str, number: int) -> HTMLResponse:
    """Show one operation; as a part of its page it is shown anew until it has ended."""
    found = manager.operations.operation(visitor.caller, name, number)
    is_open = found.state in OPEN
    said = _said(manager, visitor.caller, name, number)
    facts: dict[str, Any] = {"name": name, "one": found, "is_open": is_open, "said": said}
    code = NO_MORE if is_part(request) and not is_open else 200
    template = "_operation.html" if is_part(request) else "operation.html"
    return page(request, template, visitor, code, **facts, kinds=KINDS, signs=SIGNS)


@routes.get("/jobs/{name}/operations/{number}/cancel")
def before_cancel(request: Request, manager: TheManager, visitor: Visits, name: str, number: int) -> HTMLResponse:
    """Say what comes of cancelling an operation, before it is done."""
    found = manager.operations.operation(visitor.caller, name, number)
    manager.operations.output(visitor.caller, name, number, "stdout")  # whoever may see it may cancel it
    return page(request, "before_cancel.html", visitor, name=name, one=found, is_open=found.state in OPEN)


@routes.post("/jobs/{name}/operations/{number}/cancel")
def cancel(manager: TheManager, visitor: Acts, name: str, number: int) -> Response:
    """Ask an operation to end."""
    manager.operations.cancel(visitor.caller, name, number)
    return RedirectResponse(f"/jobs/{name}/operations/{number}", 303)


def _said(manager: Manager, caller: Caller, name: str, number: int) -> dict[str, Output] | None:
    """Return the end of both streams; None for who may not see them."""
    try:
        return {
            stream: manager.operations.end_of_output(caller, name, number, stream) for stream in ("stdout", "stderr")
        }
    except NotAllowed:
        return None
