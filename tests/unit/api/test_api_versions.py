"""Versions of job files over HTTP, and what is hidden in them, in this process. No server."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.config.toml_text import document_of
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from tests.unit.api.test_api_asking import bearer
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
PATH = "/api/v1/jobs/shop"
SECRET = "l1teral"


def literal(more: str = "", secret: str = SECRET) -> str:
    return text(more=more).replace("${PW}", secret, 1)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.add(ADMIN, literal(), "first")
    made.change(ADMIN, "shop", literal("[apply]\nmode = 'transaction'\n"), "second")
    return made


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as made:
        yield made


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
@pytest.mark.parametrize("path", ["/versions", "/versions/1", "/file", "/file?version=1", "/versions/2/diff"])
def test_a_password_in_a_file_is_told_to_administrators_alone(
    client: TestClient, manager: Manager, role: Role, path: str
) -> None:
    shown = client.get(PATH + path, headers=bearer(manager, role))
    assert shown.status_code == 200 and SECRET not in shown.text
    if "diff" not in path:
        assert "…" in shown.text and "${PW}" in shown.text
        assert SECRET in client.get(PATH + path, headers=bearer(manager, Role.ADMINISTRATOR)).text


def test_a_difference_tells_no_password_to_anybody(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    manager.change(ADMIN, "shop", literal("[apply]\nmode = 'transaction'\n", "an0ther"))
    found = client.get(f"{PATH}/versions/2/diff", headers=who).json()
    assert "+mode = 'transaction'" in found["difference"] and not found["has_other_secrets"]
    other = client.get(f"{PATH}/versions/3/diff", params={"against": 2}, headers=who).json()
    assert (other["difference"], other["has_other_secrets"]) == ("", True)
    assert found["effects"][-1] == {"key": "[apply] mode", "when": "next_start", "parts": ["load", "apply"]}
    assert SECRET not in str(found["effects"]) and [one["key"] for one in other["effects"]] == ["[source] url"]
    assert client.get(f"{PATH}/versions/9/diff", headers=who).status_code == 404
    assert client.get(f"{PATH}/versions/1/diff", headers=who).json()["difference"] == ""
    assert SECRET not in client.get("/api/v1/audit", headers=who).text


def test_an_earlier_version_comes_again_as_the_next_one(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    late = client.post(f"{PATH}/versions/1/restore", json={"version": 1}, headers=who)
    assert late.status_code == 409
    assert client.post(f"{PATH}/versions/1/restore", headers=bearer(manager, Role.OPERATOR)).status_code == 403
    assert client.post(f"{PATH}/versions/1/restore", headers=who).json()["version"] == 3
    newest, *_ = manager.jobs.versions("shop")
    assert (newest.text, newest.note) == (literal(), "version 1 again")


def test_a_file_with_a_hidden_password_is_refused(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    shown = client.get(f"{PATH}/file", headers=bearer(manager)).text
    refused = client.put(PATH, json={"text": shown}, headers=who)
    assert refused.status_code == 422 and "hidden" in refused.json()["detail"]
    kept = client.get(f"{PATH}/file", headers=who).text
    assert client.put(PATH, json={"text": kept}, headers=who).json()["version"] == 3


def test_a_job_comes_as_json_and_goes_as_a_file(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    job = tomllib.loads(text("web", "[apply]\nmode = 'transaction'\n")) | {"trace": None}
    made = client.post("/api/v1/jobs", json={"job": job}, headers=who)
    assert (made.status_code, made.json()["name"]) == (201, "web")
    kept = client.get("/api/v1/jobs/web/file", headers=who).text
    del job["trace"]
    assert tomllib.loads(kept) == job and "[[rules]]" in kept
    for wrong in ({}, {"text": kept, "job": job}):
        assert client.post("/api/v1/jobs", json=wrong, headers=who).status_code == 422


def test_values_of_json_come_back_from_the_text() -> None:
    value = {
        "name": 'a"b\n\\',
        "list": [1, "x", [True]],
        "empty": [],
        "section": {"inner": {"k.e y": 1.5}, "n": -1},
        "entries": [{"a": [{"b": "ü\u2028"}]}, {}],
    }
    assert tomllib.loads(document_of(value)) == value
    assert tomllib.loads(document_of({"a": None, "b": [None, 1], "c": {"d": None}})) == {"b": [1], "c": {}}


def test_a_check_says_every_problem_and_keeps_nothing(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    good = client.post("/api/v1/jobs/validate", json={"text": text("web")}, headers=who).json()
    assert (good["is_valid"], good["name"], good["problems"]) == (True, "web", [])
    bad = client.post("/api/v1/jobs/validate", json={"job": {"name": "x"}}, headers=who).json()
    assert {one["key"] for one in bad["problems"]} == {"[source]", "[target]", "[[rules]]"} and not bad["is_valid"]
    refused = client.post("/api/v1/jobs/validate", json={"text": text("web")}, headers=bearer(manager, Role.OPERATOR))
    assert refused.status_code == 403  # it tells which variables there are
    assert [job.name for job in manager.jobs.all()] == ["shop"]


def test_the_audit_is_for_administrators(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    first = client.get("/api/v1/audit", params={"limit": 1}, headers=who).json()
    assert [one["action"] for one in first["entries"]] == ["job_changed"]
    rest = client.get("/api/v1/audit", params={"before": first["next"], "job": "shop"}, headers=who).json()
    assert [one["action"] for one in rest["entries"]] == ["job_added"] and rest["next"] is None
    assert client.get("/api/v1/audit", headers=bearer(manager, Role.OPERATOR)).status_code == 403
    some = bearer(manager, Role.ADMINISTRATOR, ("web-*",))
    assert client.get("/api/v1/audit", headers=some).status_code == 403
    assert client.get("/api/v1/audit", params={"job": "shop"}, headers=some).status_code == 404
