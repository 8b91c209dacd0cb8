"""Judges what a provider has signed: ID tokens of a login, and tokens that programs bring.

The algorithm is one of a list, never the token's choice alone, and the key one of the provider's with a public half. What does
not live here: keys (`provider.py`), roles (`rights.py`). https://www.rfc-editor.org/rfc/rfc8725
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from anabranch.errors import NotAllowed
from anabranch.manager.oidc.provider import Provider

ALGORITHMS = {  # by the kind of key
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA", "Ed25519"),
}
LEEWAY_S = 60  # by which two clocks may differ
LARGEST = 32_768  # characters
LONGEST_HEAD = 2_000
ID_KINDS = (None, "jwt")
API_KINDS = (None, "jwt", "at+jwt", "application/at+jwt")  # https://www.rfc-editor.org/rfc/rfc9068


def id_token(provider: Provider, text: Any, nonce: str, clock: Callable[[], float]) -> Mapping[str, Any]:
    """Return the claims of the ID token of a login. Raises NotAllowed for one that is not for it, ProviderUnavailable."""
    client = provider.settings.file.client_id
    claims = _claims(provider, text, ID_KINDS, client, clock, {"nonce": {"essential": True, "value": nonce}})
    others = claims["aud"] != client and claims["aud"] != [client]
    if claims.get("azp", None if others else client) != client:  # signed for somebody else, who passes it on
        raise _refused("it was given to another client")
    return claims


def api_token(provider: Provider, text: str, clock: Callable[[], float]) -> Mapping[str, Any]:
    """Return the claims of a token that a program brings. Raises NotAllowed, ProviderUnavailable."""
    audience = provider.settings.file.api_audience
    if audience is None:
        raise _refused("REST takes no tokens of the provider: its file has no api_audience")
    return _claims(provider, text, API_KINDS, audience, clock, {})


def _claims(
    provider: Provider,
    text: Any,
    kinds: tuple[str | None, ...],
    audience: str,
    clock: Callable[[], float],
    more: Mapping[str, Any],
) -> Mapping[str, Any]:
    header = _header(text)
    kind = header.get("typ")
    if (kind.lower() if isinstance(kind, str) else kind) not in kinds:
        raise _refused(f"it is of another kind: {kind!r:.40}")
    algorithm, number = header.get("alg"), header.get("kid")
    fitting = [kind for kind, names in ALGORITHMS.items() if algorithm in names]
    if not fitting:
        raise _refused(f"it is signed by {algorithm!r:.40}")
    if number is not None and not isinstance(number, str):
        raise _refused("its key has no name")
    candidates = [one for one in provider.keys(number) if one.key_type in fitting]
    claims = _opened(text, candidates, str(algorithm))
    registry = jwt.JWTClaimsRegistry(
        lambda: int(clock()),
        LEEWAY_S,
        iss={"essential": True, "value": provider.settings.file.issuer},
        aud={"essential": True, "value": audience},
        sub={"essential": True},
        exp={"essential": True},
        **more,
    )
    try:
        registry.validate(dict(claims))
    except (JoseError, ValueError, TypeError) as error:
        raise _refused(str(error)) from None
    if not isinstance(claims["sub"], str) or "events" in claims:  # a logout token says what has happened
        raise _refused("it is no token about a person")
    return claims


def _opened(text: str, keys: list[Key], algorithm: str) -> Mapping[str, Any]:
    for key in keys:
        try:
            return jwt.decode(text, key, [algorithm]).claims
        except (JoseError, ValueError, TypeError):  # the next key, where the token names none
            continue
    raise _refused("no key of the provider has signed it")


def _header(text: Any) -> Mapping[str, Any]:
    """Return the head of a token, which nobody has vouched for yet."""
    if not isinstance(text, str) or len(text) > LARGEST or text.count(".") != 2 or not text.isascii():
        raise _refused("it is no signed token")
    head = text.partition(".")[0]
    if len(head) > LONGEST_HEAD:
        raise _refused(f"its head is longer than {LONGEST_HEAD} characters")
    try:
        found = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, RecursionError):  # RecursionError: of brackets in brackets
        found = None
    if not isinstance(found, dict) or "crit" in found:
        raise _refused("its head cannot be read")
    return found


def _refused(what: str) -> NotAllowed:
    return NotAllowed(f"the provider's token does not count: {what}", hint="log in again")
