"""Tells who asks: the caller of a request, by its token or by the session of the console.

What does not live here: what a caller may do (`manager/callers.py`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request, Response, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from anabranch.api.requests_log import CALLER
from anabranch.manager import Manager
from anabranch.manager.callers import Caller
from anabranch.manager.sessions import Session

COOKIE = "anabranch_session"
_ASKED = "asked"  # in the state of a request: who asks, once that is known
_bearer = HTTPBearer(
    auto_error=False, description="A token that `anabranch token create` has printed, or one of the OpenID provider."
)
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


def manager_of(request: Request) -> Manager:
    """Return the manager whose application this is."""
    found: Manager = request.app.state.manager
    return found


def session_of(request: Request) -> Session | None:
    """Return the session that the request's cookie belongs to."""
    secret = request.cookies.get(COOKIE)
    return manager_of(request).session(secret) if secret else None


def place_of(request: Request) -> str:
    """Return the address from which the request comes."""
    return request.client.host if request.client else ""


def caller_of(request: Request, found: Session) -> Caller:
    """Return the user of a session as a caller."""
    user = found.user
    return noted(request, Caller(user.name, found.how, user.role, user.jobs, place_of(request), found.more))


def noted(request: Request, caller: Caller) -> Caller:
    """Note in a request who asks, for the log of requests. Returns the caller."""
    request.scope.setdefault("state", {})[CALLER] = caller
    return caller


def bearer_of(request: Request) -> str | None:
    """Return the token that a request has, whether it counts or not."""
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else None


def caller_now(request: Request, given: str | None) -> Caller | None:
    """Return who has this token, or without one the request's session, as of now; None where it counts no more."""
    if given is not None:
        return manager_of(request).bearer(given, place_of(request))
    found = session_of(request)
    return caller_of(request, found) if found is not None else None


def asking(request: Request, credentials: _Credentials) -> Caller:
    """Return who asks. Raises 401 without a token that counts; a session counts for reading, and with its word for the rest."""
    found: Caller | None = request.scope.setdefault("state", {}).get(_ASKED)
    return found if found is not None else _found(request, credentials)


def _found(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Caller:
    if credentials is not None:
        caller = manager_of(request).bearer(credentials.credentials, place_of(request))
        if caller is not None:
            return noted(request, caller)
    elif (found := session_of(request)) is not None and not found.user.must_change:
        word = request.headers.get("X-CSRF-Token", "")
        if request.method in ("GET", "HEAD") or hmac.compare_digest(word.encode(), found.csrf.encode()):
            return caller_of(request, found)
    raise HTTPException(401, "a token is needed: anabranch token create --role viewer makes one")


class AskedRoute(APIRoute):
    """A route that knows who asks before it reads a body: FastAPI itself parses the body first, and would tell a stranger what
    is wrong with it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if not any(one.call is asking for one in self.dependant.dependencies):
            return handle

        async def asked(request: Request) -> Response:
            credentials = await _bearer(request)
            request.scope.setdefault("state", {})[_ASKED] = await run_in_threadpool(_found, request, credentials)
            return await handle(request)

        return asked


Asks = Annotated[Caller, Depends(asking)]
TheManager = Annotated[Manager, Depends(manager_of)]
