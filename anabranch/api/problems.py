"""Errors as answers: RFC 9457 problem details, with the codes that the command line has.

What does not live here: the errors (`errors.py`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anabranch.errors import AnabranchError, ConfigError, NotAllowed, OutOfDate, TooOften, UnknownName

KIND = "application/problem+json"
STATUS: tuple[tuple[type[AnabranchError], int], ...] = (  # the first that fits
    (UnknownName, 404),
    (NotAllowed, 403),
    (OutOfDate, 409),
    (TooOften, 429),
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
    headers = {"WWW-Authenticate": 'Bearer realm="anabranch"'} if status == 401 else None
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


def tell_problems(app: FastAPI) -> None:
    """Let every error of the application be told so."""

    @app.exception_handler(AnabranchError)
    def _ours(_: Request, error: AnabranchError) -> JSONResponse:
        return of_error(error)

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
