"""An action and its entry in the audit are kept together, or neither is, whatever comes between. SQLite, no server, no HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.cli.main import cli
from anabranch.cli.offered import commands
from anabranch.failpoints import FailpointReached
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.manager.test_manager_store import ADMIN, text

PASSWORD = "four words are long"
ACTIONS: dict[str, Callable[[Manager], object]] = {
    "job_added": lambda m: m.add(ADMIN, text("new")),
    "job_added, once": lambda m: m.add_once(ADMIN, text("new"), "", "a key"),
    "job_changed": lambda m: m.change(ADMIN, "shop", text(more='exclude = ["shop.t"]\n')),
    "job_started": lambda m: m.start(ADMIN, "shop"),
    "job_stopped": lambda m: m.stop(ADMIN, "runs"),
    "job_restarted": lambda m: m.restart(ADMIN, "shop"),
    "job_removed": lambda m: m.remove(ADMIN, "gone"),
    "operation_asked": lambda m: m.operations.ask(ADMIN, "shop", "schema ls", []),
    "operation_cancelled": lambda m: m.operations.cancel(ADMIN, "shop", 1),
    "secret_set": lambda m: m.secrets.set(ADMIN, "PW", "other"),
    "secret_removed": lambda m: m.secrets.remove(ADMIN, "KNOWN"),
    "user_added": lambda m: m.people.add_user(ADMIN, "new", Role.VIEWER, ("*",)),
    "user_changed": lambda m: m.people.change_user(ADMIN, "eve", Role.OPERATOR, ("a-*",)),
    "password_set": lambda m: m.people.new_password(ADMIN, "eve"),
    "user_removed": lambda m: m.people.remove_user(ADMIN, "eve"),
    "token_created": lambda m: m.people.make_token(ADMIN, Role.VIEWER, "new", ("*",), None),
    "token_revoked": lambda m: m.people.revoke_token(ADMIN, m.tokens.all()[0].id),
}


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.operations.offer(commands(cli))
    for name in ("shop", "runs", "gone"):
        made.add(ADMIN, text(name))
    made.start(ADMIN, "runs")
    made.operations.ask(ADMIN, "shop", "schema ls", [])
    made.secrets.set(ADMIN, "KNOWN", "a value")
    made.accounts.create("eve", PASSWORD, Role.VIEWER, ("*",))
    made.tokens.create(Role.VIEWER, "old", ("*",), "ann", None)
    yield made
    failpoints.arm({})
    made.store.close()


def kept(manager: Manager) -> dict[str, list[dict[str, object]]]:
    """Return all rows of the store, and the files of jobs."""
    tables = [row["name"] for row in manager.store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {table: manager.store.rows(f'SELECT * FROM "{table}"') for table in tables}
    files = sorted((manager.home / "_manager" / "jobs").iterdir())
    assert files
    return rows | {"files": [{file.name: file.read_text()} for file in files]}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_without_its_entry_is_not_there(manager: Manager, action: str) -> None:
    before, entries = kept(manager), len(manager.audit.entries())
    failpoints.arm({failpoints.VARIABLE: "manager.audit=raise"})
    with pytest.raises(FailpointReached):
        ACTIONS[action](manager)
    assert kept(manager) == before
    failpoints.arm({})
    ACTIONS[action](manager)
    assert kept(manager) != before and len(manager.audit.entries()) == entries + 1
    assert manager.audit.entries()[0].action == action.partition(",")[0]
