"""Sends a browser to the provider, and takes it back: authorization code with PKCE.

What a login needs to be finished (state, nonce, verifier, where it leads) is in a cookie of the browser that began it, sealed
with a key of this process; so nobody fills a table of ours by beginning logins, and a login that another browser began does not
count here. Each counts once. What does not live here: pages (`console/`). https://www.rfc-editor.org/rfc/rfc9700
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from anabranch.errors import NotAllowed
from anabranch.manager.oidc.provider import Provider
from anabranch.manager.oidc.tokens import id_token

LASTS_S = 600
LONGEST = 500  # characters of the page that it leads to
_NONCE = 12
_PLACE = b"anabranch: a login that has begun"


@dataclass(frozen=True)
class Begun:
    """A login that has begun. `url`: at the provider; `cookie`: what the browser brings back."""

    url: str
    cookie: str


@dataclass(frozen=True)
class Taken:
    """A login that has begun, as its browser brings it back. `next`: the page that was asked for."""

    state: str
    nonce: str
    verifier: str
    next: str


@dataclass(frozen=True)
class Finished:
    """A login that is over well. `next`: the page that was asked for."""

    claims: Mapping[str, Any]
    next: str


class Login:
    """The logins at one provider, from any thread."""

    def __init__(self, provider: Provider, clock: Callable[[], float] = time.time) -> None:
        self._provider, self._clock = provider, clock
        self._sealing = AESGCM(secrets.token_bytes(32))
        self._used: dict[str, float] = {}
        self._mutex = threading.Lock()

    def begin(self, next: str) -> Begun:
        """Return where to send a browser that wants to see the page `next`. Raises ProviderUnavailable."""
        file = self._provider.settings.file
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        asked = {
            "response_type": "code",
            "client_id": file.client_id,
            "redirect_uri": self._provider.settings.back,
            "scope": " ".join(["openid", *(one for one in file.scopes if one != "openid")]),
            "state": state,
            "nonce": nonce,
            "code_challenge": _encoded(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        url = self._provider.metadata().authorization
        facts = [state, nonce, verifier, next if len(next) <= LONGEST else "/", self._clock() + LASTS_S]
        sealed = secrets.token_bytes(_NONCE)
        sealed += self._sealing.encrypt(sealed, json.dumps(facts).encode(), _PLACE)
        return Begun(f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}", _encoded(sealed))

    def taken(self, cookie: str) -> Taken:
        """Return the login that a browser brings back, once; whatever comes of it, it counts no more. Raises NotAllowed."""
        state, nonce, verifier, next, ends = self._opened(cookie)
        moment = self._clock()
        if moment > ends:
            raise _refused("it has taken too long")
        with self._mutex:
            self._used = {one: until for one, until in self._used.items() if until > moment}
            if state in self._used:
                raise _refused("it was finished before")
            self._used[state] = ends
        return Taken(state, nonce, verifier, next)

    def finish(self, said: Mapping[str, str], begun: Taken) -> Finished:
        """Return who has logged in. `said`: the query with which the browser has come back. Raises NotAllowed,
        ProviderUnavailable."""
        if not hmac.compare_digest(said.get("state", "").encode(), begun.state.encode()):
            raise _refused("it was begun elsewhere, or another one was begun meanwhile")
        metadata, issuer = self._provider.metadata(), self._provider.settings.file.issuer
        if (
            said.get("iss", None if metadata.says_issuer else issuer) != issuer
        ):  # https://www.rfc-editor.org/rfc/rfc9207
            raise _refused("another provider has answered")
        if "error" in said:
            raise _refused(f"the provider says {said['error'][:80]!r}")
        if not said.get("code"):
            raise _refused("the provider has given no code")
        found = self._provider.tokens(said["code"], begun.verifier)
        return Finished(id_token(self._provider, found.get("id_token"), begun.nonce, self._clock), begun.next)

    def _opened(self, cookie: str) -> tuple[str, str, str, str, float]:
        try:
            sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
            text = self._sealing.decrypt(sealed[:_NONCE], sealed[_NONCE:], _PLACE)
        except (binascii.Error, InvalidTag, ValueError):
            raise _refused("this browser has not begun it, or the manager has started again since") from None
        state, nonce, verifier, next, ends = json.loads(text)
        return state, nonce, verifier, next, ends


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _refused(what: str) -> NotAllowed:
    return NotAllowed(f"this login does not count: {what}", hint="log in again")
