"""Who may ask the API and the console for what, over HTTP, in this process. No server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch import console
from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
PASSWORD = "four words are long"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.add(ADMIN, text())
    return made


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    app = create_app(manager, [console.routes], console.static_files())
    with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as made:
        yield made


def bearer(manager: Manager, role: Role = Role.VIEWER, jobs: tuple[str, ...] = ("*",)) -> dict[str, str]:
    return {"Authorization": f"Bearer {manager.tokens.create(role, '', jobs, 'ann')}"}


def log_in(client: TestClient, manager: Manager, role: Role = Role.OPERATOR) -> str:
    """Log a user in; returns the word that its forms send back."""
    manager.accounts.create("bob", PASSWORD, role, ("*",))
    answer = client.post("/login", data={"name": "bob", "password": PASSWORD, "next": "/"})
    assert answer.status_code == 303
    found = manager.sessions.find(client.cookies["anabranch_session"])
    assert found is not None
    return found.csrf


def test_health_needs_nobody_and_everything_else_asks_who_you_are(client: TestClient) -> None:
    assert client.get("/healthz").text == "ok\n"
    document = client.get("/api/v1/openapi.json").json()
    asked = 0
    for path, methods in document["paths"].items():
        for method in methods:
            if path != "/healthz":
                answer = client.request(method, path.replace("{name}", "shop"), json={})
                assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json"), path
                assert answer.headers["www-authenticate"].startswith("Bearer")
                asked += 1
    assert asked > 8


@pytest.mark.parametrize("body", [b"{no json", b'{"text": 1}', b"[]", b""])
def test_a_body_is_looked_at_for_who_may_ask_alone(client: TestClient, manager: Manager, body: bytes) -> None:
    sent = {"content": body, "headers": {"Content-Type": "application/json"}}
    for path in ("/api/v1/jobs", "/api/v1/users", "/api/v1/jobs/shop/operations", "/api/v1/tokens"):
        assert client.post(path, **sent).status_code == 401, path
        stranger = {**sent, "headers": {**sent["headers"], "Authorization": "Bearer abt_none"}}
        assert client.post(path, **stranger).status_code == 401, path
    known = {**sent, "headers": {**sent["headers"], **bearer(manager, Role.ADMINISTRATOR)}}
    assert client.post("/api/v1/jobs", **known).status_code == 422


def test_health_says_so_where_a_thread_is_no_more_or_the_state_cannot_be_read(
    client: TestClient, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Thread(target=lambda: None)
    over.start()
    over.join()
    with monkeypatch.context() as patched:
        patched.setattr(manager.supervision, "_thread", over)
        answer = client.get("/healthz")
        assert (answer.status_code, answer.text) == (503, "failed\n")
    assert client.get("/healthz").status_code == 200
    manager.store.close()
    assert client.get("/healthz").status_code == 503


@pytest.mark.parametrize("path", ["/", "/jobs/shop", "/jobs/none", "/password"])
def test_a_page_leads_to_login_and_back(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={path}")


@pytest.mark.parametrize("next", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_a_login_leads_to_pages_of_ours_alone(client: TestClient, manager: Manager, next: str) -> None:
    manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    answer = client.post("/login", data={"name": "bob", "password": PASSWORD, "next": next})
    assert answer.headers["location"] == "/"


def test_a_job_comes_runs_and_goes_by_rest(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    made = client.post("/api/v1/jobs", json={"text": text("web")}, headers=who)
    assert (made.status_code, made.json()["name"], made.json()["state"]) == (201, "web", "stopped")
    assert client.post("/api/v1/jobs/web/start", headers=who).json()["is_wanted"]
    assert client.post("/api/v1/jobs/web/stop", headers=who).json()["state"] == "stopped"
    first = client.get("/api/v1/jobs", params={"limit": 1}, headers=who).json()
    rest = client.get("/api/v1/jobs", params={"after": first["next"]}, headers=who).json()
    assert [one["name"] for one in first["jobs"] + rest["jobs"]] == ["shop", "web"] and rest["next"] is None
    assert client.delete("/api/v1/jobs/web", headers=who).status_code == 204
    assert client.get("/api/v1/jobs/web", headers=who).status_code == 404


def test_a_wrong_file_is_told_with_all_its_problems(client: TestClient, manager: Manager) -> None:
    answer = client.post("/api/v1/jobs", json={"text": "name = 'x'\n"}, headers=bearer(manager, Role.ADMINISTRATOR))
    found = answer.json()
    assert (answer.status_code, found["code"]) == (422, "configuration")
    assert {one["key"] for one in found["problems"]} == {"[source]", "[target]", "[[rules]]"}


def test_roles_and_jobs_of_others(client: TestClient, manager: Manager) -> None:
    viewer, other = bearer(manager), bearer(manager, Role.ADMINISTRATOR, ("web-*",))
    assert client.get("/api/v1/jobs/shop", headers=viewer).status_code == 200
    assert client.post("/api/v1/jobs/shop/start", headers=viewer).json()["code"] == "not_allowed"
    assert client.get("/api/v1/jobs/shop", headers=other).status_code == 404
    assert client.post("/api/v1/jobs/shop/start", headers=other).status_code == 404
    assert client.get("/api/v1/jobs", headers=other).json()["jobs"] == []


def test_a_form_of_another_session_does_nothing(client: TestClient, manager: Manager) -> None:
    word = log_in(client, manager)
    for wrong in ({}, {"csrf": "x"}):
        assert client.post("/jobs/shop/start", data=wrong).status_code == 403
    assert client.post("/api/v1/jobs/shop/start").status_code == 401
    assert not manager.jobs.job("shop").is_wanted
    assert client.post("/jobs/shop/start", data={"csrf": word}).status_code == 303
    assert manager.jobs.job("shop").is_wanted


def test_the_cookie_is_not_for_scripts_and_a_login_makes_a_new_one(client: TestClient, manager: Manager) -> None:
    client.cookies.set("anabranch_session", "given-by-somebody")
    manager.accounts.create("bob", PASSWORD, Role.VIEWER, ("*",))
    answer = client.post("/login", data={"name": "bob", "password": PASSWORD})
    said = answer.headers["set-cookie"]
    assert "HttpOnly" in said and "SameSite=strict" in said and "given-by-somebody" not in said


def test_a_one_time_password_opens_no_page_but_the_one_to_change_it(client: TestClient, manager: Manager) -> None:
    password = manager.accounts.make_first() or ""
    client.post("/login", data={"name": "admin", "password": password})
    assert client.get("/").headers["location"] == "/password"
    assert client.get("/api/v1/jobs").status_code == 401
    word = client.get("/password").text.partition('name="csrf" value="')[2].partition('"')[0]
    sent = {"csrf": word, "present": password, "wanted": PASSWORD}
    assert client.post("/password", data=sent).headers["location"] == "/login"
    assert client.post("/login", data={"name": "admin", "password": PASSWORD}).status_code == 303
    assert "shop" in client.get("/").text


def test_pages_let_no_script_and_no_host_of_others_in(client: TestClient) -> None:
    headers = client.get("/login").headers
    assert (
        "default-src 'none'" in headers["content-security-policy"]
        and "unsafe" not in headers["content-security-policy"]
    )
    assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"


def test_names_and_texts_are_text_on_the_page(client: TestClient, manager: Manager) -> None:
    manager.change(ADMIN, "shop", text(more="# <script>alert(1)</script>\n"))
    log_in(client, manager)
    shown = client.get("/jobs/shop").text
    assert "<script>" not in shown and "&lt;script&gt;" in shown
