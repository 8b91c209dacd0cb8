"""The pages of logging in by an OpenID provider: to it, and back from it.

What does not live here: what counts (`manager/oidc/`), logging in with a password (`pages.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from anabranch.api.asking import COOKIE, TheManager, place_of
from anabranch.api.problems import AGAIN_S
from anabranch.console.showing import PageRoute, own_page, page
from anabranch.errors import AnabranchError, NotAllowed, ProviderUnavailable
from anabranch.manager import Manager
from anabranch.manager.oidc.settings import CALLBACK

if TYPE_CHECKING:
    from anabranch.manager.oidc.sign_on import SignOn  # its packages are an extra of their own

routes = APIRouter(route_class=PageRoute)
BEGUN = "anabranch_login"  # the cookie of a login that has begun
LASTS_S = 600
AT_ONCE = 2  # threads that may wait for a provider; all others are for those who do not need it


@routes.get("/login/oidc")
async def to_provider(request: Request, manager: TheManager, next: str = "/") -> Response:
    """Send the browser to the provider."""
    oidc = _required(manager)
    return await _asking(request, lambda: _sent(request, oidc, next))


@routes.get(CALLBACK)
async def from_provider(request: Request, manager: TheManager) -> Response:
    """Take the browser back from the provider."""
    oidc = _required(manager)
    return await _asking(request, lambda: _taken_back(request, oidc))


async def _asking(request: Request, answer: Callable[[], Response]) -> Response:
    """Return an answer for which the provider is asked, by one of few threads."""
    state = request.app.state
    if not hasattr(state, "sign_ons"):
        state.sign_ons = CapacityLimiter(AT_ONCE)
    return await to_thread.run_sync(answer, limiter=state.sign_ons)


def _sent(request: Request, oidc: SignOn, next: str) -> Response:
    try:
        begun = oidc.begin(own_page(next))
    except ProviderUnavailable as error:
        return _told(request, error, 503, own_page(next))
    answered = RedirectResponse(begun.url, 303)
    # "lax": it has to come back with the browser, which the provider's page sends
    answered.set_cookie(
        BEGUN, begun.cookie, LASTS_S, path=CALLBACK, httponly=True, samesite="lax", secure=oidc.settings.is_secure
    )
    return answered


def _taken_back(request: Request, oidc: SignOn) -> Response:
    """Log in whom the provider has sent back. A page of ours leads on to the one that was asked for: behind a redirect the
    browser would not bring the session's cookie, which is for requests of our own pages alone."""
    said = dict(request.query_params)
    try:
        if len(said) != len(request.query_params.multi_items()):
            raise NotAllowed(
                "this login does not count: the provider's answer says something twice", hint="log in again"
            )
        done = oidc.finish(said, request.cookies.get(BEGUN, ""), place_of(request))
    except NotAllowed as error:
        answered = _told(request, error, 403, "/")
    except ProviderUnavailable as error:
        answered = _told(request, error, 503, "/")
    else:
        answered = page(request, "signed_on.html", next=own_page(done.next))
        answered.set_cookie(COOKIE, done.secret, httponly=True, samesite="strict", secure=oidc.settings.is_secure)
    answered.delete_cookie(BEGUN, path=CALLBACK)
    return answered


def _required(manager: Manager) -> SignOn:
    if manager.oidc is None:
        raise HTTPException(404, "this manager has no OpenID provider")
    return manager.oidc


def _told(request: Request, error: AnabranchError, code: int, next: str) -> Response:
    answered = page(request, "login.html", None, code, next=next, problem=str(error))
    if code == 503:
        answered.headers["Retry-After"] = str(AGAIN_S)
    return answered
