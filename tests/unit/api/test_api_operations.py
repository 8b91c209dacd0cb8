"""Operations over HTTP, in this process. A stand-in for the commands, no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.cli.main import cli
from anabranch.cli.offered import commands
from anabranch.manager import Manager, operations
from anabranch.manager.callers import Caller, Role
from tests.unit.api.test_api_asking import bearer
from tests.unit.manager.test_manager_operations import SAYS
from tests.unit.manager.test_manager_store import text
from tests.unit.manager.test_manager_supervision import wait_for

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
PATH = "/api/v1/jobs/shop/operations"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(operations, "COMMAND", (sys.executable, "-S", "-c", SAYS))
    made = Manager(tmp_path)
    made.operations.offer(commands(cli))
    made.add(ADMIN, text())
    made.operations.begin()
    yield made
    made.end()


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as made:
        yield made


def test_an_operation_is_asked_for_watched_and_read(client: TestClient, manager: Manager) -> None:
    who = bearer(manager)
    asked = client.post(PATH, json={"verb": "verify", "arguments": ["--tables", "shop.*"]}, headers=who)
    place = asked.headers["location"]
    assert (asked.status_code, place) == (202, f"{PATH}/{asked.json()['id']}")
    wait_for(lambda: client.get(place, headers=who).json()["state"] == "done")
    told = client.get(f"{place}/output", headers=who).json()
    assert told["text"].startswith("said verify --tables=shop.* -- ") and told["is_complete"]
    later = client.get(f"{place}/output", params={"offset": told["next"], "stream": "stdout"}, headers=who).json()
    assert (later["text"], later["is_complete"]) == ("", True)
    page = client.get(PATH, params={"limit": 1}, headers=who).json()
    assert [one["id"] for one in page["operations"]] == [asked.json()["id"]] and page["next"] is None
    assert client.delete(place, headers=who).json()["state"] == "done"


def test_what_may_not_be_asked_for_is_told(client: TestClient, manager: Manager) -> None:
    who = bearer(manager)
    refused = client.post(PATH, json={"verb": "load"}, headers=who)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert client.post(PATH, json={"verb": "metrics", "arguments": ["-o", "x"]}, headers=who).status_code == 422
    assert client.get(f"{PATH}/7", headers=who).status_code == 404
    assert client.post(f"{PATH}/7/cancel", headers=who).status_code == 404
    assert client.get(f"{PATH}/x", headers=who).status_code == 422
