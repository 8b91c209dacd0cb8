"""Jobs' processes under a manager. A stand-in for `anabranch run`, which notes itself as that does, and no server."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import ConfigError, StateError
from anabranch.manager import Manager, answering, monitoring, operations, processes, supervising
from anabranch.manager.callers import Caller, Role
from anabranch.manager.store import Values
from anabranch.trail.lock import OsLock
from anabranch.view.running import RUN_LOCK
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


def test_a_job_that_runs_by_hand_goes_on_until_a_stop_is_asked_for(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    manager.supervision.look()
    assert manager.supervision.state("shop").state == "stopped"
    by_hand = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid == by_hand.pid)
    manager.supervision.look()
    assert manager.supervision.state("shop").state == "running"
    with pytest.raises(ConfigError, match="stop it first"):
        manager.remove(ADMIN, "shop")
    manager.stop(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or by_hand.code() is not None)
    wait_for(lambda: manager.supervision.look() or not manager.jobs.stops())
    assert by_hand.code() == 0 and manager.supervision.state("shop").state == "stopped"
    again = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid == again.pid)
    manager.supervision.look()
    assert manager.supervision.state("shop").state == "running"  # the stop was for the former one


def test_a_stop_that_was_asked_for_holds_for_the_next_manager(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    manager.stop(ADMIN, "shop")
    later = Manager(manager.home)  # as after a kill -9, before the process was asked
    wait_for(lambda: later.supervision.look() or not later.jobs.stops())
    assert not noted(later) and later.supervision.state("shop").state == "stopped"


def test_a_job_is_not_removed_before_the_first_look_where_a_process_runs_it(manager: Manager) -> None:
    by_hand = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: noted(manager))
    with pytest.raises(ConfigError, match="stop it first"):
        manager.remove(ADMIN, "shop")
    by_hand.ask_to_stop()
    wait_for(lambda: by_hand.code() is not None)
    held = OsLock(manager.home / "shop" / RUN_LOCK)  # its state.db has been deleted, say
    with pytest.raises(ConfigError, match="stop it first"):
        manager.remove(ADMIN, "shop")
    held.close()
    manager.remove(ADMIN, "shop")
    assert manager.jobs.all() == []


def test_a_job_that_cannot_be_started_holds_up_no_other(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 3600.0)
    manager.add(ADMIN, text("a"))
    (manager.home / "a").write_text("no directory")
    manager.start(ADMIN, "a")
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    found = manager.supervision.state("a")
    assert (found.state, manager.supervision.state("shop").state) == ("waiting", "running")
    assert str(manager.home / "a") in found.problem
    (manager.home / "a").unlink()
    manager.start(ADMIN, "a")
    manager.supervision.look()
    assert (manager.supervision.state("a").state, manager.supervision.state("a").problem) == ("running", "")


def test_the_threads_outlive_a_state_that_cannot_be_read(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (supervising, monitoring, operations):
        monkeypatch.setattr(module, "TICK_S", 0.01)
    monkeypatch.setattr(operations, "PAUSE_S", 0.01)
    manager.notifier.ways = {"none": lambda _: None}
    failures: Counter[str] = Counter()
    rows = manager.store.rows

    def failing(query: str, values: Values = ()) -> list[dict[str, Any]]:
        failures[threading.current_thread().name] += 1
        return rows("SELECT * FROM absent")

    monkeypatch.setattr(manager.store, "rows", failing)
    manager.supervision.begin()
    manager.monitor.begin()
    manager.notifier.begin()
    manager.operations.begin()
    names = ("supervision", "monitor", "alerts none", "operations")
    wait_for(lambda: all(failures[name] > 1 for name in names))
    assert manager.health() == "failed"
    manager.supervision.is_shared = True  # then it is a server's answer that is missing, and comes again
    assert manager.health() == "degraded: store away"
    manager.supervision.is_shared = False
    monkeypatch.setattr(manager.store, "rows", rows)
    assert manager.health() == "ok"
    manager.start(ADMIN, "shop")
    wait_for(lambda: manager.supervision.state("shop").state == "running")
    for part in (manager.supervision, manager.monitor, manager.notifier, manager.operations):
        part.end()


def test_a_job_that_runs_is_not_removed(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    with pytest.raises(ConfigError, match="stop it first"):
        manager.remove(ADMIN, "shop")
    manager.stop(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid is None)
    manager.remove(ADMIN, "shop")
    assert manager.jobs.all() == []


def test_who_may_not_act_says_which_jobs_it_has_left_running(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "running")
    manager.supervision.may_act = lambda: False
    assert manager.supervision.stop_all() == ["shop"]
    assert manager.supervision.state("shop").state == "running"
    manager.supervision.may_act = lambda: True
    assert manager.supervision.stop_all() == []


def test_a_file_gets_the_version_that_is_the_present_one_as_it_gets_its_name(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = manager.jobs.version("shop")
    newer = text(more="# newer\n")
    manager.change(ADMIN, "shop", newer)
    version, asked = manager.jobs.version, [former]
    monkeypatch.setattr(manager.jobs, "version", lambda name: asked.pop() if asked else version(name))
    manager.jobs.write_file("shop")  # which had read the former version before somebody changed the job
    assert manager.jobs.file("shop").read_text() == newer and not asked
    assert [one.name for one in manager.jobs.file("shop").parent.iterdir()] == ["shop.toml"]


def test_a_file_that_somebody_else_has_replaced_is_put_back_at_the_next_look(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    manager.supervision.is_shared = True
    manager.supervision.look()
    file = manager.jobs.file("shop")
    for spoil in (lambda: file.write_text("former"), file.unlink):
        spoil()
        manager.supervision.look()
        assert file.read_text() == text()


def test_a_job_stops_though_its_file_cannot_be_put_back(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    manager.supervision.is_shared = True
    manager.supervision._watched["shop"].pause = 3600.0
    manager.jobs.file("shop").unlink()
    manager.jobs.file("shop").mkdir()  # no file gets this name
    manager.supervision.look()
    assert manager.supervision.state("shop").state == "running"
    manager.stop(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "stopped")
    assert not noted(manager)


def test_a_job_that_is_put_off_hears_its_stop(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    watched = manager.supervision._watched["shop"]
    watched.problem, watched.not_before = "something is in the way", time.monotonic() + 3600.0
    manager.stop(ADMIN, "shop")
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").state == "stopped")
    assert not noted(manager)


def test_a_file_that_is_no_text_is_replaced_and_ends_no_supervision(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    manager.jobs.file("shop").write_bytes(b"\xff\xfe")
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    assert manager.jobs.file("shop").read_text() == text()
    wait_for(lambda: noted(manager))


def test_a_process_that_could_not_be_taken_over_is_taken_over_at_a_later_look(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    by_hand = processes.JobProcess.started(Path("shop.toml"), manager.home / "shop", os.environ)
    wait_for(lambda: noted(manager))

    def fails(_: str) -> Any:
        raise StateError("the store does not answer")

    with monkeypatch.context() as away:
        away.setattr(manager.jobs, "kind", fails)
        manager.supervision.look()
        assert manager.supervision.state("shop").pid is None
    wait_for(lambda: manager.supervision.look() or manager.supervision.state("shop").pid == by_hand.pid)


def test_health_does_not_wait_for_a_store_that_does_not_answer(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "WAIT_S", 0.05)
    manager.supervision.is_shared = True
    answers, asked, rows = threading.Event(), list[str](), manager.store.rows

    def slow(query: str, values: Values = ()) -> list[dict[str, Any]]:
        asked.append(query)
        assert answers.wait(60)
        return rows(query, values)

    monkeypatch.setattr(manager.store, "rows", slow)
    assert [manager.health(), manager.health()] == ["degraded: store away"] * 2
    assert len(asked) == 1  # the first question is still open
    answers.set()
    monkeypatch.setattr(answering, "WAIT_S", 60.0)
    assert manager.health() == "ok"
