"""Signing on by a provider, as the console and REST ask for it.

What does not live here: each concept's own file has what it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from anabranch.errors import NotAllowed, ProviderUnavailable
from anabranch.manager.audit import Audit
from anabranch.manager.callers import Caller, Role
from anabranch.manager.logins import Logins
from anabranch.manager.oidc.login import Begun, Login
from anabranch.manager.oidc.provider import Provider
from anabranch.manager.oidc.rights import claim, grants
from anabranch.manager.oidc.sessions import HOW, OidcSessions
from anabranch.manager.oidc.settings import Settings
from anabranch.manager.oidc.tokens import api_token
from anabranch.manager.store import ManagerStore

PREFIX = "oidc:"  # no user with a password has such a name
LONGEST = 100  # characters of a name


@dataclass(frozen=True)
class SignedOn:
    """Somebody who has just logged in. `secret`: what the cookie has; `next`: the page that was asked for."""

    caller: Caller
    secret: str
    next: str


class SignOn:
    """The provider of one manager, from any thread."""

    def __init__(
        self,
        settings: Settings,
        store: ManagerStore,
        audit: Audit,
        logins: Logins,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self._audit, self._logins, self._clock = settings, audit, logins, clock
        self.provider = Provider(settings)
        self.sessions = OidcSessions(store, settings)
        self._login = Login(self.provider, clock)

    def begin(self, next: str) -> Begun:
        """Return where to send a browser. Raises ProviderUnavailable."""
        return self._login.begin(next)

    def finish(self, said: Mapping[str, str], cookie: str, place: str) -> SignedOn:
        """Log in whom the provider has sent back. Raises NotAllowed, ProviderUnavailable, TooOften.

        A refusal is in the audit once for each login that was begun here, and an address that has many has to wait: else
        anybody could fill the audit.
        """
        begun = self._login.taken(cookie)
        try:
            with self._logins.counting(place):
                done = self._login.finish(said, begun)
                caller = self._caller(done.claims, place)
        except NotAllowed as error:
            self._audit.note(Caller(PREFIX, HOW, Role.VIEWER, (), place), "login_refused", after=error.message)
            raise
        secret = self.sessions.begin(caller.name, done.claims)
        self._audit.note(caller, "logged_in", after=f"subject {done.claims['sub'][:200]}: {caller.title}")
        return SignedOn(caller, secret, done.next)

    def caller(self, text: str, place: str) -> Caller | None:
        """Return who has this token of the provider, None where it does not count. Raises ProviderUnavailable."""
        try:
            return self._caller(api_token(self.provider, text, self._clock), place)
        except NotAllowed:
            return None

    def leave(self) -> str | None:
        """Return the address at which somebody logs out at the provider, too; None where it has none, or is away."""
        try:
            url = self.provider.metadata().end_session
        except ProviderUnavailable:
            return None
        file = self.settings.file
        said = urlencode(
            {"client_id": file.client_id, "post_logout_redirect_uri": f"{file.public_url.rstrip('/')}/login"}
        )
        return None if url is None else f"{url}{'&' if '?' in url else '?'}{said}"

    def _caller(self, claims: Mapping[str, Any], place: str) -> Caller:
        file = self.settings.file
        name = claim(claims, file.user_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST or not name.isprintable():
            raise NotAllowed(
                f"the provider says no name of this person: {file.user_claim}",
                hint="ask an administrator of this manager: user_claim of its OpenID file names another claim",
            )
        has = grants(claims, file.roles)
        if not has:
            raise NotAllowed(
                f"{name} has no role at this manager",
                hint="ask its administrator: [[roles]] of its OpenID file gives them",
            )
        return Caller(f"{PREFIX}{name}", HOW, has[0].role, has[0].jobs, place, has[1:])
