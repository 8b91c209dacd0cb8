"""The command line against a manager, over a socket of this machine. A stand-in for the commands, no database."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from anabranch.api import create_app
from anabranch.cli import main as shell
from anabranch.cli import remote
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.api.test_api_operations import manager as manager  # the fixture
from tests.unit.manager.test_manager_supervision import wait_for


@pytest.fixture
def url(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a manager that serves in a thread; the token is in the environment."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(manager), log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    monkeypatch.setenv(remote.TOKEN, manager.tokens.create(Role.OPERATOR, "ci", ("*",), "ann"))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def test_output_and_exit_code_come_from_the_manager(
    url: str, manager: Manager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text(manager.tokens.create(Role.VIEWER, "", ("*",), "ann") + "\n")
    words = ["--server", url, "--token-file", str(token), "verify", "--tables", "a.*", "shop", "--json"]
    assert shell.exit_code(words) == 0
    told = capfd.readouterr()
    shown = [line for line in told.out.splitlines() if line.startswith("said")]  # the manager logs beside it
    assert shown == [f"said verify --tables=a.* --json -- {manager.jobs.file('shop')}"]
    assert told.err == "told\n"
    (tmp_path / "shop" / "code").write_text("4")
    assert shell.exit_code(["--server", url, "parked", "show", "shop", "a.t"]) == 4
    assert shell.exit_code(["--server", url, "trail", "ls", "shop"]) == 4
    assert capfd.readouterr().out.count("é") == 40000


def test_ctrl_c_cancels_the_operation(url: str, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    (manager.home / "shop").mkdir(exist_ok=True)
    (manager.home / "shop" / "hold").touch()
    pauses = 0

    def interrupted(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        path = manager.store.path.parent / "operations" / "1" / "stdout"
        wait_for(lambda: path.exists() and "said" in path.read_text())
        if pauses == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(remote, "pause", interrupted)
    assert shell.exit_code(["--server", url, "load", "shop"]) == shell.INTERRUPTED
    row = manager.store.row("SELECT state, cancelled_by FROM operation")
    assert row == {"state": "cancelled", "cancelled_by": "ci"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "gone"], "there is no job gone"),
        (["drop", "shop"], "this needs administrator"),
        (["metrics", "shop", "-o", "x"], "names a file"),
        (["run", "shop"], "does not carry out run"),
        (["demo"], "does not carry out demo"),
        (["status", "shop.toml"], "not a path"),
        (["status"], "not a path"),
    ],
)
def test_what_is_refused_is_told(url: str, capfd: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert shell.exit_code(["--server", url, *words]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("server", ["http://db.example:8420", "ftp://127.0.0.1", "127.0.0.1:8420", "http://"])
def test_the_token_goes_to_no_address_where_others_read_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], server: str
) -> None:
    monkeypatch.setenv(remote.TOKEN, "s3cret")
    monkeypatch.setattr(remote, "build_opener", lambda *_: pytest.fail("it was asked"))
    assert shell.exit_code(["--server", server, "status", "shop"]) == 2
    assert "s3cret" not in capfd.readouterr().err


def test_no_token_and_no_manager_are_told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(remote.TOKEN, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert shell.exit_code(["--server", f"http://127.0.0.1:{port}", "status", "shop"]) == 2
    assert "there is no token" in capfd.readouterr().err
    monkeypatch.setenv(remote.TOKEN, "x")
    assert shell.exit_code(["--server", f"http://127.0.0.1:{port}", "status", "shop"]) == 7
    assert "does not answer" in capfd.readouterr().err


def test_a_path_is_a_job_of_this_machine_where_the_environment_has_the_server(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
    assert shell.exit_code(["status", "/none/shop.toml"]) == 2
    assert "there is no job file /none/shop.toml" in capfd.readouterr().err
