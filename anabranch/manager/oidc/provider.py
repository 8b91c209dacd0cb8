"""Asks the provider: its addresses by discovery, its keys, and for the tokens of a code.

Addresses and keys are kept for an hour, and for a day where the provider is away. A token with a key that is not among them
has them asked for anew, but seldom: whoever makes tokens up does not make us ask. What does not live here: judging tokens
(`tokens.py`). https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from anabranch import log
from anabranch.config.oidc_file import is_safe
from anabranch.errors import NotAllowed, ProviderUnavailable
from anabranch.manager.oidc.settings import Settings

FRESH_S, USABLE_S = 3600.0, 86400.0
ANEW_S = 10.0  # the shortest time between two questions for keys, also where the first has failed
WAIT_S, LONGEST_S = 10.0, 30.0  # for the next bytes of an answer, and for all of it
LARGEST = 1_000_000  # bytes of an answer
KINDS = ("RSA", "EC", "OKP")  # keys that have a public half: a secret one would let whoever reads it sign


@dataclass(frozen=True)
class Metadata:
    """Addresses and habits of a provider, as it says them itself."""

    authorization: str
    token: str
    end_session: str | None
    says_issuer: bool
    methods: tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    metadata: Metadata
    keys: tuple[Key, ...]
    at: float


class Provider:
    """The provider of one manager, from any thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings, self._clock = settings, clock
        self._known: _Known | None = None
        self._asked: float | None = None
        self._asking = threading.Lock()

    def metadata(self) -> Metadata:
        """Return the provider's addresses. Raises ProviderUnavailable."""
        return self._now().metadata

    def keys(self, number: str | None) -> tuple[Key, ...]:
        """Return the keys with an id, all of them without one; none where it has none now. Raises ProviderUnavailable."""
        found = _named(self._now().keys, number)
        if found or self._asked is None or self._clock() - self._asked < ANEW_S:
            return found
        return _named(self._anew().keys, number)

    def tokens(self, code: str, verifier: str) -> Mapping[str, Any]:
        """Return what the provider gives for a code. Raises NotAllowed where it refuses the code, ProviderUnavailable."""
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.back,
            "code_verifier": verifier,
        }
        headers, secret, client = {}, self.settings.client_secret(), self.settings.file.client_id
        metadata = self.metadata()
        if secret is not None and "client_secret_basic" in metadata.methods:
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"  # https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            sent |= {"client_id": client} | ({"client_secret": secret} if secret is not None else {})
        return self._asked_for("POST", metadata.token, sent, headers)

    def _now(self) -> _Known:
        known = self._known
        if known is not None and self._clock() - known.at < FRESH_S:
            return known
        return self._anew()

    def _anew(self) -> _Known:
        """Ask for addresses and keys, one thread at a time; whoever comes meanwhile has those of before, and never waits: a
        provider that hangs would hold all threads of the manager. Raises ProviderUnavailable without usable ones."""
        if not self._asking.acquire(blocking=False):
            if (known := self._usable()) is not None:
                return known
            raise _away(self.settings, "it has not answered yet")
        try:
            known, moment = self._usable(), self._clock()
            if self._asked is not None and moment - self._asked < ANEW_S:
                if known is None:
                    raise _away(self.settings, "it did not answer a moment ago")
                return known
            self._asked = moment
            try:
                known = self._known = self._read(moment)
            except ProviderUnavailable as error:
                self._asked = self._clock()  # it may have taken its time
                log.get().warning("oidc_provider_unavailable", error=error.message)
                if known is None:
                    raise
            return known
        finally:
            self._asking.release()

    def _usable(self) -> _Known | None:
        known = self._known
        return known if known is not None and self._clock() - known.at < USABLE_S else None

    def _read(self, moment: float) -> _Known:
        issuer = self.settings.file.issuer
        said = self._asked_for("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        if said.get("issuer") != issuer:
            raise _away(
                self.settings, f"it calls itself {said.get('issuer')!r}, and not as `issuer` of the file has it"
            )
        found = {name: self._address(said, name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        ending = self._address(said, "end_session_endpoint") if said.get("end_session_endpoint") else None
        methods = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        metadata = Metadata(
            found["authorization_endpoint"],
            found["token_endpoint"],
            ending,
            said.get("authorization_response_iss_parameter_supported") is True,
            tuple(map(str, methods)) if isinstance(methods, list) else (),
        )
        return _Known(metadata, self._key_set(self._asked_for("GET", found["jwks_uri"])), moment)

    def _address(self, said: Mapping[str, Any], name: str) -> str:
        url = said.get(name)
        if isinstance(url, str) and is_safe(url):
            return url
        raise _away(self.settings, f"its {name} is no URL of HTTPS: {url!r}")

    def _key_set(self, said: Mapping[str, Any]) -> tuple[Key, ...]:
        listed = said.get("keys")
        wanted = [
            one
            for one in (listed if isinstance(listed, list) else [])
            if isinstance(one, dict) and one.get("kty") in KINDS and one.get("use", "sig") == "sig"
        ]
        found: list[Key] = []
        for one in wanted:
            try:
                found += KeySet.import_key_set({"keys": [{name: one[name] for name in one if name not in PRIVATE}]})
            except (JoseError, ValueError, TypeError, KeyError):  # a curve, say, that nobody here knows: others may do
                log.get().warning("oidc_key_not_read", kid=str(one.get("kid"))[:80])
        return tuple(found)

    def _asked_for(
        self, method: str, url: str, sent: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Return the JSON object of an answer. Raises ProviderUnavailable for any other one; secrets are in no message."""
        ends = self._clock() + LONGEST_S
        try:
            with (
                httpx2.Client(verify=self.settings.trust(), timeout=WAIT_S, follow_redirects=False) as client,
                client.stream(
                    method, url, data=sent, headers={"Accept": "application/json", **(headers or {})}
                ) as answer,
            ):
                text = bytearray()
                for piece in answer.iter_bytes():
                    text += piece
                    if len(text) > LARGEST:
                        raise _away(self.settings, f"{url} answers with more than {LARGEST} bytes")
                    if self._clock() > ends:
                        raise _away(self.settings, f"{url} has not answered to its end within {LONGEST_S:.0f} s")
        except httpx2.HTTPError as error:
            raise _away(self.settings, f"{url}: {type(error).__name__}: {error}") from None
        try:
            found = json.loads(bytes(text))
        except ValueError:
            found = None
        if answer.status_code != 200:
            told = found.get("error") if isinstance(found, dict) else None
            if told == "invalid_grant":  # https://www.rfc-editor.org/rfc/rfc6749#section-5.2
                raise NotAllowed("this login does not count: the provider refuses its code", hint="log in again")
            raise _away(self.settings, f"{url} answers {answer.status_code}" + (f" ({str(told)[:80]})" if told else ""))
        if not isinstance(found, dict):
            raise _away(self.settings, f"{url} answers with no JSON object")
        return found


PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")  # nobody should publish it; nobody here needs it


def _named(keys: tuple[Key, ...], number: str | None) -> tuple[Key, ...]:
    return keys if number is None else tuple(one for one in keys if one.kid == number)


def _away(settings: Settings, what: str) -> ProviderUnavailable:
    return ProviderUnavailable(f"the OpenID provider {settings.file.issuer} cannot be used: {what}")
