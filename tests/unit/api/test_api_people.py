"""Users, tokens and repeated requests over HTTP, in this process. No server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.api.test_api_asking import bearer, manager
from tests.unit.manager.test_manager_store import text

__all__ = ["manager"]  # a fixture
API = "/api/v1"


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as made:
        yield made


def test_a_user_comes_changes_and_goes(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    client.post(f"{API}/users", json={"name": "zoe", "role": "administrator"}, headers=who)
    made = client.post(f"{API}/users", json={"name": "bob", "role": "viewer", "jobs": ["web-*", "shop"]}, headers=who)
    assert (made.status_code, made.json()["user"]["jobs"]) == (201, ["web-*", "shop"])
    found = manager.accounts.checked("bob", made.json()["password"])
    assert found is not None and found.must_change
    changed = client.put(f"{API}/users/bob", json={"role": "operator"}, headers=who)
    assert (changed.json()["role"], changed.json()["jobs"]) == ("operator", ["*"])
    other = client.post(f"{API}/users/bob/password", headers=who).json()["password"]
    assert manager.accounts.checked("bob", other) is not None
    first = client.get(f"{API}/users", params={"limit": 1}, headers=who).json()
    rest = client.get(f"{API}/users", params={"after": first["next"]}, headers=who).json()
    assert [one["name"] for one in first["users"] + rest["users"]] == ["bob", "zoe"] and rest["next"] is None
    assert "password" not in first["users"][0]
    assert client.delete(f"{API}/users/bob", headers=who).status_code == 204
    assert client.get(f"{API}/users/bob", headers=who).status_code == 404
    last = client.put(f"{API}/users/zoe", json={"role": "viewer"}, headers=who)
    assert last.status_code == 422 and "last administrator" in last.json()["detail"]
    told = client.get(f"{API}/audit", headers=who).text
    assert "user_changed" in told and other not in told and made.json()["password"] not in told


def test_users_come_and_go_where_no_user_is_an_administrator_of_all_jobs(client: TestClient, manager: Manager) -> None:
    """An administrator may be a token, or have come by a provider; only the last user who is one stays."""
    who = bearer(manager, Role.ADMINISTRATOR)
    for name, role, jobs in (("bob", "viewer", ["*"]), ("eve", "administrator", ["web-*"])):
        client.post(f"{API}/users", json={"name": name, "role": role, "jobs": jobs}, headers=who)
    assert client.put(f"{API}/users/bob", json={"role": "operator"}, headers=who).status_code == 200
    assert client.delete(f"{API}/users/eve", headers=who).status_code == 204
    assert client.put(f"{API}/users/bob", json={"role": "administrator"}, headers=who).status_code == 200
    assert (
        client.put(f"{API}/users/bob", json={"role": "administrator", "jobs": ["shop"]}, headers=who).status_code == 422
    )
    client.post(f"{API}/users", json={"name": "eve", "role": "viewer"}, headers=who)
    assert client.put(f"{API}/users/eve", json={"role": "operator"}, headers=who).status_code == 200, "one stays"
    assert client.delete(f"{API}/users/bob", headers=who).status_code == 422
    client.put(f"{API}/users/eve", json={"role": "administrator"}, headers=who)
    assert client.delete(f"{API}/users/bob", headers=who).status_code == 204


def test_a_token_is_made_counts_and_is_revoked(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    wanted = {"role": "viewer", "name": "ci", "jobs": ["shop"], "days": 7}
    made = client.post(f"{API}/tokens", json=wanted, headers=who).json()
    own = {"Authorization": f"Bearer {made['text']}"}
    assert made["token"]["expires"] and client.get(f"{API}/jobs/shop", headers=own).status_code == 200
    pages = [client.get(f"{API}/tokens", params={"limit": 1, "offset": at}, headers=who).json() for at in (0, 1)]
    assert [page["next"] for page in pages] == [1, None] and made["text"] not in str(pages)
    assert client.delete(f"{API}/tokens/{made['token']['id']}", headers=who).status_code == 204
    assert client.get(f"{API}/jobs/shop", headers=own).status_code == 401
    assert client.delete(f"{API}/tokens/{made['token']['id']}", headers=who).status_code == 404


@pytest.mark.parametrize("more", [{"jobs": []}, {"jobs": ["a b"]}, {"jobs": [""]}, {"role": "king"}, {"days": 0}])
def test_no_jobs_are_not_all_jobs(client: TestClient, manager: Manager, more: dict[str, object]) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    assert client.post(f"{API}/tokens", json={"role": "viewer"} | more, headers=who).status_code == 422
    if "days" not in more:
        body = {"name": "bob", "role": "viewer"} | more
        assert client.post(f"{API}/users", json=body, headers=who).status_code == 422


@pytest.mark.parametrize(("role", "jobs"), [(Role.OPERATOR, "*"), (Role.ADMINISTRATOR, "shop")])
def test_people_are_for_administrators_of_all_jobs(client: TestClient, manager: Manager, role: Role, jobs: str) -> None:
    who = bearer(manager, role, (jobs,))
    body = {"name": "bob", "role": "viewer"}
    for method, path, sent in (
        *(("GET", f"/{what}", None) for what in ("users", "users/admin", "tokens")),
        ("POST", "/users", body),
        ("PUT", "/users/admin", {"role": "viewer"}),
        ("POST", "/users/admin/password", None),
        ("DELETE", "/users/admin", None),
        ("POST", "/tokens", body),
        ("DELETE", "/tokens/0123456789ab", None),
    ):
        assert client.request(method, API + path, json=sent, headers=who).status_code == 403, (method, path)


def test_a_repeated_request_gets_the_first_answer(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR) | {"Idempotency-Key": "a-word"}
    sent = [client.post(f"{API}/jobs", json={"text": text("web"), "note": "n"}, headers=who) for _ in range(2)]
    assert [one.status_code for one in sent] == [201, 201] and sent[0].json() == sent[1].json()
    assert [one.headers.get("Idempotent-Replayed") for one in sent] == [None, "true"]
    other = client.post(f"{API}/jobs", json={"text": text("other")}, headers=who)
    assert (other.status_code, other.json()["code"]) == (422, "configuration")
    assert (
        client.post(f"{API}/jobs", json={"text": text("web")}, headers=who | {"Idempotency-Key": " "}).status_code
        == 422
    )
