"""The page of settings: who may come and how, secrets, channels of alerts, what is kept for how long, in one place.

It changes nothing but who is logged in by the OpenID provider; all else it leads to. What does not live here: those pages.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from anabranch.api.asking import TheManager
from anabranch.console.logged_in import Acts, Visits
from anabranch.console.showing import PageRoute, page
from anabranch.errors import ConfigError
from anabranch.manager import Manager, logins, operations, repeats, sessions, statistics
from anabranch.manager.callers import Caller, Role

routes = APIRouter(prefix="/settings", route_class=PageRoute)
DAY = 86_400.0


@routes.get("")
def settings(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """Show the settings of the manager."""
    visitor.caller.require(Role.ADMINISTRATOR)
    users = manager.people.users(visitor.caller)
    tokens = [one for one in manager.people.all_tokens(visitor.caller) if one.revoked is None]
    facts: dict[str, Any] = {"users": users, "tokens": tokens, "oidc": manager.oidc, "kept": kept()}
    facts["operations_kept"] = operations.KEPT
    facts |= {"ways": sorted(manager.notifier.ways), "rules": manager.alert_rules.all()}
    facts["capabilities"] = manager.supervision.capabilities
    facts["people"] = manager.oidc.sessions.people() if manager.oidc else []
    return page(request, "settings.html", visitor, **facts, **_secrets(manager, visitor.caller))


@routes.get("/log-out-all")
def before(request: Request, manager: TheManager, visitor: Visits) -> HTMLResponse:
    """Say what comes of logging everybody out whom the provider has vouched for, before it is done."""
    visitor.caller.require(Role.ADMINISTRATOR)
    people = manager.oidc.sessions.people() if manager.oidc else []
    return page(request, "before_log_out_all.html", visitor, people=people, is_own=not visitor.session.has_password)


@routes.post("/log-out-all")
def log_out_all(manager: TheManager, visitor: Acts) -> Response:
    """Log everybody out whom the provider has vouched for."""
    visitor.caller.require(Role.ADMINISTRATOR)
    with manager.audit.together():
        number = manager.oidc.sessions.end_all() if manager.oidc else 0
        manager.audit.note(visitor.caller, "logged_out_all", after=f"{number} sessions by the OpenID provider")
    return RedirectResponse("/settings", 303)


def kept() -> list[tuple[str, float | None]]:
    """Return what the manager keeps for how many seconds, None for ever."""
    every = {1: "each second", 60: "each minute", 3600: "each hour"}
    return [
        *((f"Statistics of {every[step]}", float(seconds)) for step, seconds in statistics.KEPT.items()),
        ("Answers to requests with an Idempotency-Key", repeats.KEPT_S),
        ("Failed logins", logins.FORGOTTEN.total_seconds()),
        ("Sessions without a request", sessions.IDLE.total_seconds()),
        ("Sessions of users with a password, at most", sessions.LONGEST.total_seconds()),
        ("Audit, versions of job files", None),
    ]


def _secrets(manager: Manager, caller: Caller) -> dict[str, Any]:
    """Return the secrets, or why they cannot be listed: a key that is away is what one comes here for."""
    place = manager.secrets.key_place(caller)
    try:
        return {"secrets": manager.secrets.all(caller), "key_place": place, "key_error": None}
    except ConfigError as error:
        return {"secrets": [], "key_place": place, "key_error": error}
