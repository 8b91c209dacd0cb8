"""The OpenAPI document: what FastAPI makes of the routes, with the errors that every one of them may answer.

What does not live here: the errors (`problems.py`), the routes.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anabranch.api.problems import KIND, problem

# https://www.rfc-editor.org/rfc/rfc9457
PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "An error (RFC 9457). `code`: for programs, as the command line has it; `detail`: one sentence for people.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "hint": {"type": "string", "description": "What to do."},
        "job": {"type": "string"},
        "side": {"type": "string", "description": "The end of the job that it is about: source or target."},
        "problems": {
            "type": "array",
            "description": "Each problem of a job file or of a request, with its key and, of a file, its line.",
            "items": {"type": "object"},
        },
    },
}
ANYWHERE = (400, 401, 403, 404, 405, 413, 421, 422, 429, 500, 503)
WITH_VERSIONS = 409  # somebody else has changed it meanwhile
OPEN = ("/healthz",)
_PLACE = re.compile(r"\\\{\w+\\\}")  # `{name}`, as `re.escape` writes it


def describe_errors(app: FastAPI) -> None:
    """Let the document of an application say how its routes tell errors."""
    made = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form of a 422, which is not ours
                schemas.pop(name, None)
            schemas["Problem"] = PROBLEM
            for path, methods in document["paths"].items():
                if path not in OPEN:
                    for operation in methods.values():
                        operation["responses"].update(_errors(operation))
        found: dict[str, Any] = app.openapi_schema or {}
        return found

    @app.exception_handler(405)
    def _no_such_method(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(405, "method_not_allowed", str(error.detail))
        answer.headers.update(
            {**(error.headers or {}), **({"Allow": said} if (said := allowed(app, request.url.path)) else {})}
        )
        return answer

    app.openapi = described  # type: ignore[method-assign]  # as FastAPI's documentation says to extend it


def allowed(app: FastAPI, path: str) -> str:
    """Return the methods that the document has for a path, as the header `Allow` says them; "" for a path that it has not."""
    found = [one for one in app.openapi()["paths"] if re.fullmatch(_PLACE.sub("[^/]+", re.escape(one)), path)]
    if not found:
        return ""
    exact = min(found, key=lambda one: one.count("{"))  # `/jobs/validate` is no job
    return ", ".join(sorted(method.upper() for method in app.openapi()["paths"][exact]))


def _errors(operation: dict[str, Any]) -> dict[str, Any]:
    codes = [*ANYWHERE, *([WITH_VERSIONS] if "requestBody" in operation else [])]
    content = {KIND: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {str(code): {"description": HTTPStatus(code).phrase, "content": content} for code in sorted(codes)}
