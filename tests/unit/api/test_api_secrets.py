"""Secrets over HTTP and on the page, in this process: a value goes in, and never out. No server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.api.test_api_asking import bearer
from tests.unit.manager.test_manager_secrets import VALUE, manager
from tests.unit.manager.test_manager_store import text

__all__ = ["manager"]  # a fixture
PATH = "/api/v1/secrets"


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as made:
        yield made


def test_a_secret_is_set_listed_in_pages_and_removed(client: TestClient, manager: Manager, tmp_path: Path) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    made = client.put(f"{PATH}/PW", json={"value": VALUE, "jobs": ["shop"]}, headers=who)
    assert made.status_code == 200 and made.json()["jobs"] == ["shop"] and made.json()["used_by"] == []
    assert client.post("/api/v1/jobs", json={"text": text()}, headers=who).status_code == 201
    assert client.get(f"{PATH}/PW", headers=who).json()["used_by"] == ["shop"]
    client.put(f"{PATH}/ZED", json={"value": VALUE}, headers=who)
    first = client.get(PATH, params={"limit": 1}, headers=who)
    rest = client.get(PATH, params={"after": first.json()["next"]}, headers=who)
    assert [one["name"] for one in first.json()["secrets"] + rest.json()["secrets"]] == ["PW", "ZED"]
    said = made.text + first.text + rest.text + client.get("/api/v1/audit", headers=who).text
    assert "value" not in first.json()["secrets"][0] and VALUE[:8] not in said
    assert client.delete(f"{PATH}/PW", headers=who).status_code == 204
    assert client.get(f"{PATH}/PW", headers=who).status_code == 404


def test_what_is_wrong_is_told_without_the_value(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    for name, body in (("PATH", {"value": VALUE}), ("A-B", {"value": VALUE}), ("PW", {"value": [VALUE]}), ("PW", {})):
        answer = client.put(f"{PATH}/{name}", json=body, headers=who)
        assert answer.status_code == 422 and VALUE[:8] not in answer.text, name
    for role, jobs in ((Role.OPERATOR, ("*",)), (Role.ADMINISTRATOR, ("shop",))):
        other = bearer(manager, role, jobs)
        assert client.get(PATH, headers=other).status_code == 403
        assert client.put(f"{PATH}/PW", json={"value": VALUE}, headers=other).status_code == 403
        assert client.delete(f"{PATH}/PW", headers=other).status_code == 403
