"""Whether a part is still there: its number may be another process's by now, and other hosts cannot be asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from anabranch.state import living
from anabranch.state.living import is_here, lives, mark_of
from anabranch.state.store import StateStore

HOST = os.uname().nodename


def part(pid: int, mark: str, host: str = HOST, seen_s: float = 0.0) -> dict[str, object]:
    seen = datetime.now(UTC) - timedelta(seconds=seen_s)
    return {"name": "apply", "pid": pid, "host": host, "mark": mark, "seen": seen.isoformat()}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_lives_until_it_ends_also_before_anybody_has_asked_how(sleeper: subprocess.Popen[bytes]) -> None:
    there = part(sleeper.pid, mark_of(sleeper.pid, HOST), seen_s=3600)
    assert lives(there) and is_here(there), "it may say nothing for an hour: we can see it"
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert os.kill(sleeper.pid, 0) is None
    assert not lives(there)


def test_another_process_with_its_number_is_not_it(sleeper: subprocess.Popen[bytes]) -> None:
    place, _, started = mark_of(sleeper.pid, HOST).rpartition("/")
    assert not lives(part(sleeper.pid, f"{place}/{int(started) - 1}"))
    assert mark_of(os.getpid(), HOST) != mark_of(sleeper.pid, HOST)


@pytest.mark.parametrize("mark", ["", "another-boot/pid:[4026531836]/17"])
def test_elsewhere_it_is_believed_as_long_as_it_says_so(mark: str) -> None:
    """Another machine; the same name of a host after it has started anew, or in another container."""
    host = HOST if mark else "elsewhere"
    assert lives(part(1, mark, host, seen_s=5)) and not is_here(part(1, mark, host))
    assert not lives(part(1, mark, host, seen_s=living.SILENT_S + 1)), "process 1 is there on every machine"


def test_without_proc_the_number_has_to_do(monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> None:
    monkeypatch.setattr(living, "_place", lambda: "")
    assert mark_of(sleeper.pid, HOST) == "" and lives(part(sleeper.pid, ""))
    sleeper.kill()
    sleeper.wait()
    assert not lives(part(sleeper.pid, ""))


def test_a_process_of_another_user_that_proc_hides_is_believed_as_if_it_were_elsewhere(
    monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]
) -> None:
    mark = mark_of(sleeper.pid, HOST)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    with monkeypatch.context() as hidden:
        hidden.setattr(living, "_stat", lambda pid: None)
        hidden.setattr(living.os, "kill", refuse)
        assert lives(part(sleeper.pid, mark, seen_s=5)) and not lives(part(sleeper.pid, mark, seen_s=60))


def test_a_part_that_is_gone_is_told_until_another_start_or_its_run_says_otherwise(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    store.part("apply", dead.pid, HOST)
    (gone,) = store.snapshot()["gone"]
    assert (gone["name"], gone["pid"], gone["is_here"]) == ("apply", dead.pid, True)
    store.part("apply", os.getpid(), HOST)
    assert store.snapshot()["gone"] == []
    store.part_ended("apply", os.getpid(), HOST)
    assert store.snapshot()["gone"] == [] and not store.snapshot()["ends"]["apply"]["has_failed"]
    store.part("load", dead.pid, HOST)
    store.forget_gone()
    assert store.snapshot()["gone"] == [] and store.snapshot()["ends"] == {}


def test_counters_count_over_starts_and_since_a_reset(tmp_path: Path) -> None:
    store = StateStore(tmp_path)

    def counted() -> tuple[int, int]:
        found = store.snapshot()["counters"]["capture"]["changes_read"]
        return found["value"], found["total"]

    store.part("capture", os.getpid(), HOST)
    store.count("capture", {"changes_read": 30}, {"open_transactions": 2})
    assert store.snapshot()["counters"] == {}, "it costs nothing before the part says that it is there"
    store.seen("capture")
    assert counted() == (30, 30) and store.snapshot()["gauges"]["capture"]["open_transactions"]["value"] == 2
    store.count("capture", {"changes_read": 40})
    store.part_ended("capture", os.getpid(), HOST)
    assert counted() == (40, 40)
    store.part("capture", os.getpid(), HOST)
    assert counted() == (0, 40) and store.snapshot()["gauges"] == {}
    store.reset_counters()
    store.count("capture", {"changes_read": 5})
    store.seen("capture")
    assert counted() == (5, 5)
    store.count("capture", {"changes_read": 5})
    store.reset_counters()
    store.seen("capture")
    assert counted() == (5, 0)


def test_what_a_part_waits_for_holds_until_it_says_otherwise_or_is_gone(tmp_path: Path) -> None:
    """Others have the last word otherwise: capture without its source is not hidden by an apply that has just started."""
    capture, apply = StateStore(tmp_path), StateStore(tmp_path)
    capture.part("capture", os.getpid(), HOST)
    apply.part("apply", os.getpid(), HOST)
    capture.phase("waiting", "source lost", "source", {"code": "source_unavailable"})
    apply.phase("streaming")
    found = apply.snapshot()
    assert (found["phase"], found["about"], found["phase_error"]) == (
        "waiting",
        "source",
        {"code": "source_unavailable"},
    )
    since = found["phase_since"]
    capture.phase("waiting", "source lost, still", "source")
    assert capture.snapshot()["phase_since"] == since and capture.snapshot()["detail"] == "source lost, still"
    capture.part_ended("capture", os.getpid(), HOST)
    assert capture.snapshot()["phase"] == "streaming"
