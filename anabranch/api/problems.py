"""Errors as answers: RFC 9457 problem details, with the codes that the command line has.

What does not live here: the errors (`errors.py`).
"""

from __future__ import annotations

import sqlite3
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch import log
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    NotAllowed,
    OutOfDate,
    StateError,
    TooBusy,
    TooOften,
    UnknownName,
)

AGAIN_S = 5  # after which to ask again what does not work now
KIND = "application/problem+json"
STATUS: tuple[tuple[type[AnabranchError], int], ...] = (  # the first that fits
    (UnknownName, 404),
    (NotAllowed, 403),
    (OutOfDate, 409),
    (TooOften, 429),
    (TooBusy, 503),
    (ConfigError, 422),
    (AnabranchError, 503),
)


def problem(status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    """Return a problem as an answer. `code`: for machines; `detail`: one sentence for people. https://www.rfc-editor.org/rfc/rfc9457"""
    body = {"type": f"urn:anabranch:error:{code}", "title": HTTPStatus(status).phrase, "status": status}
    body |= {
        "code": code,
        "detail": detail,
        **{name: value for name, value in more.items() if value not in (None, "", [])},
    }
    headers = {"WWW-Authenticate": 'Bearer realm="anabranch"'} if status == 401 else {}
    headers |= {"Retry-After": str(AGAIN_S)} if status == 503 else {}
    return JSONResponse(body, status, headers, media_type=KIND)


def problems_of(error: AnabranchError) -> list[dict[str, Any]]:
    """Return the single problems of a job file."""
    return [
        {"message": one.message, "key": one.key, "line": one.line, "expected": one.expected}
        for one in getattr(error, "problems", ())
    ]


def of_error(error: AnabranchError) -> JSONResponse:
    """Return one of our errors as an answer."""
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    problems = problems_of(error)
    answer = problem(
        status, error.code, error.message, hint=error.hint, job=error.job, side=error.side, problems=problems
    )
    if isinstance(error, TooOften):
        answer.headers["Retry-After"] = str(error.seconds)
    return answer


def of_store(error: sqlite3.Error) -> StateError:
    """Return an error of the manager's store as one of ours: a full disk, or somebody who keeps it locked."""
    return StateError(f"the manager's state cannot be used now: {error}", hint="look at its disk, and ask again")


def unexpected(error: Exception, method: str) -> str:
    """Log an error that nobody has foreseen. Returns what the answer says of it: nothing that was in the request."""
    log.get().error("request_failed", method=method, error=type(error).__name__, exc_info=error)
    return f"unexpected error: {type(error).__name__} (this is a bug; the traceback is in the manager's log)"


class Unexpected:
    """Middleware: what nobody has foreseen is a problem, too. The innermost, so that its answers are counted and have the
    headers of all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:  # the outermost handler: logged, and answered as a problem
            if scope["type"] != "http" or has_begun:
                raise
            detail = unexpected(error, scope["method"])
            await problem(500, "unexpected", detail)(scope, receive, send)


def tell_problems(app: FastAPI) -> None:
    """Let every error of the application be told so."""

    @app.exception_handler(AnabranchError)
    def _ours(_: Request, error: AnabranchError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(sqlite3.Error)
    def _of_store(_: Request, error: sqlite3.Error) -> JSONResponse:
        return of_error(of_store(error))

    @app.exception_handler(HTTPException)
    def _of_http(_: Request, error: HTTPException) -> JSONResponse:
        code = HTTPStatus(error.status_code).name.lower()
        answer = problem(error.status_code, code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    def _wrong_request(_: Request, error: RequestValidationError) -> JSONResponse:
        problems = [{"message": one["msg"], "key": ".".join(map(str, one["loc"]))} for one in error.errors()]
        return problem(422, "wrong_request", "the request is not as this route takes it", problems=problems)
