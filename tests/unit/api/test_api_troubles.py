"""See what the manager answers where something does not work: its store, an end, or the manager itself. No server."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog
from fastapi.testclient import TestClient

from anabranch import log
from anabranch.api import create_app
from anabranch.errors import StateError
from anabranch.job import Job
from anabranch.manager import Manager
from anabranch.manager.asked import MOST_OF_JOB
from anabranch.testing.in_time import until
from tests.unit.api.test_api_asking import bearer, client, log_in, manager

__all__ = ["client", "manager"]
HTML = {"Accept": "text/html"}
DISK = "database or disk is full"


def test_sixty_who_ask_a_dead_end_stop_nobody_else(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    back = threading.Event()

    def never(_: Job) -> dict[str, object]:
        assert back.wait(60)
        return {"state": "streaming"}

    monkeypatch.setattr(Job, "status", never)
    monkeypatch.setattr(manager.glances, "hear", lambda *_: None)
    who, app = bearer(manager), create_app(manager)
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(60) as threads:
        try:
            found = [threads.submit(client.get, "/api/v1/jobs/shop/status", headers=who) for _ in range(60)]
            until(lambda: sum(one.done() for one in found) == 60 - MOST_OF_JOB, "all but a few are answered")
            assert client.get("/healthz").text == "ok\n" and client.get("/api/v1/jobs", headers=who).status_code == 200
            refused = [one.result() for one in found if one.done()]
            assert {(one.status_code, one.json()["code"]) for one in refused} == {(503, "too_busy")}
            assert all(one.headers["retry-after"] for one in refused)
        finally:
            back.set()
        assert sum(one.result(60).status_code == 200 for one in found) == MOST_OF_JOB


@pytest.mark.parametrize("error", [sqlite3.OperationalError(DISK), StateError(DISK)])
def test_a_store_that_does_not_work_is_a_503(
    client: TestClient, manager: Manager, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    who = bearer(manager)
    log_in(client, manager)

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(manager.jobs, "all", fails)
    answer = client.get("/api/v1/jobs", headers=who)
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "state", "5")
    assert DISK in answer.json()["detail"]
    page = client.get("/", headers=HTML)
    assert (page.status_code, page.headers["retry-after"]) == (503, "5") and "does not work now" in page.text
    monkeypatch.setattr(manager.sessions, "find", fails)
    assert client.get("/", headers=HTML).status_code == 503, "where nobody can be known, too"


@pytest.fixture(params=[True, False], ids=["json", "text"])
def logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this process log as a manager does."""
    log.configure("info", json=request.param)
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("logged")
def test_what_nobody_has_foreseen_is_a_problem_and_logged_without_the_request(
    client: TestClient, manager: Manager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    who = bearer(manager)
    log_in(client, manager)
    capsys.readouterr()

    def fails(*_: object) -> None:
        raise KeyError("S3cret")

    monkeypatch.setattr(manager.jobs, "all", fails)
    answer = client.get("/api/v1/jobs?after=S3cret", headers=who)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "unexpected" and "S3cret" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY" and answer.headers["cache-control"] == "no-store"
    page = client.get("/", headers=HTML)
    assert page.status_code == 500 and "This went wrong" in page.text and "S3cret" not in page.text
    counted = client.app.state.requests.answered()  # type: ignore[attr-defined]  # the state of an application is what it is given
    assert counted["GET", "/api/v1/jobs", 500] == 1 and counted["GET", "/", 500] == 1
    said = capsys.readouterr().err
    assert said.count("request_failed") == 2 and "test_api_troubles.py" in said and "KeyError" in said
    secrets = ("S3cret", who["Authorization"].removeprefix("Bearer "), client.cookies["anabranch_session"])
    assert [one for one in secrets if one in said] == []


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "1970-01-01T00:00:00Z"])
@pytest.mark.parametrize("which", ["from", "to"])
def test_times_that_no_clock_says_are_refused(client: TestClient, manager: Manager, at: str, which: str) -> None:
    answer = client.get("/api/v1/jobs/shop/statistics", params={which: at}, headers=bearer(manager))
    assert (answer.status_code, answer.json()["code"]) == (422, "configuration")
    far = {"from": "1971-01-01T00:00:00+14:00", "to": "9998-12-31T23:59:59-12:00"}
    assert client.get("/api/v1/jobs/shop/statistics", params=far, headers=bearer(manager)).status_code == 200
