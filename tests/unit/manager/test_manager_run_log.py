"""A job's log under a manager: kept short while it is written, and read over both of its files."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from anabranch.manager import Manager, processes, run_log
from anabranch.manager.callers import Caller, Role
from anabranch.manager.run_log import former, keep_short, tail
from tests.unit.manager.test_manager_store import text
from tests.unit.manager.test_manager_supervision import wait_for

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_log, "LARGEST", 100)
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop" / "run.log"


def lines(first: int, last: int) -> str:
    return "".join(f"line {number:04}\n" for number in range(first, last))


def shown(file: Path) -> list[str]:
    return [line.text for line in tail(file)]


def test_a_log_is_kept_short_while_somebody_writes_it(file: Path) -> None:
    keep_short(file)
    with open(file, "a", buffering=1) as stream:
        stream.write(lines(0, 10))
        keep_short(file)
        assert file.read_text() == lines(0, 10) and not former(file).exists(), "it is not too large yet"
        stream.write(lines(10, 30))
        keep_short(file)
        assert (file.read_text(), former(file).read_text()) == ("", lines(20, 30))
        stream.write(lines(30, 32))
        assert file.read_text() == lines(30, 32)
        assert shown(file) == lines(20, 32).split("\n")[:-1], "of both files"
        stream.write(lines(32, 60))
        keep_short(file)
    assert (file.read_text(), former(file).read_text()) == ("", lines(50, 60))
    assert stat.S_IMODE(former(file).stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["run.log", "run.log.1"]


def test_a_log_that_cannot_be_kept_for_want_of_room_stays_as_it_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(old: object, new: object) -> None:
        raise OSError(28, "No space left on device")

    file.write_text(lines(0, 30))
    monkeypatch.setattr(run_log.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        keep_short(file)
    assert file.read_text() == lines(0, 30) and list(file.parent.iterdir()) == [file]


def test_of_both_files_no_more_is_read_than_of_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "TAIL", 35)
    former(file).write_text(lines(0, 10))
    file.write_text(lines(10, 12))
    assert shown(file) == ["line 0009", "line 0010", "line 0011"]
    file.write_text(lines(10, 20))
    assert shown(file) == ["line 0017", "line 0018", "line 0019"]


def test_the_manager_keeps_logs_short_when_it_starts_a_job_and_as_it_watches_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(file.parent.parent))
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-S", "-c", "print('begun')"))
    file.write_text(lines(0, 30))
    child = processes.JobProcess.started(Path("shop.toml"), file.parent, os.environ)
    wait_for(lambda: child.code() is not None)
    assert (file.read_text(), former(file).read_text()) == ("begun\n", lines(20, 30))
    file.write_text(lines(30, 60))
    manager = Manager(file.parent.parent)
    manager.add(ADMIN, text())
    manager.monitor.look(0.0, 0)
    assert (file.read_text(), former(file).read_text()) == ("", lines(50, 60))
