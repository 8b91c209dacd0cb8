"""Log in by an OpenID provider over HTTP, as a browser does it, with the attacks that are usual there. No other server.

https://www.rfc-editor.org/rfc/rfc9700, https://www.rfc-editor.org/rfc/rfc8725
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from anabranch import console
from anabranch.api import create_app
from anabranch.api.asking import COOKIE
from anabranch.console.oidc_pages import BEGUN
from anabranch.manager import Manager, logins
from anabranch.manager.oidc import login
from anabranch.manager.oidc import provider as asking
from anabranch.manager.oidc.settings import CALLBACK, load_settings
from anabranch.testing.in_time import until
from rigs.openid_provider import CLIENT, SECRET, OpenidProvider, openid_provider
from tests.unit.console.conftest import PASSWORD, Role

RULES = """
[[roles]]
claim = "groups"
value = "dba"
role = "viewer"
[[roles]]
claim = "groups"
value = "dba"
role = "operator"
jobs = ["sh*"]
[[roles]]
claim = "realm.roles"
value = "boss"
role = "administrator"
[[roles]]
claim = "email"
value = "zoe@example.org"
role = "viewer"
"""


class _Here(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Go nowhere: a test looks at where it would lead."""


@dataclass
class Person:
    """A browser of somebody, with the manager and the provider that it goes to and fro between."""

    client: TestClient
    manager: Manager
    provider: OpenidProvider

    def begin(self, next: str = "/") -> str:
        """Press the button. Returns the address at the provider."""
        answer = self.client.get("/login/oidc", params={"next": next})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def sent_back(self, url: str) -> str:
        """Go to the provider. Returns the address to which it sends the browser back."""
        try:
            build_opener(_Here).open(url)
        except HTTPError as error:
            return str(error.headers["Location"])
        raise AssertionError("the provider did not send the browser back")

    def log_in(self, next: str = "/") -> Response:
        return self.client.get(self.sent_back(self.begin(next)))

    def is_in(self) -> bool:
        return self.client.get("/").status_code == 200

    def audited(self) -> list[str]:
        return [entry.action for entry in self.manager.audit.entries(100)]


@pytest.fixture
def person(manager: Manager, tmp_path: Path) -> Iterator[Person]:
    with openid_provider() as provider:
        secret, file = tmp_path / "client", tmp_path / "oidc.toml"
        secret.write_text(f"{SECRET}\n")
        secret.chmod(0o600)
        file.write_text(
            f'issuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\npublic_url = "http://127.0.0.1"\nname = "Example & Co"\n'
            f'client_secret_file = "{secret}"\nuser_claim = "preferred_username"\napi_audience = "api"\n{RULES}'
        )
        manager.sign_on_by(load_settings(file))
        app = create_app(manager, [console.routes], console.static_files(), refused=console.refused_page)
        headers = {"Accept": "text/html"}
        with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False, headers=headers) as client:
            yield Person(client, manager, provider)


# --- what should be ----------------------------------------------------------------------------------------------------


def test_somebody_logs_in_by_the_provider_with_roles_at_jobs_and_out_of_both(person: Person) -> None:
    assert "Log in with Example &amp; Co" in person.client.get("/login?next=/jobs/shop").text
    answer = person.log_in("/jobs/shop")
    assert answer.status_code == 200 and 'content="0;url=/jobs/shop"' in answer.text
    session = next(one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE))
    assert "HttpOnly" in session and "SameSite=strict" in session
    page = person.client.get("/jobs/shop").text
    assert "oidc:ann (viewer of *; operator of sh*)" in page and "Restart …" in page and "password</a>" not in page
    assert person.client.get("/users").status_code == 403
    word = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert person.client.post("/jobs/shop/stop", data={"csrf": word}).status_code == 303
    assert person.client.get("/password").status_code == 403
    entry = next(one for one in person.manager.audit.entries(10) if one.action == "job_stopped")
    assert (entry.who, entry.how) == ("oidc:ann", "oidc")
    answer = person.client.post("/logout", data={"csrf": word})
    assert f"{person.provider.issuer}/leave?client_id=manager&amp;post_logout" in answer.text
    assert not person.is_in() and {"logged_in", "logged_out"} <= set(person.audited())


def test_roles_follow_the_file_and_claims_while_somebody_is_logged_in(person: Person) -> None:
    person.provider.person["realm"] = {"roles": ["boss"]}
    person.log_in()
    assert person.client.get("/users").status_code == 200
    settings = person.manager.oidc and person.manager.oidc.settings
    assert settings is not None
    rules = [one for one in settings.file.roles if one.role != "administrator"]
    fewer = settings.file.model_copy(update={"roles": rules})
    person.manager.sign_on_by(type(settings)(fewer, settings.secret))
    assert person.client.get("/").status_code == 200 and person.client.get("/users").status_code == 403
    person.manager.sign_on_by(type(settings)(settings.file.model_copy(update={"roles": rules[2:]}), settings.secret))
    assert not person.is_in()


def test_users_with_passwords_get_in_while_the_provider_is_away(person: Person) -> None:
    person.provider.is_away = True
    answer = person.client.get("/login/oidc")
    assert answer.status_code == 503 and "Retry-After" in answer.headers and "answers 503" in answer.text
    person.manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    assert person.client.post("/login", data={"name": "bob", "password": PASSWORD}).status_code == 303
    page = person.client.get("/").text
    assert "bob (viewer), <a" in page


@pytest.mark.parametrize("place", ["addresses", "codes"])
def test_a_provider_that_hangs_holds_nobody_up_who_has_a_password(
    person: Person, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 600.0)
    person.manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    visits: list[tuple[str, dict[str, str]]] = [("/login/oidc", {})] * 60  # more than the manager has threads
    if place == "codes":
        visits = []
        for _ in range(60):
            back = person.sent_back(person.begin())
            visits.append((back, {"Cookie": f"{BEGUN}={person.client.cookies[BEGUN]}"}))
            person.client.cookies.clear()
    person.provider.answers.clear()
    before = len(person.provider.asked)
    with ThreadPoolExecutor(61) as threads:
        try:
            waiting = [threads.submit(person.client.get, url, headers=headers) for url, headers in visits]
            until(lambda: len(person.provider.asked) > before, "the provider is asked")
            made = {"name": "bob", "password": PASSWORD}
            answer = threads.submit(person.client.post, "/login", data=made).result(60)
            assert answer.status_code == 303 and not all(one.done() for one in waiting)
        finally:
            person.provider.answers.set()
    codes = {one.result().status_code for one in waiting}
    assert codes <= ({200} if place == "codes" else {303, 503})


def test_a_key_that_is_new_at_the_provider_counts_and_one_that_is_gone_does_not(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = person.provider.key
    person.log_in()
    assert person.is_in()
    person.client.cookies.clear()
    person.provider.rotate("second")
    assert person.log_in().status_code == 403, "keys are not asked for again and again"
    monkeypatch.setattr(asking, "ANEW_S", 0.0)
    assert person.log_in().status_code == 200 and person.is_in()
    person.client.cookies.clear()
    person.provider.sign = lambda head, claims: jwt.encode({**head, "kid": "first"}, claims, old, ["RS256"])
    assert person.log_in().status_code == 403 and not person.is_in()


# --- attacks on a login ------------------------------------------------------------------------------------------------


def _unsigned(head: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [json.dumps(one).encode() for one in ({**head, "alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts) + "."


def _by_another_key(head: dict[str, Any], claims: dict[str, Any]) -> str:
    return jwt.encode(head, claims, RSAKey.generate_key(2048), ["RS256"])


def _with_own_key(head: dict[str, Any], claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "jwk": key.as_dict(private=False)}, claims, key, ["RS256"])


CHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "nonce": ({"nonce": "of another login"}, "nonce"),
    "no nonce": ({"nonce": None}, "nonce"),
    "audience": ({"aud": "another-client"}, "aud"),
    "no audience": ({"aud": None}, "aud"),
    "passed on": ({"aud": [CLIENT, "other"], "azp": "other"}, "another client"),
    "several audiences": ({"aud": [CLIENT, "other"]}, "another client"),
    "issuer": ({"iss": "https://evil.example"}, "iss"),
    "over": ({"exp": 1_600_000_000}, "expired"),
    "without end": ({"exp": None}, "exp"),
    "end is text": ({"exp": "tomorrow"}, "exp"),
    "not yet": ({"nbf": 99_999_999_999}, "not yet valid"),
    "nobody": ({"sub": None}, "sub"),
    "logout token": ({"events": {}}, "no token about a person"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_token_that_is_not_for_this_login_lets_nobody_in(person: Person, name: str) -> None:
    person.provider.changed = CHANGED[name][0]
    answer = person.log_in()
    assert answer.status_code == 403 and not person.is_in(), answer.text
    assert any(word in answer.text for word in CHANGED[name][1].split("|")), answer.text
    assert person.audited()[0] == "login_refused"


@pytest.mark.parametrize("kind", ["none", "another key", "own key", "secret", "kind", "crit"])
def test_a_token_that_the_provider_has_not_signed_lets_nobody_in(person: Person, kind: str) -> None:
    public = person.provider.key.as_pem(private=False)
    person.provider.sign = {
        "none": _unsigned,
        "another key": _by_another_key,
        "own key": _with_own_key,
        "secret": lambda head, claims: jwt.encode(
            {**head, "alg": "HS256"}, claims, OctKey.import_key(SECRET.ljust(32)), ["HS256"]
        ),
        "kind": lambda head, claims: jwt.encode({**head, "typ": "logout+jwt"}, claims, person.provider.key, ["RS256"]),
        "crit": lambda head, claims: _unsigned({**head, "crit": ["x"]}, claims),
    }[kind]
    assert public.startswith(b"-----BEGIN")
    assert person.log_in().status_code == 403 and not person.is_in()


def test_a_public_key_is_no_secret_with_which_somebody_could_sign(person: Person) -> None:
    def signed(head: dict[str, Any], claims: dict[str, Any]) -> str:
        text = _unsigned({**head}, claims).replace(
            base64.urlsafe_b64encode(json.dumps({**head, "alg": "none"}).encode()).rstrip(b"=").decode(),
            base64.urlsafe_b64encode(json.dumps({**head, "alg": "HS256"}).encode()).rstrip(b"=").decode(),
        )
        body = text.rstrip(".")
        mac = hmac.new(person.provider.key.as_pem(private=False), body.encode(), hashlib.sha256).digest()
        return f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    person.provider.sign = signed
    answer = person.log_in()
    assert answer.status_code == 403 and "HS256" in answer.text


def test_an_answer_counts_once_and_for_the_browser_that_asked(person: Person) -> None:
    back = person.sent_back(person.begin())
    begun = person.client.cookies["anabranch_login"]
    assert person.client.get(back).status_code == 200
    person.client.cookies.clear()
    person.client.cookies.set("anabranch_login", begun, path=CALLBACK)
    answer = person.client.get(back)
    assert answer.status_code == 403 and "finished before" in answer.text and not person.is_in()
    stolen = person.sent_back(person.begin())  # of somebody who has another one open it
    person.client.cookies.clear()
    refused = len([one for one in person.audited() if one == "login_refused"])
    answer = person.client.get(stolen)
    assert answer.status_code == 403 and "has not begun it" in answer.text and not person.is_in()
    assert len([one for one in person.audited() if one == "login_refused"]) == refused, "nobody fills the audit"
    person.begin()
    assert person.client.get(stolen).status_code == 403, "the state is of another login"


def _brought_back(person: Person, cookie: str) -> int:
    """Bring a cookie back with a made-up answer, as anybody can. Returns the status."""
    person.client.cookies.clear()
    return person.client.get(f"{CALLBACK}?state=x&code=y", headers={"Cookie": f"{BEGUN}={cookie}"}).status_code


def test_nobody_fills_the_audit_with_logins_that_were_only_begun(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.begin()
    cookie = person.client.cookies[BEGUN]
    assert {_brought_back(person, cookie) for _ in range(9)} == {403}
    assert person.audited().count("login_refused") == 1, "once for each"
    monkeypatch.setattr(login, "LASTS_S", -1)
    person.begin()
    assert _brought_back(person, person.client.cookies[BEGUN]) == 403
    assert person.audited().count("login_refused") == 1, "nothing of what is over"
    monkeypatch.undo()
    monkeypatch.setattr(logins, "FIRST_S", 600.0)
    for _ in range(20):
        person.begin()
        last = _brought_back(person, person.client.cookies[BEGUN])
    assert last == 429 and person.audited().count("login_refused") == logins.FREE
    assert person.log_in().status_code == 429 and not person.is_in()


@pytest.mark.parametrize("answer", [{"state": "made up"}, {"iss": "https://evil.example"}, {"error": "access_denied"}])
def test_an_answer_that_somebody_changed_lets_nobody_in(person: Person, answer: dict[str, str]) -> None:
    person.provider.answer = answer
    assert person.log_in().status_code == 403 and not person.is_in()


def test_an_answer_with_a_parameter_twice_or_a_code_of_somebody_else_lets_nobody_in(person: Person) -> None:
    back = person.sent_back(person.begin())
    assert person.client.get(f"{back}&code=other").status_code == 403
    other = parse_qs(urlsplit(person.sent_back(person.begin())).query)["code"][0]
    back = person.sent_back(person.begin())
    mine = parse_qs(urlsplit(back).query)["code"][0]
    answer = person.client.get(back.replace(mine, other))
    assert answer.status_code == 403 and "refuses its code" in answer.text, "PKCE: it is of another verifier"
    assert not person.is_in()


def test_an_issuer_that_says_to_name_itself_has_to(person: Person) -> None:
    person.provider.discovery = {"authorization_response_iss_parameter_supported": True}
    assert person.log_in().status_code == 403
    person.provider.answer = {"iss": person.provider.issuer}
    assert person.log_in().status_code == 200


@pytest.mark.parametrize("next", ["//evil.example/", "https://evil.example/", "/\\evil.example", "/\t/evil.example"])
def test_a_login_leads_to_pages_of_ours_alone(person: Person, next: str) -> None:
    text = person.log_in(next).text
    target = text.partition('content="0;url=')[2].partition('"')[0]
    assert target in ("/", "/%09/evil.example"), target


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "https://u:p@evil.example/"},
        {"token_endpoint": None},
    ],
)
def test_a_document_that_names_other_places_is_not_followed(person: Person, document: dict[str, Any]) -> None:
    person.provider.discovery = document
    assert person.client.get("/login/oidc").status_code == 503
    assert set(person.provider.asked) <= {"/.well-known/openid-configuration"}


def test_whoever_has_no_role_or_no_name_is_not_let_in(person: Person) -> None:
    for claims in (
        {"sub": "1", "preferred_username": "ann", "groups": ["other"]},
        {"sub": "1", "preferred_username": "zoe", "email": "zoe@example.org"},
        {"sub": "1", "preferred_username": "zoe", "email": "zoe@example.org", "email_verified": "true"},
        {"sub": "1", "groups": ["dba"]},
        {"sub": "1", "preferred_username": "a\u202eb", "groups": "dba"},
    ):
        person.provider.person = claims
        assert person.log_in().status_code == 403 and not person.is_in(), claims
        with person.manager.store.writing() as connection:
            connection.execute("DELETE FROM attempt")  # somebody who waits in between
    person.provider.person = {**claims, "preferred_username": "b", "groups": "dba"}
    assert person.log_in().status_code == 200 and person.is_in()


def test_nothing_of_the_secret_or_the_token_is_kept_or_told(person: Person, tmp_path: Path) -> None:
    seen: list[str] = []
    sign = person.provider.signed
    person.provider.sign = lambda head, claims: seen.append(jwt.encode(head, claims, person.provider.key)) or seen[-1]
    assert sign and person.log_in().status_code == 200
    kept = b"".join(one.read_bytes() for one in (tmp_path / "_manager").rglob("manager.db*"))
    cookie = person.client.cookies[COOKIE]
    for secret in (SECRET, seen[0], seen[0].rpartition(".")[2], cookie):
        assert secret.encode() not in kept
    (tmp_path / "client").write_text("another")
    answer = person.log_in()
    assert answer.status_code == 503 and "invalid_client" in answer.text and "another" not in answer.text


# --- tokens at REST ----------------------------------------------------------------------------------------------------


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _asked(person: Person, token: str, path: str = "/api/v1/jobs") -> int:
    return person.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code


def test_rest_takes_tokens_of_the_provider_for_its_audience(person: Person) -> None:
    made = person.provider
    assert _asked(person, made.signed(made.claims(aud="api"), typ="at+jwt")) == 200
    assert _asked(person, made.signed(made.claims(aud=["other", "api"]))) == 200
    assert _asked(person, made.signed(made.claims(aud="api")), "/api/v1/users") == 403
    for wrong in (
        made.signed(made.claims()),  # an ID token of the console
        made.signed(made.claims(aud="api", exp=1_600_000_000)),
        made.signed(made.claims(aud="api", iss="https://evil.example")),
        made.signed(made.claims(aud="api", groups=[])),
        made.signed(made.claims(aud="api"), typ="logout+jwt"),
        made.signed(made.claims(aud="api"), kid="made up"),
        _unsigned({"alg": "none"}, made.claims(aud="api")),
        _by_another_key({"alg": "RS256", "kid": "first"}, made.claims(aud="api")),
        "a.b.c",
        "." * 40_000,
        _encoded("[" * 20_000) + ".b.c",
        _encoded("[" * 1_400) + ".b.c",
        made.signed(made.claims(aud="api"), jku="https://example.org/" + "x" * 2_000),
    ):
        assert _asked(person, wrong) == 401, wrong[:100]
    assert made.asked.count("/keys") == 1, "made-up keys have nobody asked"


def test_rest_says_so_while_keys_cannot_be_had_and_own_tokens_go_on(person: Person) -> None:
    person.provider.is_away = True
    made = person.provider
    assert _asked(person, made.signed(made.claims(aud="api"))) == 503
    assert _asked(person, person.manager.tokens.create(Role.VIEWER, "", ("*",), "ann")) == 200
