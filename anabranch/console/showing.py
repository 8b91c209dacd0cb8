"""Makes pages of templates, and tells errors as pages to whoever wants pages.

What does not live here: the routes (`*_pages.py`), what pages look like (`templates/`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.templating import Jinja2Templates
from starlette.types import Scope

from anabranch.api.asking import caller_of, session_of
from anabranch.api.problems import AGAIN_S, STATUS, of_store, unexpected
from anabranch.api.requests_log import API
from anabranch.console import words
from anabranch.console.logged_in import Visitor
from anabranch.errors import AnabranchError

HTMX = "HX-Request"  # the header of a request for a part of a page
# Controls, and what turns the direction of letters: it would show a name as another one.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PLAIN = "/:%#?=@[]!$&'()*+,;"  # what a path and a query may have as it is

templates = Jinja2Templates(directory=Path(__file__).with_name("templates"))
templates.env.trim_blocks = templates.env.lstrip_blocks = True
templates.env.filters.update(
    duration=words.duration,
    size=words.size,
    moment=words.moment,
    micros=words.micros,
    count=words.count,
    rate=words.rate,
    ranked=words.ranked,
    segment=words.segment,
)


def _seen(value: Any) -> Any:
    """Let what cannot be seen be seen, in all that a template writes."""
    return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", value) if type(value) is str else value


templates.env.finalize = _seen


def _pages_of(visitor: Visitor) -> list[tuple[str, str]]:
    """Return the pages that the head of each page leads to, by address."""
    others = [
        ("/new", "New job"),
        ("/secrets", "Secrets"),
        ("/users", "Users"),
        ("/tokens", "Tokens"),
        ("/audit", "Audit"),
        ("/settings", "Settings"),
    ]
    return [("/", "Jobs"), ("/alerts", "Alerts"), *(others if visitor.caller.is_over_all else [])]


def _provider_of(request: Request) -> str | None:
    """Return what the OpenID provider is called, by which one may log in; None without one."""
    manager = getattr(request.app.state, "manager", None)
    return None if manager is None or manager.oidc is None else str(manager.oidc.settings.file.name)


templates.env.globals["pages_of"] = _pages_of
templates.env.globals["provider_of"] = _provider_of


def page(
    request: Request, template: str, visitor: Visitor | None = None, code: int = 200, **facts: Any
) -> HTMLResponse:
    """Return a page made of a template and these facts."""
    facts |= {"visitor": visitor, "csrf": visitor.session.csrf if visitor else "", "path": request.url.path}
    return templates.TemplateResponse(request, template, facts, status_code=code)


def own_page(path: str) -> str:
    """Return a path of ours, to which a login may lead; `/` for what leads to another host. All else is percent-encoded, since
    browsers take a backslash for `/`, and leave out tabs and line ends."""
    return quote(path, safe=_PLAIN) if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def is_part(request: Request) -> bool:
    """Return whether a part of a page is asked for, by htmx."""
    return HTMX in request.headers


class PageRoute(APIRoute):
    """The route of a page: its errors are pages, too, unless whoever asks takes no HTML."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        inner = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await inner(request)
            except Exception as error:  # passed on, but for those that have a page
                code = _code(error)
                if code < 400 or not _wants_pages(request):
                    raise
                return _refusal(request, error, code)

        return handled


def refused_page(scope: Scope, code: int, said: str) -> Response | None:
    """Return what the gate refuses as a page, for who wants pages; else None. Nothing is looked up for it."""
    request = Request(scope)
    if not _wants_pages(request) or request.url.path.startswith(API):
        return None
    title = words.REFUSED.get(code, HTTPStatus(code).phrase)
    return page(
        request, "_refused.html" if is_part(request) else "refused.html", code=code, title=title, said=said, hint=""
    )


def _wants_pages(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") or is_part(request)


def _code(error: Exception) -> int:
    if isinstance(error, AnabranchError):
        return next(status for kind, status in STATUS if isinstance(error, kind))
    if isinstance(error, HTTPException):
        return error.status_code
    return 422 if isinstance(error, RequestValidationError) else 503 if isinstance(error, sqlite3.Error) else 500


def _refusal(request: Request, error: Exception, code: int) -> Response:
    if isinstance(error, sqlite3.Error):
        error = of_store(error)
    said = error.message if isinstance(error, AnabranchError) else getattr(error, "detail", "")
    said = unexpected(error, request.method) if code == 500 else said
    hint = error.hint if isinstance(error, AnabranchError) and not error.hint.startswith("GET ") else ""
    try:
        found = session_of(request)
    except (AnabranchError, sqlite3.Error):  # the store itself is what does not work
        found = None
    visitor = Visitor(caller_of(request, found), found) if found else None
    name = "_refused.html" if is_part(request) else "refused.html"
    title = words.REFUSED.get(code, HTTPStatus(code).phrase)
    answer = page(request, name, visitor, code, title=title, said=said, hint=hint)
    answer.headers.update({"Retry-After": str(AGAIN_S)} if code == 503 else {})
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer
