"""Jobs and operations that run on another machine, whose manager led before. Stand-ins that note another host, no server."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.manager import Manager, operations, processes, supervising
from anabranch.manager.callers import Caller, Role
from anabranch.manager.recorded import Recorded
from anabranch.manager.recording import here
from anabranch.state.living import mark_of
from anabranch.state.store import FILE, StateStore
from anabranch.trail.lock import OsLock
from anabranch.view.running import RUN as RUN_PART
from anabranch.view.running import RUN_LOCK
from tests.unit.manager.test_manager_operations import SAYS, began, hold, opened
from tests.unit.manager.test_manager_store import text
from tests.unit.manager.test_manager_supervision import RUN, wait_for

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
# Notes itself as `run` on another machine does, and goes on until it is asked to end.
ELSEWHERE = """
import os, signal, sys, time
from pathlib import Path
from anabranch.state.store import StateStore
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
state = StateStore(Path.cwd())
state.part("run", os.getpid(), "other")
while True:
    state.seen("run")
    time.sleep(0.02)
"""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", RUN))
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    made = Manager(tmp_path)
    made.supervision.is_shared = True
    made.add(ADMIN, text())
    yield made
    made.supervision.stop_all()


@pytest.fixture
def other(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Iterator[processes.JobProcess]:
    """A process that says it runs the job on another machine."""
    with monkeypatch.context() as patched:
        patched.setattr(processes, "COMMAND", (sys.executable, "-c", ELSEWHERE))
        started = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: processes.elsewhere(manager.home / "shop"))
    yield started
    started.kill()
    wait_for(lambda: started.code() is not None)


@pytest.fixture
def stranger(manager: Manager) -> Iterator[subprocess.Popen[bytes]]:
    """A process here with the number of one that runs the job on a machine, or in a container, of the same name."""
    home = manager.home / "shop"
    home.mkdir()
    made = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with closing(StateStore(home)) as noted:
            noted.part(RUN_PART, made.pid, os.uname().nodename)
        with closing(sqlite3.connect(home / FILE)) as rows, rows:
            assert rows.execute("UPDATE part SET mark = 'another-boot/pid:[1]/77'").rowcount == 1
        yield made
    finally:
        made.kill()
        made.wait()


def test_the_process_of_a_machine_of_the_same_name_is_not_looked_for_here(
    manager: Manager, stranger: subprocess.Popen[bytes]
) -> None:
    assert processes.JobProcess.found(manager.home / "shop") is None
    assert processes.elsewhere(manager.home / "shop") == f"process {stranger.pid} on {os.uname().nodename}"
    manager.start(ADMIN, "shop")
    assert state(manager)[:2] == ("running", None)
    manager.stop(ADMIN, "shop")
    manager.supervision.look()
    manager.supervision.stop_here()
    assert stranger.poll() is None, "nobody has asked it to stop"


def test_a_process_that_got_the_number_of_the_job_is_not_the_job(manager: Manager) -> None:
    mark = mark_of(os.getpid(), os.uname().nodename)
    found = processes.JobProcess(os.getpid(), mark=f"{mark}0")
    assert processes.JobProcess(os.getpid(), mark=mark).code() is None and found.code() == -1
    found.kill()  # reaches nobody, else this test would be no more


def state(manager: Manager) -> tuple[str, int | None, str]:
    manager.supervision.look()
    found = manager.supervision.state("shop")
    return found.state, found.pid, found.problem


def test_a_job_that_runs_elsewhere_is_shown_and_not_started_here(manager: Manager, other: processes.JobProcess) -> None:
    manager.start(ADMIN, "shop")
    assert state(manager) == ("running", None, f"process {other.pid} on other runs it")
    manager.stop(ADMIN, "shop")
    assert state(manager)[0] == "stopping" and list(manager.jobs.stops()) == ["shop"]
    assert other.code() is None, "whoever is on that machine stops it"


def test_a_job_that_has_ended_elsewhere_is_started_here(
    manager: Manager, other: processes.JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.start(ADMIN, "shop")
    assert state(manager)[0] == "running"
    other.kill()
    monkeypatch.setattr("anabranch.state.living.SILENT_S", 0.1)
    wait_for(lambda: state(manager)[1])
    assert manager.supervision.state("shop").pid != other.pid


def test_a_lock_that_another_machine_has_is_respected_though_nothing_is_noted(manager: Manager) -> None:
    home = manager.home / "shop"
    home.mkdir()
    lock = OsLock(home / RUN_LOCK)
    (home / RUN_LOCK).write_text("77 other\n")
    try:
        manager.start(ADMIN, "shop")
        assert state(manager) == ("running", None, "process 77 on other runs it")
    finally:
        lock.close()
    wait_for(lambda: state(manager)[1])


def test_a_restart_stops_it_elsewhere_and_starts_it_here(
    manager: Manager, other: processes.JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    manager.restart(ADMIN, "shop")
    assert list(manager.jobs.stops()) == ["shop"], "the manager of that machine finds it there"
    other.ask_to_stop()
    monkeypatch.setattr("anabranch.state.living.SILENT_S", 0.1)
    wait_for(lambda: state(manager)[1])
    assert manager.jobs.is_wanted("shop") and not manager.jobs.stops()


def test_one_that_stands_by_asks_what_runs_here_to_stop_once_and_then_kills_it(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: processes.JobProcess.found(manager.home / "shop"))
    standby = Manager(manager.home)
    standby.stand_by()
    assert processes.JobProcess.found(manager.home / "shop"), "nobody has asked"
    asked, killed = list[int](), list[int]()
    monkeypatch.setattr(processes.JobProcess, "ask_to_stop", lambda one: asked.append(one.pid))
    monkeypatch.setattr(processes.JobProcess, "kill", lambda one: killed.append(one.pid))
    manager.stop(ADMIN, "shop")
    for _ in range(3):
        standby.stand_by()
    assert len(asked) == 1 and not killed
    monkeypatch.setattr(supervising, "STOP_S", -1.0)
    standby.stand_by()
    assert killed == asked
    monkeypatch.undo()
    os.kill(asked[0], signal.SIGKILL)


def test_an_operation_is_ended_on_its_own_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(operations, "COMMAND", (sys.executable, "-S", "-c", SAYS))
    leader = opened(tmp_path)
    leader.add(ADMIN, text())
    (tmp_path / "shop").mkdir()
    hold(leader)
    asked = leader.operations.ask(ADMIN, "shop", "verify", [])
    wait_for(lambda: leader.operations.look() and began(leader, asked))
    recorded = Recorded(leader.store.directory / "operations" / str(asked.id))
    assert (recorded.place / "host").read_text() == here() != os.uname().nodename
    (recorded.place / "host").write_text(f"{os.uname().nodename} another-boot/pid:[1]")
    leader.operations.cancel(ADMIN, "shop", asked.id)
    assert not recorded.send(signal.SIGKILL) and leader.operations.look() == 1 and recorded.lives()
    (recorded.place / "host").write_text(os.uname().nodename)
    Manager(tmp_path).stand_by()
    wait_for(lambda: not leader.operations.look())
    assert leader.operations.operation(ADMIN, "shop", asked.id).state == "cancelled"


def test_a_manager_that_may_not_act_starts_and_stops_nothing(manager: Manager) -> None:
    manager.supervision.may_act = lambda: False
    manager.start(ADMIN, "shop")
    assert state(manager)[:2] == ("starting", None)
    manager.supervision.may_act = lambda: True
    assert state(manager)[1]


def test_a_file_that_another_manager_has_left_is_not_the_one_that_is_started(manager: Manager) -> None:
    manager.jobs.file("shop").write_text("name = 'former'\n")
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    assert manager.jobs.file("shop").read_text() == text()
    manager.stop(ADMIN, "shop")
