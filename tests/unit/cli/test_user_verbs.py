"""`anabranch user`: passwords come from stdin, never as an argument, and what was done stands in the audit. No server."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from anabranch.cli.user import user
from anabranch.errors import ConfigError, UnknownName
from anabranch.manager import Manager
from anabranch.manager.callers import Role

FIRST, SECOND = "four words are long", "other words are long"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.accounts.make_first()
    return made


def given(*words: str, stdin: str = "") -> str:
    """Return what `anabranch user …` prints. Raises what it raises."""
    ended = CliRunner().invoke(user, words, input=stdin, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_a_user_comes_changes_and_goes(manager: Manager) -> None:
    given("add", "ann", "--role", "operator", "--jobs", "web-*", stdin=f"{FIRST}\n")
    found = manager.accounts.checked("ann", FIRST)
    assert found is not None and (found.role, found.jobs, found.must_change) == (Role.OPERATOR, ("web-*",), True)
    assert "ann" in given("ls") and FIRST not in given("ls", "--json")
    secret = manager.sessions.begin("ann")
    given("passwd", "ann", stdin=f"{SECOND}\r\n")
    assert manager.sessions.find(secret) is None and manager.accounts.checked("ann", FIRST) is None
    assert manager.accounts.checked("ann", SECOND) is not None
    given("change", "ann", "--role", "viewer")
    assert manager.accounts.user("ann").role is Role.VIEWER
    given("rm", "ann")
    assert [one.name for one in manager.accounts.all()] == ["admin"]
    entries = manager.audit.entries()
    assert [one.action for one in entries] == ["user_removed", "user_changed", "password_set", "user_added"]
    assert not any(FIRST in str(one) or SECOND in str(one) for one in entries)


def test_what_is_wrong_is_refused_and_noted_nowhere(manager: Manager) -> None:
    for words, stdin in (
        (("add", "ann", "--role", "viewer"), "short\n"),
        (("add", "ann", "--role", "viewer"), ""),
        (("add", "a b", "--role", "viewer"), f"{FIRST}\n"),
        (("change", "admin", "--role", "viewer"), ""),
        (("rm", "admin"), ""),
    ):
        with pytest.raises(ConfigError):
            given(*words, stdin=stdin)
    for words in (("passwd", "nobody"), ("rm", "nobody"), ("change", "nobody", "--role", "viewer")):
        with pytest.raises(UnknownName):
            given(*words)
    assert list(manager.audit.entries()) == []
