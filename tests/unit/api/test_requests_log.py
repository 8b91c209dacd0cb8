"""A line for each request says who asked for which route, and nothing that was sent. No server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient

from anabranch import console, log
from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.api.test_api_asking import ADMIN, bearer, log_in
from tests.unit.manager.test_manager_store import text


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TestClient, Manager]]:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    manager = Manager(tmp_path)
    manager.add(ADMIN, text())
    with TestClient(create_app(manager, [console.routes]), base_url="http://127.0.0.1", follow_redirects=False) as made:
        yield made, manager
    structlog.reset_defaults()  # a line of the log elsewhere is none of this test


def test_a_line_says_who_asked_for_which_route(client: tuple[TestClient, Manager]) -> None:
    asked, manager = client
    who = bearer(manager, Role.VIEWER)
    log.configure("info", json=True)
    lines: list[dict[str, Any]] = []
    with log.tapped(lambda _, event, facts: lines.append(dict(facts)) if event == "request" else None):
        asked.get("/api/v1/jobs/shop?secret=1", headers=who)
        asked.get("/api/v1/jobs/shop")
        asked.get("/no/such/secret")
        asked.get("/healthz")
        log_in(asked, manager)
        asked.get("/")
    shown = [(one["who"] is not None, one["method"], one["route"], one["code"]) for one in lines]
    assert shown == [
        (True, "GET", "/api/v1/jobs/{name}", 200),
        (False, "GET", "/api/v1/jobs/{name}", 401),
        (False, "GET", "/{path:path}", 404),
        (False, "POST", "/login", 303),
        (True, "GET", "/", 200),
    ]
    assert "secret" not in str(lines) and lines[-1]["who"] == "bob" and all(one["ms"] >= 0 for one in lines)
