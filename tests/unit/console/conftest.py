"""A manager with one job, and a browser that speaks to its console in this process. No server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from anabranch import console
from anabranch.api import create_app
from anabranch.api.asking import COOKIE
from anabranch.cli.main import cli
from anabranch.cli.offered import commands
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from tests.unit.console.markup import faults
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
PASSWORD = "four words are long"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.operations.offer(commands(cli))
    made.add(ADMIN, text())
    yield made
    made.store.close()


@dataclass
class Browser:
    """One person at the console. Each page that it gets is looked at for what a page has to be."""

    client: TestClient
    manager: Manager

    def log_in(self, role: Role = Role.OPERATOR, jobs: tuple[str, ...] = ("*",)) -> str:
        """Log in as somebody new; returns the word that forms send back."""
        name = f"{role}{len(self.manager.accounts.all())}"
        self.manager.accounts.create(name, PASSWORD, role, jobs)
        self.client.cookies.clear()
        secret = self.manager.sessions.begin(name)
        self.client.cookies.set(COOKIE, secret)
        found = self.manager.sessions.find(secret)
        assert found is not None
        return found.csrf

    def manager_caller(self) -> Caller:
        """Return who may see everything."""
        return ADMIN

    def page(self, path: str, code: int = 200) -> str:
        """Return a whole page."""
        return self._checked(self.client.get(path), code, is_whole=True)

    def part(self, path: str, code: int = 200) -> str:
        """Return a part of a page, as htmx asks for it."""
        return self._checked(self.client.get(path, headers={"HX-Request": "true"}), code, is_whole=False)

    def send(self, path: str, code: int = 303, **fields: str) -> str:
        """Send a form; returns where that leads to, or the page that it answers with."""
        answer = self.client.post(path, data=fields)
        if code == 303:
            assert answer.status_code == 303, answer.text
            return answer.headers["location"]
        return self._checked(answer, code, is_whole=True)

    def _checked(self, answer: Response, code: int, is_whole: bool) -> str:
        assert answer.status_code == code, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        assert faults(answer.text, is_whole) == []
        return answer.text


@pytest.fixture
def browser(manager: Manager) -> Iterator[Browser]:
    app = create_app(manager, [console.routes], console.static_files(), refused=console.refused_page)
    headers = {"Accept": "text/html,*/*;q=0.8"}
    with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False, headers=headers) as client:
        yield Browser(client, manager)
