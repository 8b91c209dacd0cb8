"""The manager's file while another process has it locked: whoever comes waits, and says who has it where that does not end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.manager import store_sqlite
from anabranch.manager.store import FILE, ManagerStore

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


class Holder:
    """A process that writes to a file of SQLite until it is let go."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def let_go(self) -> None:
        self.process.communicate("")


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Holder]:
    """Somebody who makes the file of a home just now."""
    holder = Holder(tmp_path / FILE)
    yield holder
    holder.let_go()


def test_who_opens_a_file_that_another_one_makes_at_the_same_moment_waits(
    new: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        new.let_go()

    monkeypatch.setattr(store_sqlite.time, "sleep", sleep)
    store = ManagerStore(tmp_path)
    assert waited and store.row("PRAGMA journal_mode") == {"journal_mode": "wal"}
    store.close()


def test_a_new_file_that_stays_locked_is_told_with_who_has_it(
    new: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "BUSY_S", 0.1)
    with pytest.raises(StateError) as raised:
        ManagerStore(tmp_path)
    said = f"{tmp_path / FILE} has been locked by process {new.process.pid} ({comm(new.process.pid)}) for 0.1 seconds"
    assert said in raised.value.message and "end it" in raised.value.hint


def test_a_file_that_stays_locked_is_told_with_who_has_it_and_serves_again_behind_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "BUSY_S", 0.1)
    store = ManagerStore(tmp_path)
    holder = Holder(tmp_path / FILE)
    try:
        with pytest.raises(StateError, match=rf"locked by process {holder.process.pid} \(") as raised, store.writing():
            pytest.fail("it may not write")
        assert "rights" not in raised.value.hint and raised.value.exit_code == 7
        with pytest.raises(StateError, match=rf"locked by process {holder.process.pid} \("):
            ManagerStore(tmp_path)
        assert store.rows("SELECT * FROM job") == [], "who only reads does not wait"
    finally:
        holder.let_go()
    with store.writing():
        pass
    store.close()


def test_where_nobody_tells_who_has_it_the_hint_says_how_to_see_that(
    new: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "BUSY_S", 0.1)
    monkeypatch.setattr(store_sqlite, "LOCKS", tmp_path / "none")
    with pytest.raises(StateError, match="locked by another process for") as raised:
        ManagerStore(tmp_path)
    assert f"fuser -v {tmp_path / FILE}" in raised.value.hint


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
