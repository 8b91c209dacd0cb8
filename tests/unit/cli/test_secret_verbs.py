"""`anabranch secret`: values come from stdin, never as an argument, and are never printed. No server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from anabranch.cli.secret import secret
from anabranch.errors import ConfigError, UnknownName
from anabranch.manager import Manager
from anabranch.manager.secret_keys import FILE_VARIABLE, VARIABLE

VALUE = "S3cret@ of a shop"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return Manager(tmp_path)


def given(*words: str, stdin: str = "") -> str:
    """Return what `anabranch secret …` prints. Raises what it raises."""
    ended = CliRunner().invoke(secret, words, input=stdin, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_a_secret_comes_is_listed_gets_another_key_and_goes(manager: Manager) -> None:
    given("set", "SHOP_PW", "--jobs", "web-*, shop", stdin=f"{VALUE}\r\n")
    assert manager.secrets.find("SHOP_PW", "shop") == VALUE and manager.secrets.find("SHOP_PW", "other") is None
    assert given("ls").startswith("SHOP_PW") and VALUE not in given("ls") + given("ls", "--json")
    assert json.loads(given("ls", "--json"))[0]["jobs"] == ["web-*", "shop"]
    assert "1 secrets have another key" in given("rotate")
    manager.store.path.with_name("secret.key").unlink()
    assert "CANNOT BE READ" in given("ls")
    given("rm", "SHOP_PW")
    assert given("ls") == ""
    actions = [one.action for one in manager.audit.entries()]
    assert actions == ["secret_removed", "secrets_rotated", "secret_set"]


def test_what_is_wrong_is_refused(manager: Manager) -> None:
    with pytest.raises(ConfigError, match="text of 1 to"):
        given("set", "SHOP_PW", stdin="\n")
    with pytest.raises(UnknownName):
        given("rm", "SHOP_PW")
