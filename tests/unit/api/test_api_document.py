"""The OpenAPI document is what the manager answers: one program asks all of it, and another one is made of it.

A manager that serves in a thread; a stand-in for the commands, no database.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.testing.in_time import PATIENCE
from tests.unit.api.test_api_operations import manager
from tests.unit.manager.test_manager_store import text

__all__ = ["manager"]  # a fixture
# What the meaning of a value is nobody can say in a schema: a job file, the last administrator. 422 is told for that, too.
SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "503"]
"""
ENDLESS = "/events$"  # answers that go on: tests/unit/api/test_api_events.py
USES = """
import sys, time
from client import AuthenticatedClient
from client.api.jobs import add, job
from client.api.operations import ask, operation
from client.models import JobText, OperationAsked

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
made = add.sync(client=client, body=JobText(text=sys.stdin.read()), idempotency_key="made-once")
again = add.sync(client=client, body=JobText(text="x"), idempotency_key="made-once")
print(made.name, job.sync("web", client=client).state, again.code, job.sync("none", client=client).status)
asked = ask.sync("web", client=client, body=OperationAsked(verb="verify", arguments=["--json"]))
while (found := operation.sync("web", asked.id, client=client)).state in ("queued", "running"):
    time.sleep(0.05)
print(found.state, found.code)
"""


@pytest.fixture
def url(manager: Manager) -> Iterator[str]:
    """Return the address of a manager that serves in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(manager), log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)


def asked_all(url: str, manager: Manager, directory: Path, *options: str) -> None:
    """Let schemathesis ask, with all of its checks. https://schemathesis.readthedocs.io"""
    (directory / "schemathesis.toml").write_text(SETTINGS)
    token = manager.tokens.create(Role.ADMINISTRATOR, "all", ("*",), "ann")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json", "--no-color", "--warnings", "off"),
        *("-H", f"Authorization: Bearer {token}", "--exclude-path-regex", ENDLESS, "--continue-on-failure"),
        *("--checks", "all", "--seed", "1", "--wait-for-schema", "60", "--request-timeout", "60", *options),
    ]  # fmt: skip
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr


def test_nothing_that_the_document_lets_one_ask_is_answered_otherwise(
    url: str, manager: Manager, tmp_path: Path
) -> None:
    asked_all(url, manager, tmp_path, "--phases", "fuzzing", "--max-examples", "3")


@pytest.mark.long
def test_nor_is_it_where_it_is_asked_for_longer(url: str, manager: Manager, tmp_path: Path) -> None:
    asked_all(url, manager, tmp_path, "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "30")


def test_a_client_that_is_made_of_the_document_works(url: str, manager: Manager, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(create_app(manager).openapi()))
    make = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "client", "--config", "as.json"]
    (tmp_path / "as.json").write_text(json.dumps({"content_type_overrides": {"application/toml": "text/plain"}}))
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # it asks ruff to write it nicely
    environment = os.environ | {"PATH": places}
    made = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *make, "--fail-on-warning"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    (tmp_path / "uses.py").write_text(USES)
    token = manager.tokens.create(Role.ADMINISTRATOR, "made", ("*",), "ann")
    used = subprocess.run(
        [sys.executable, "uses.py", url, token],
        cwd=tmp_path,
        input=text("web"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.stdout.split() == ["web", "stopped", "configuration", "404", "done", "0"], used.stdout + used.stderr


def test_a_method_that_a_path_has_not_is_told_with_those_that_it_has(manager: Manager) -> None:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as client:
        for path, methods in (("", "GET, POST"), ("/validate", "POST"), ("/shop", "DELETE, GET, PUT")):
            answer = client.request("OPTIONS", f"/api/v1/jobs{path}")
            assert (answer.status_code, answer.headers["allow"]) == (405, methods)
            assert answer.json()["code"] == "method_not_allowed"
