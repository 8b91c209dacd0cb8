"""`anabranch promote` against a manager, over a socket of this machine: shown first, then kept. No database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.cli import main as shell
from anabranch.cli import remote
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from tests.unit.cli.test_remote import manager as manager  # the fixture
from tests.unit.cli.test_remote import url as url  # the fixture
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
ENDS = ("--end", "source=mysql://u:${PW}@127.0.0.1:2", "--end", "target=postgresql://u:${PW}@127.0.0.1:2/db")


@pytest.fixture
def at(url: str, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Return the beginning of a command line of an administrator; a job `tried` is there beside `shop`."""
    monkeypatch.setenv(remote.TOKEN, manager.tokens.create(Role.ADMINISTRATOR, "setup", ("*",), "ann"))
    manager.add(ADMIN, text("tried").replace("shop.*", "shop.item"))
    return ("--server", url, "promote")


def test_it_is_shown_first_and_kept_where_that_is_said(
    at: tuple[str, ...], manager: Manager, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shell.exit_code([*at, "tried", "--to", "shop"]) == 0
    told = capfd.readouterr()
    assert "shop.item" in told.out and "nothing was changed" in told.err and "--execute --of-version 1" in told.err
    assert "rule 1 include: holds once `anabranch plan JOB --execute` has taken it over" in told.err
    assert manager.jobs.job("shop").version == 1
    assert shell.exit_code([*at, "tried", "--to", "shop", "--of-version", "7", "--execute"]) == 2
    assert "is at version 1, not 7" in capfd.readouterr().err
    assert shell.exit_code([*at, "tried", "--to", "shop", "--note", "it held", "--execute"]) == 0
    assert "version 2" in capfd.readouterr().err
    assert manager.jobs.version("shop").note == "it held" and "shop.item" in manager.jobs.version("shop").text


def test_a_new_job_is_made_of_a_file_of_another_manager(
    at: tuple[str, ...], manager: Manager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "came.toml"
    file.write_text(text("came").replace("shop.*", "shop.item"))
    assert shell.exit_code([*at, str(file), "--to", "live", *ENDS, "--execute", "--json"]) == 0
    out = capfd.readouterr().out
    found = json.loads(out[out.index("{\n") : out.rindex("}") + 1])
    assert (found["name"], found["is_new"], found["version"]) == ("live", True, 1)
    assert "127.0.0.1:2" in manager.jobs.version("live").text and not manager.jobs.is_wanted("live")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tried", "--to", "live"), "ends of the new job"),
        (("tried", "--to", "shop", "--end", "source"), "not in full"),
        (("tried", "--to", "shop", "--secret", "PW=A", "--secret", "PW=B"), "told twice"),
        (("absent", "--to", "shop"), "absent"),
        (("a/b.toml", "--to", "shop"), "cannot be read"),
        (("a/b.toml", "--to", "shop", "--version", "2"), "--version is of a job"),
        (("tried", "--to", "shop", "--section", "source"), "its own"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    at: tuple[str, ...],
    manager: Manager,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    assert shell.exit_code([*at, *words, "--execute"]) == 2
    assert said in capfd.readouterr().err
    assert [(job.name, job.version) for job in manager.jobs.all()] == [("shop", 1), ("tried", 1)]


@pytest.mark.parametrize(
    "forgotten",
    [
        "postgresql://app:geheim@db/shop",
        "postgresql://app:geheim@db/shop?ssl_mode=required",
        "=postgresql://app:geheim@db/shop",
    ],
)
def test_a_password_that_is_given_wrongly_is_not_said_and_not_sent(
    at: tuple[str, ...], capfd: pytest.CaptureFixture[str], forgotten: str
) -> None:
    words = [*at, "tried", "--to", "live", *ENDS[:2], "--end", forgotten]
    assert shell.exit_code(words) == 2
    told = "".join(capfd.readouterr())
    assert "--end number 2" in told and "geheim" not in told


def test_without_a_manager_it_says_that_it_needs_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANABRANCH_SERVER", raising=False)
    assert shell.exit_code(["promote", "tried", "--to", "shop"]) == 2
    assert "--server" in capfd.readouterr().err
