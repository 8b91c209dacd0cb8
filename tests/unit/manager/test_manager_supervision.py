"""Jobs' processes under a manager. A stand-in for `anabranch run`, which notes itself as that does, and no server."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.manager import Manager, processes, supervising
from anabranch.manager.callers import Caller, Role
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
# Notes itself as `run` does, and ends with what the file beside it says, else on SIGTERM.
RUN = """
import os, signal, sys, time
from pathlib import Path
from anabranch.state.store import StateStore
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
home = Path.cwd()
state = StateStore(home)
state.part("run", os.getpid(), os.uname().nodename)
while not (home / "code").exists():
    time.sleep(0.02)
sys.exit(int((home / "code").read_text()))
"""


def wait_for(reached: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", RUN))
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.01)
    made = Manager(tmp_path)
    made.add(ADMIN, text())
    yield made
    made.supervision.stop_all()


def noted(manager: Manager) -> bool:
    """Return whether the process has noted itself, as `run` does when it begins."""
    return processes.JobProcess.found(manager.home / "shop") is not None


def test_a_wanted_job_runs_and_a_stopped_one_has_no_process(manager: Manager) -> None:
    assert manager.supervision.state("shop").state == "stopped"
    manager.start(ADMIN, "shop")
    assert manager.supervision.state("shop").state == "starting"
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    assert manager.supervision.state("shop").state == "running"
    manager.stop(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "stopped")
    assert not noted(manager) and manager.supervision.state("shop").code == 0


def test_a_job_that_died_is_started_again_and_counted(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    first = manager.supervision.state("shop").pid
    os.kill(first or 0, signal.SIGKILL)
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid not in (first, None))
    assert manager.supervision.state("shop").restarts == 1
    assert manager.supervision.state("shop").code == 128 + signal.SIGKILL


def test_a_job_whose_file_is_wrong_waits_for_a_person(manager: Manager) -> None:
    (manager.home / "shop").mkdir()
    (manager.home / "shop" / "code").write_text("2")
    manager.start(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "failed")
    manager.supervision.look()
    assert manager.supervision.state("shop").code == 2 and manager.supervision.state("shop").restarts == 0
    (manager.home / "shop" / "code").unlink()
    manager.start(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "running")


def test_a_job_goes_on_without_its_manager_and_the_next_one_takes_it_over(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    later = Manager(manager.home)  # as after a kill -9: the former one has not ended anything
    later.supervision.look()
    assert later.supervision.state("shop").pid == manager.supervision.state("shop").pid
    later.stop(ADMIN, "shop")
    wait_for(lambda: later.supervision.look() or later.supervision.state("shop").state == "stopped")
    assert not noted(later)


def test_a_job_that_was_started_by_hand_is_not_started_twice(manager: Manager) -> None:
    by_hand = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: noted(manager))
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    assert manager.supervision.state("shop").pid == by_hand.pid


def test_a_job_that_runs_is_not_removed(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    with pytest.raises(ConfigError, match="stop it first"):
        manager.remove(ADMIN, "shop")
    manager.stop(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid is None)
    manager.remove(ADMIN, "shop")
    assert manager.jobs.all() == []
