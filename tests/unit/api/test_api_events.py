"""Server-sent events over a socket of this machine: what changes, for whoever may see it. No database."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import uvicorn

from anabranch.api import create_app, events
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from anabranch.testing.in_time import PATIENCE, until
from tests.unit.api.test_api_asking import manager
from tests.unit.manager.test_manager_store import text

__all__ = ["manager"]  # a fixture
ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)


class Served:
    """A manager that serves in a thread."""

    def __init__(self, manager: Manager) -> None:
        self.manager, app = manager, create_app(manager)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=int(PATIENCE)))
        app.state.is_ending = lambda: self.server.should_exit
        self.app, self.thread = app, threading.Thread(target=self.server.run, args=([listener],), daemon=True)
        self.thread.start()

    def token(self, role: Role = Role.VIEWER, jobs: tuple[str, ...] = ("*",), name: str = "") -> str:
        return self.manager.tokens.create(role, name, jobs, "ann")

    @contextmanager
    def followed(self, token: str, path: str = "/events", last: str = "") -> Iterator[Iterator[dict[str, Any]]]:
        """Follow events; the first one is asked for already, so that the connection counts."""
        headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last} if last else {})
        with closing(urlopen(Request(self.url + path, headers=headers), timeout=PATIENCE)) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            yield _events(answer)

    def connections(self) -> int:
        found = getattr(self.app.state, "following", None)
        return found.of.total() if found else 0


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name in ("event", "id"):
            found[name] = value
        elif name == "data":
            found[name] = json.loads(value)
        elif not name and found:
            yield found
            found = {}
        elif not name or line.startswith(b":"):
            yield {"event": "comment"} if line.startswith(b":") else {"event": "none"}


def taken(follows: Iterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the next event of a kind."""
    return next(one for one in follows if one["event"] == kind)


@pytest.fixture
def served(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name in ("PAUSE_S", "CHECK_S", "BEAT_S"):
        monkeypatch.setattr(events, name, 0.05)
    monkeypatch.setattr("anabranch.manager.events.LOOK_S", 0.0)
    made = Served(manager)
    yield made
    made.server.should_exit = True
    made.thread.join(PATIENCE)
    assert not made.thread.is_alive()


def test_everything_comes_first_then_what_changes_and_a_cut_loses_nothing(served: Served) -> None:
    token = served.token()
    with served.followed(token) as follows:
        assert taken(follows, "reset")["data"] == {}
        first = taken(follows, "job")
        assert (first["data"]["name"], first["data"]["process"], first["data"]["is_wanted"]) == (
            "shop",
            "stopped",
            False,
        )
        assert taken(follows, "comment")
        served.manager.add(ADMIN, text("web"))
        seen = taken(follows, "job")
        assert seen["data"]["name"] == "web"
    served.manager.remove(ADMIN, "web")
    with served.followed(token, last=seen["id"]) as follows:
        assert next(one for one in follows if one["event"] not in ("none", "comment")) == {
            "event": "gone", "id": f"{served.manager.events.run}-3", "data": {"name": "web"},
        }  # fmt: skip
    with served.followed(token, last="another-run-1") as follows:
        assert taken(follows, "reset") and taken(follows, "job")["data"]["name"] == "shop"
    until(lambda: served.connections() == 0, "connections that were left are counted no more")


def test_each_sees_the_own_jobs_and_one_job_alone(served: Served) -> None:
    served.manager.add(ADMIN, text("web"))
    with (
        served.followed(served.token(jobs=("web",))) as own,
        served.followed(served.token(), "/jobs/web/events") as one,
    ):
        for follows in (own, one):
            assert taken(follows, "job")["data"]["name"] == "web"
        served.manager.remove(ADMIN, "web")
        assert [event["event"] for event in one if event["event"] not in ("none", "comment")] == ["gone"], "and it ends"
    for path, token, code in (
        ("/jobs/shop/events", served.token(jobs=("web",)), 404),
        ("/events", "anabranch_000000000000_" + "x" * 43, 401),
    ):
        with pytest.raises(HTTPError) as told, served.followed(token, path):
            pass
        assert told.value.code == code


def test_a_token_that_is_revoked_ends_it(served: Served) -> None:
    token = served.token()
    with served.followed(token) as follows:
        taken(follows, "job")
        served.manager.tokens.revoke(token.split("_")[1])
        assert all(one["event"] in ("comment", "none") for one in follows)


def test_more_than_there_is_room_for_are_told_to_come_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_OF_CALLER", 1)
    token = served.token(name="a")
    with served.followed(token) as follows:
        taken(follows, "job")
        with pytest.raises(HTTPError) as told, served.followed(token):
            pass
        assert (told.value.code, told.value.headers["retry-after"]) == (429, "5")
        with served.followed(served.token(name="b")) as other:
            taken(other, "job")


def test_the_end_of_the_server_ends_it_in_order(served: Served) -> None:
    with served.followed(served.token()) as follows:
        taken(follows, "job")
        served.server.should_exit = True
        assert all(one["event"] in ("comment", "none") for one in follows), "to the end, and no error"
        served.thread.join(PATIENCE)
        assert not served.thread.is_alive()


def test_an_operation_is_told_as_it_changes_without_its_arguments(served: Served, manager: Manager) -> None:
    from anabranch.cli.main import cli
    from anabranch.cli.offered import commands

    manager.operations.offer(commands(cli))
    with served.followed(served.token()) as follows:
        taken(follows, "job")
        asked = manager.operations.ask(ADMIN, "shop", "verify", ["--tables", "secret.*"])
        told = taken(follows, "operation")["data"]
        assert (told["id"], told["state"]) == (asked.id, "queued") and "secret" not in str(told)
        manager.operations.cancel(ADMIN, "shop", asked.id)
        assert taken(follows, "operation")["data"]["state"] == "cancelled"
