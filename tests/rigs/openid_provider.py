"""An OpenID provider of a test: it does all that a login needs, checks what a provider has to check, and can be made to lie.

It knows one client and lets one person in without asking. What a provider of somebody else does is shown with one of PyPI, in
tests/scenarios/test_scenario_sign_on.py. https://openid.net/specs/openid-connect-core-1_0.html
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "manager", "s:e/c ret"
Signer = Callable[[dict[str, Any], dict[str, Any]], str]


@dataclass
class OpenidProvider:
    """Let `person` in. `discovery`: what differs in its document; `changed`: what differs in the ID token's claims, None for a
    claim that is not there; `sign`: makes a token of a head and claims, by default as it should; `answer`: what differs in the
    answer to a browser; `is_away`: whether it answers 503; `answers`: it hangs while that is not set; `asked`: paths, in
    order."""

    port: int = 0
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "17", "preferred_username": "ann", "groups": ["dba"]}
    )
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}))
    discovery: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)
    sign: Signer | None = None
    answer: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    answers: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rotate(self, name: str) -> None:
        """Sign with another key, and publish no other one, from now on."""
        self.key = RSAKey.generate_key(2048, {"kid": name, "use": "sig"})

    def signed(self, claims: Mapping[str, Any], **head: Any) -> str:
        """Return a token as the provider signs it; claims of None are left out."""
        header = {"alg": "RS256", "kid": self.key.kid, **head}
        whole = {name: value for name, value in claims.items() if value is not None}
        return self.sign(header, whole) if self.sign else jwt.encode(header, whole, self.key, ["RS256"])

    def claims(self, **more: Any) -> dict[str, Any]:
        """Return claims about the person, for the client, valid for five minutes."""
        moment = int(time.time())
        return {"iss": self.issuer, "aud": CLIENT, "iat": moment, "exp": moment + 300, **self.person, **more}

    def document(self) -> dict[str, Any]:
        made = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/leave",
        }
        return made | self.discovery

    def authorized(self, query: Mapping[str, str]) -> str:
        """Return where the browser goes next."""
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT), query
        assert query["code_challenge_method"] == "S256" and "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = dict(query)
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **self.answer})}"

    def tokens(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        pair = base64.b64decode(authorization.partition(" ")[2]).decode().split(":")
        if [unquote(one) for one in pair] != [CLIENT, SECRET]:
            return 401, {"error": "invalid_client"}
        begun = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if begun is None or (begun["code_challenge"], begun["redirect_uri"]) != (challenge, form.get("redirect_uri")):
            return 400, {"error": "invalid_grant"}
        token = self.signed(self.claims(nonce=begun["nonce"]) | self.changed)
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}


@contextmanager
def openid_provider() -> Iterator[OpenidProvider]:
    """Run one at a free port of this machine."""
    made = OpenidProvider()
    made.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            made.asked.append(parts.path)
            made.answers.wait()
            if made.is_away:
                self._say(503, {})
            elif parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", made.authorized(query))
                self.end_headers()
            elif parts.path == "/keys":
                self._say(200, {"keys": [made.key.as_dict(private=False)]})
            else:
                self._say(200, made.document())

        def do_POST(self) -> None:
            made.asked.append(self.path)
            made.answers.wait()
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            self._say(*made.tokens(form, self.headers.get("Authorization", "")))

        def _say(self, code: int, said: Any) -> None:
            body = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
