"""A nursery forks only what would be the same as a program, and is not tried again and again where it cannot begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.job.forking import ForkServer
from anabranch.manager import nursery
from anabranch.manager.nursery import Nursery


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
