"""A nursery forks only what would be the same as a program, and is not tried again and again where it cannot begin."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from anabranch.job import forking
from anabranch.job.forking import ForkServer
from anabranch.manager import Manager, nursery
from anabranch.manager.nursery import Nursery
from anabranch.manager.processes import JobProcess
from anabranch.testing.in_time import PATIENCE
from tests.unit.manager.test_manager_store import ADMIN, text


def forked(one: Nursery, environment: dict[str, str], place: Path) -> object:
    return one.start(["--version"], environment, place, place / "run.log")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules of servers that were started."""
    found: list[str] = []
    started = ForkServer.started

    def start(module: str, *arguments: str, environment: dict[str, str]) -> ForkServer:
        found.append(module)
        return started(module, *arguments, environment=environment)

    monkeypatch.setattr(ForkServer, "started", start)
    return found


def test_one_that_cannot_begin_is_tried_once(tmp_path: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "MODULE", "anabranch.no_such_module")
    one = Nursery(dict(os.environ))
    for _ in range(3):
        assert forked(one, dict(os.environ), tmp_path) is None
    assert begun == ["anabranch.no_such_module"]


@pytest.mark.parametrize("name", nursery.READ_AT_START)
def test_a_job_for_which_python_starts_differently_is_a_program(name: str, tmp_path: Path, begun: list[str]) -> None:
    assert forked(Nursery(dict(os.environ)), {**os.environ, name: "of its own"}, tmp_path) is None
    assert begun == []


def test_another_release_in_its_place_is_a_program(
    tmp_path: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Nursery(dict(os.environ))
    monkeypatch.setattr(nursery, "_installed", lambda: -1)
    assert forked(one, dict(os.environ), tmp_path) is None and begun == []


def test_where_nothing_forks_it_is_a_program(tmp_path: Path, begun: list[str]) -> None:
    assert forked(Nursery(dict(os.environ), can_fork=False), dict(os.environ), tmp_path) is None and begun == []


def test_one_whose_manager_is_gone_imports_no_further(capfd: pytest.CaptureFixture[str]) -> None:
    server = ForkServer.started(nursery.MODULE, environment={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    server.control.close()
    assert server.pid is not None
    os.waitpid(server.pid, 0)
    told = capfd.readouterr().err
    assert "import time:" in told and "pyspark" not in told


def test_a_supervision_that_ends_waits_for_none_that_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    manager = Manager(tmp_path)
    asked = threading.Event()
    server = ForkServer.started(nursery.MODULE)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)  # one that begins for ever

    def gives_up() -> bool:
        asked.set()
        return manager.supervision.is_ending

    one = manager.supervision.nursery = Nursery(dict(os.environ), gives_up=gives_up)
    one._server = server
    monkeypatch.setattr(forking, "ANSWER_S", 1e9)
    manager.add(ADMIN, text())
    manager.start(ADMIN, "shop")
    manager.supervision.begin()
    assert asked.wait(PATIENCE), "it waits for the nursery"
    manager.supervision.end()
    assert manager.supervision.state("shop").pid is None
    assert not JobProcess.found(manager.home / "shop")
    manager.store.close()
    os.kill(server.pid, signal.SIGCONT)
    one.end()
