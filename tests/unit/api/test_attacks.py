"""The seven usual attacks on a page like the manager's, over HTTP, in this process. No server.

Injection, broken access by id, CSRF, XSS by names and values, SSRF by the URLs of jobs, session fixation, brute force.
https://owasp.org/Top10/
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch import console
from anabranch.api import create_app
from anabranch.api.gate import LARGEST, Pace
from anabranch.manager import Manager, logins
from anabranch.manager.callers import Role
from tests.unit.api.test_api_asking import ADMIN, PASSWORD, bearer, log_in
from tests.unit.manager.test_manager_store import text

OURS = "http://127.0.0.1"
MARKUP = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.add(ADMIN, text())
    return made


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    app = create_app(manager, [console.routes], console.static_files(), ["manager.example"])
    with TestClient(app, base_url=OURS, follow_redirects=False) as made:
        yield made


# --- 1. injection ------------------------------------------------------------------------------------------------------

WORDS = ("' OR '1'='1", "shop'; DROP TABLE job; --", '"; DELETE FROM user; --', "*", "sh%", "../shop", "..%2f_manager")


@pytest.mark.parametrize("word", WORDS)
def test_names_are_values_and_no_part_of_a_query_or_path(client: TestClient, manager: Manager, word: str) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    for method in ("GET", "DELETE"):
        assert client.request(method, f"/api/v1/jobs/{word}", headers=who).status_code in (404, 405)
    assert client.get("/api/v1/jobs", params={"after": word}, headers=who).status_code == 200
    assert client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {word}"}).status_code == 401
    made = client.post("/api/v1/jobs", json={"text": text(word.replace('"', '\\"'))}, headers=who)
    assert made.status_code == 422
    assert client.post("/login", data={"name": word, "password": word}).status_code == 401
    assert [job.name for job in manager.jobs.all()] == ["shop"]


def test_files_beside_the_static_ones_are_not_served(client: TestClient) -> None:
    for path in ("/static/../pages.py", "/static/%2e%2e/pages.py", "/static/..%2fpages.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404, path


def test_no_line_of_a_header_is_made_of_what_somebody_sends(client: TestClient, manager: Manager) -> None:
    manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    answer = client.post("/login", data={"name": "bob", "password": PASSWORD, "next": "/x\r\nSet-Cookie: a=b"})
    assert answer.headers["location"].startswith("/") and "\n" not in answer.headers["location"]
    assert [one for one in answer.headers.get_list("set-cookie") if one.startswith("a=")] == []


# --- 2. broken access by id --------------------------------------------------------------------------------------------


def test_no_route_tells_of_a_job_of_others_whether_it_is_there(client: TestClient, manager: Manager) -> None:
    other = bearer(manager, Role.ADMINISTRATOR, ("web-*",))
    asked = 0
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method in methods if "/jobs/{name}" in path else ():
            answers = []
            for name in ("shop", "none"):
                url = path.replace("{name}", name).replace("{", "").replace("}", "")
                answer = client.request(method, url, json={"text": text(name)}, headers=other)
                answers.append((answer.status_code, answer.text.replace(name, "NAME")))
            assert answers[0] == answers[1], (method, path)
            # A promotion may make the job, for which one has to be an administrator of all: 403 for both.
            wanted = (403,) if path.endswith("/promotion") else (404, 422)
            assert answers[0][0] in wanted, (method, path)
            asked += 1
    assert asked >= 7 and manager.jobs.job("shop").version == 1


# --- 3. CSRF -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": OURS},
    ],
)
def test_a_page_of_another_site_can_send_nothing(client: TestClient, manager: Manager, headers: dict[str, str]) -> None:
    word = log_in(client, manager)
    for path, form in (
        ("/jobs/shop/start", {"csrf": word}),
        ("/login", {"name": "bob", "password": PASSWORD}),
        ("/logout", {"csrf": word}),
    ):
        answer = client.post(path, data=form, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_origin")
    assert not manager.jobs.job("shop").is_wanted
    own = {"Origin": OURS} if "Origin" in headers else {"Sec-Fetch-Site": "same-origin"}
    assert client.post("/jobs/shop/start", data={"csrf": word}, headers=own).status_code == 303


def test_the_word_of_one_session_is_none_of_another(client: TestClient, manager: Manager) -> None:
    log_in(client, manager)
    stolen = manager.sessions.find(manager.sessions.begin("bob"))
    assert stolen is not None
    for word in (stolen.csrf, "é", ""):
        assert client.post("/jobs/shop/start", data={"csrf": word}).status_code == 403
        assert client.post("/api/v1/jobs/shop/start", headers={"X-CSRF-Token": word.encode()}).status_code == 401


def test_what_only_reads_changes_nothing(client: TestClient, manager: Manager) -> None:
    log_in(client, manager)
    for path in ("/jobs/shop/start", "/jobs/shop/stop", "/logout"):
        client.get(path)  # a page that asks first, or none
    assert client.get("/").status_code == 200 and not manager.jobs.job("shop").is_wanted
    assert manager.audit.entries(limit=1)[0].action == "logged_in"


# --- 4. XSS by names and values ----------------------------------------------------------------------------------------


def test_markup_in_names_texts_and_notes_is_text(client: TestClient, manager: Manager) -> None:
    manager.change(ADMIN, "shop", text(more=f"# {MARKUP}\n"), MARKUP)
    log_in(client, manager)
    pages = [client.get("/jobs/shop"), client.get("/"), client.get("/login", params={"next": MARKUP})]
    pages.append(client.post("/login", data={"name": MARKUP, "password": MARKUP, "next": MARKUP}))
    pages.append(client.get(f"/jobs/{MARKUP}"))
    for answer in pages:
        is_page = answer.headers["content-type"].startswith("text/html")
        assert not is_page or ("<script>alert" not in answer.text and "<img" not in answer.text)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in answer.headers["content-security-policy"]


# --- 5. SSRF by the URLs of jobs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_INFO",
        "//evil.example",
    ],
)
def test_a_job_speaks_to_databases_alone(client: TestClient, manager: Manager, url: str) -> None:
    wrong = text("other").replace("mysql://u:${PW}@127.0.0.1:1", url)
    answer = client.post("/api/v1/jobs", json={"text": wrong}, headers=bearer(manager, Role.ADMINISTRATOR))
    assert (answer.status_code, answer.json()["code"]) == (422, "configuration")


def test_only_who_may_change_jobs_makes_the_manager_connect_anywhere(client: TestClient, manager: Manager) -> None:
    for role in (Role.VIEWER, Role.OPERATOR):
        answer = client.post("/api/v1/jobs", json={"text": text("other")}, headers=bearer(manager, role))
        assert answer.status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "manager.example.evil.example", "a@127.0.0.1", "", "localhost:x"]
)
def test_a_name_that_somebody_else_leads_to_us_gets_nothing(client: TestClient, host: str) -> None:
    """DNS rebinding: a page of evil.example whose address is then 127.0.0.1."""
    for path in ("/healthz", "/login", "/api/v1/openapi.json"):
        answer = client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost:8420", "127.0.0.1", "[::1]:8420", "192.0.2.1", "MANAGER.example.:1"])
def test_our_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).text == "ok\n"


# --- 6. session fixation -----------------------------------------------------------------------------------------------


def test_a_session_begins_at_the_login_and_ends_at_the_logout(client: TestClient, manager: Manager) -> None:
    client.cookies.set("anabranch_session", "given-by-somebody")
    assert client.get("/login").headers.get("set-cookie") is None
    client.cookies.clear()
    word = log_in(client, manager)
    first = client.cookies["anabranch_session"]
    assert first != "given-by-somebody" and manager.sessions.find("given-by-somebody") is None
    client.post("/login", data={"name": "bob", "password": PASSWORD})
    assert client.cookies["anabranch_session"] != first
    client.cookies.clear()
    client.cookies.set("anabranch_session", first)
    assert client.post("/logout", data={"csrf": word}).status_code == 303
    assert manager.sessions.find(first) is None


def test_a_cookie_of_an_https_page_is_for_https(manager: Manager) -> None:
    app = create_app(manager, [console.routes])
    with TestClient(app, base_url="https://localhost", follow_redirects=False) as client:
        manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
        answer = client.post("/login", data={"name": "bob", "password": PASSWORD})
        assert {"Secure", "HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
        assert "max-age" in answer.headers["strict-transport-security"]


# --- 7. brute force ----------------------------------------------------------------------------------------------------


def test_who_guesses_waits_and_learns_nothing(
    client: TestClient, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "FIRST_S", 300.0)  # a busy machine hashes for longer than a second
    manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    names = [("bob", "nobody")[number % 2] for number in range(logins.FREE)]
    answers = [client.post("/login", data={"name": name, "password": "a wrong one"}) for name in names]
    assert {answer.status_code for answer in answers} == {401} and len({answer.text for answer in answers}) == 1
    answer = client.post("/login", data={"name": "bob", "password": PASSWORD})
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1 and "wait" in answer.text
    assert manager.audit.entries(limit=1)[0].action == "login_refused"


def test_a_stolen_session_does_not_guess_the_password_either(
    client: TestClient, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "FIRST_S", 300.0)
    word = log_in(client, manager)
    sent = {"csrf": word, "present": "a wrong one", "wanted": "another of four words"}
    codes = [client.post("/password", data=sent).status_code for _ in range(logins.FREE + 1)]
    assert codes == [422] * logins.FREE + [429]


def test_a_body_that_is_too_large_is_not_read(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    assert client.post("/api/v1/jobs", content=b"x" * (LARGEST + 1), headers=who).status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(LARGEST // 100_000 + 1):
            yield b"x" * 100_000

    answer = client.post("/api/v1/jobs", content=pieces(), headers=who)
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


def test_an_address_has_so_many_requests_and_others_have_theirs(manager: Manager) -> None:
    moment = [0.0]
    pace = Pace(per_second=2, at_once=3, clock=lambda: moment[0])
    with TestClient(create_app(manager, pace=pace), base_url=OURS) as client:
        assert [client.get("/healthz").status_code for _ in range(4)] == [200, 200, 200, 429]
        answer = client.get("/healthz")
        assert (answer.json()["code"], answer.headers["retry-after"]) == ("too_often", "1")
        assert pace.wait("192.0.2.9") == 0
        moment[0] = 1.0
        assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 429]
