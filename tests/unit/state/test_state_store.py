"""state.db: several writers, and every way a file can go wrong without stopping anyone."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch import failpoints
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.state import StateStore, room
from anabranch.state import store as module

HOST = os.uname().nodename


def filled(home: Path) -> StateStore:
    store = StateStore(home)
    store.part("capture", os.getpid(), HOST)
    store.phase("loading")
    store.progress(TableId("shop", "orders"), 10, 100)
    store.position("written", Position(7, "mysql-bin.000001:4"), 1_700_000_000_000_001)
    store.last_error("the source went away", 5, "capture")
    return store


def test_what_is_written_is_read_by_another_process(tmp_path: Path) -> None:
    filled(tmp_path)
    found = StateStore(tmp_path).snapshot()
    assert found["phase"] == "loading"
    assert [(p["name"], p["pid"], p["host"]) for p in found["parts"]] == [("capture", os.getpid(), HOST)]
    assert found["positions"]["written"]["text"] == "7@mysql-bin.000001:4"
    assert found["positions"]["written"]["commit_time"] == "2023-11-14T22:13:20.000001Z"
    assert found["progress"]["shop.orders"]["done"] == 10
    assert found["last_error"]["message"] == "the source went away"


def test_a_table_that_an_earlier_release_had_not_costs_a_snapshot_that_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may not be written to gets no table."""
    filled(tmp_path).close()
    with sqlite3.connect(tmp_path / module.FILE) as connection:
        connection.execute("DROP TABLE doing")
    monkeypatch.setattr(module, "ADDED", ())
    found = StateStore(tmp_path).snapshot()
    assert (found["phase"], found["doing"]) == ("loading", [])
    assert [part["name"] for part in found["parts"]] == ["capture"]


def test_a_job_that_never_ran_has_a_snapshot_and_no_file(tmp_path: Path) -> None:
    home = tmp_path / "never"
    assert StateStore(home).snapshot()["phase"] == "stopped"
    assert not home.exists()


def test_how_a_part_works_is_told_of_the_one_that_said_so(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert "how" not in store.snapshot()["parts"][0]
    store.how("capture", "decoder native")
    assert StateStore(tmp_path).snapshot()["parts"][0]["how"] == "decoder native"
    time.sleep(0.002)  # the clock of the file has milliseconds
    store.part("capture", os.getpid(), HOST)
    assert "how" not in store.snapshot()["parts"][0], "it has started again"


def test_slow_epochs_are_those_of_the_running_apply(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.slow_epochs(0, 0, "")
    assert store.snapshot()["slow_epochs"] is None
    store.slow_epochs(2, 1500, "shop.orders: duplicate key")
    found = store.snapshot()["slow_epochs"]
    assert (found["count"], found["epochs"], found["reason"]) == (2, 1500, "shop.orders: duplicate key") and found["at"]
    store.slow_epochs(0, 0, "")  # it has started again
    assert store.snapshot()["slow_epochs"] is None


def test_a_part_that_starts_waits_for_nobody(tmp_path: Path) -> None:
    """The one before it was killed, or ended, while it did; another part still does."""
    store = filled(tmp_path)
    for name in ("capture", "apply"):
        store.part(name, os.getpid(), os.uname().nodename)
        store.waits(name, "there", f"{name}, for a lock")
    store.part("apply", os.getpid(), os.uname().nodename)
    assert [one["part"] for one in store.snapshot()["waits"]] == ["capture"]


def test_a_dead_part_is_not_shown_and_the_phase_is_stopped(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    store = StateStore(tmp_path)
    store.part("apply", dead.pid, HOST)
    store.phase("streaming")
    assert store.snapshot()["parts"] == []
    assert store.snapshot()["phase"] == "stopped"


def test_a_part_elsewhere_is_shown(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.part("apply", 1, "another-host")
    assert [p["host"] for p in store.snapshot()["parts"]] == ["another-host"]


def test_torture_seed_603_a_part_that_the_file_did_not_take_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full, or somebody removed the file. Who has started later keeps its place."""
    store = StateStore(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(failpoints, "time", clock)
    failpoints.arm({failpoints.VARIABLE: "state.write=full:0.05"})
    try:
        store.part("apply", os.getpid(), HOST)
        assert store.snapshot()["parts"] == []
        clock.monotonic = lambda: 100.06
        store.phase("streaming")
    finally:
        failpoints.arm({})
    assert [part["name"] for part in store.snapshot()["parts"]] == ["apply"]
    (tmp_path / "state.db").unlink()
    store.phase("streaming")
    assert [part["name"] for part in StateStore(tmp_path).snapshot()["parts"]] == ["apply"]
    StateStore(tmp_path).part("apply", 7, "elsewhere")
    store.close()
    store.phase("streaming")
    assert [part["pid"] for part in store.snapshot()["parts"]] == [7]
    store.part_ended("apply", os.getpid(), HOST)
    (tmp_path / "state.db").unlink()
    store.phase("streaming")
    assert store.snapshot()["parts"] == []


def test_part_ended_removes_only_that_process(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.part_ended("capture", os.getpid() + 1, HOST)
    assert store.snapshot()["parts"]
    store.part_ended("capture", os.getpid(), HOST)
    assert not store.snapshot()["parts"]


def test_torture_seed_101480_a_part_comes_back_when_another_that_started_beside_it_has_ended(tmp_path: Path) -> None:
    """Two processes of one part started at the same moment; the one that was told last was refused at the target."""
    ours, other = StateStore(tmp_path), StateStore(tmp_path)
    ours.part("apply", os.getpid(), HOST)
    other.part("apply", os.getppid(), HOST)
    ours.seen("apply")
    assert [part["pid"] for part in StateStore(tmp_path).snapshot()["parts"]] == [os.getppid()], "both are at work"
    other.part_ended("apply", os.getppid(), HOST, has_failed=True)
    assert StateStore(tmp_path).snapshot()["parts"] == []
    ours.seen("apply")
    found = StateStore(tmp_path).snapshot()
    assert [part["pid"] for part in found["parts"]] == [os.getpid()]
    assert found["ends"] == {}, "the part is at work, so it has not ended"
    ours.part_ended("apply", os.getpid(), HOST)
    ours.seen("apply")
    assert StateStore(tmp_path).snapshot()["parts"] == [], "nothing comes back behind its own end"


def test_a_file_deleted_under_an_open_store_is_made_again(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (tmp_path / "state.db").unlink()
    assert StateStore(tmp_path).snapshot()["progress"] == {}
    store.phase("streaming")
    store.progress("shop.a", 1, None)
    assert StateStore(tmp_path).snapshot()["progress"].keys() == {"shop.a"}


def test_a_journal_left_beside_a_deleted_file_is_not_replayed(tmp_path: Path) -> None:
    filled(tmp_path)
    killed = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    for statement in ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = PERSIST", "BEGIN", "DELETE FROM last_error"):
        killed.execute(statement)
    journal = (tmp_path / "state.db-journal").read_bytes()
    assert journal.startswith(b"\xd9\xd5\x05\xf9"), "it would be rolled back"
    killed.close()
    (tmp_path / "state.db").unlink()
    (tmp_path / "state.db-journal").write_bytes(journal)
    fresh = StateStore(tmp_path)
    fresh.phase("streaming")
    assert fresh.snapshot()["last_error"] is None


def test_a_broken_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database at all" * 100)
    store = StateStore(tmp_path)
    store.phase("loading")  # warns and throws the file away
    store.part("load", os.getpid(), HOST)
    store.phase("loading")
    assert store.snapshot()["phase"] == "loading"


def test_a_file_of_another_version_is_replaced(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("PRAGMA user_version = 99")
        other.execute("CREATE TABLE part (other TEXT)")
    other.close()
    assert filled(tmp_path).snapshot()["phase"] == "loading"


def test_a_locked_file_is_a_warning_not_an_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("anabranch.state.store.BUSY_S", 0.05)
    store = filled(tmp_path)
    lock = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    store.close()
    store.phase("streaming")
    lock.execute("ROLLBACK")
    assert store.snapshot()["phase"] == "loading"
    store.phase("streaming")
    assert store.snapshot()["phase"] == "streaming"


def test_a_home_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = StateStore(tmp_path / "file" / "home")
    store.phase("loading")
    assert store.snapshot()["phase"] == "stopped"


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from anabranch.state import StateStore\n"
        "store = StateStore(Path(sys.argv[1]))\n"
        "[store.progress(f'{sys.argv[2]}.t', n, 200) for n in range(201)]"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"s{n}"]) for n in range(4)]
    assert [run.wait() for run in runs] == [0, 0, 0, 0]
    assert {row["done"] for row in StateStore(tmp_path).snapshot()["progress"].values()} == {200}


def test_what_a_part_is_doing_is_told_while_it_lives_and_does_it(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.doing("capture", "building", ["shop.a"])
    (found,) = store.snapshot()["doing"]
    assert (found["part"], found["kind"], found["names"]) == ("capture", "building", ["shop.a"])
    time.sleep(0.002)  # the clock of the file has milliseconds
    store.doing("capture", "building", ["shop.a"])
    assert store.snapshot()["doing"] == [found], "still since then"
    store.doing("capture", "building", ["shop.b"])
    assert store.snapshot()["doing"][0]["since"] > found["since"]
    store.doing("apply", "building", ["shop.c"])
    assert [one["part"] for one in store.snapshot()["doing"]] == ["capture"], "apply does not live"
    store.part("capture", os.getpid(), HOST)
    assert store.snapshot()["doing"] == [], "it has started again"
    store.doing("capture", "building", ["shop.b"])
    store.doing("capture", "building", [])
    assert store.snapshot()["doing"] == []


def test_samples_of_positions_are_kept_for_hours_and_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every five seconds for a quarter of an hour, once a minute for six hours, whatever the file was made by."""
    store = filled(tmp_path)
    with sqlite3.connect(tmp_path / "state.db") as before:
        before.execute("DROP TABLE sample")
    store.close()
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 1e9 + clock.now, monotonic=lambda: 1 + clock.now))
    for number in range(1, 7 * 720):
        clock.now = number * 5.0
        store.position("applied", Position(number))
        store.seen("capture")
        store.seen("capture")  # not due
        if number == 200:
            clock.now = 0.0  # somebody has set the clock back
    samples = store.samples()
    assert set(samples) == {"written", "applied"}, "what is sampled, and told"
    ages = [1e9 + clock.now - one.at for one in samples["applied"]]
    assert max(ages) <= 21600 and sum(age <= 900 for age in ages) == 181 and sum(age > 900 for age in ages) <= 345
    assert samples["applied"] == sorted(samples["applied"])


def at_most(store: StateStore, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Let the file grow no further, as on a disk that is full, whenever it is opened."""
    made = store._prepared

    def prepared() -> sqlite3.Connection:
        connection = made()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(store, "_prepared", prepared)
    store.close()


def asked(store: StateStore, name: str) -> int:
    return int(store._open().execute(f"PRAGMA {name}").fetchone()[0])


def test_a_full_disk_keeps_the_past_waiting_and_not_the_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passages of a megabyte have no room; that the part stops, and a long reason, have."""
    store = filled(tmp_path)
    store.seen("capture")
    with monkeypatch.context() as full:
        at_most(store, full, asked(store, "page_count"))
        for number in range(500):
            store.passed("capture", number, Position(number + 1, "x"), 1, 2, {"changes": "x" * 2000})
        for _ in range(3):
            store.seen("capture", stops=True)
        store.phase("waiting", "no room " * 20_000, "room")
        found = store.snapshot()
        assert found["parts"][0]["stopping"] and len(found["detail"]) == 160_000
        assert store.last_passages("capture", 10) == []
        store.passed("capture", 500, Position(501, "x"), 1, 2)
        store.seen("capture")
        store.phase("streaming")
        store.close()
    store.seen("capture")
    assert [one["sequence"] for one in store.last_passages("capture", 1000)] == list(range(1, 502))
    store.close()


def test_what_is_kept_of_the_past_leaves_the_room_for_a_full_disk_and_does_not_grow(tmp_path: Path) -> None:
    store, number, sizes = filled(tmp_path), 0, []
    for _ in range(4):
        for _ in range(12):
            for _ in range(200):
                store.passed("capture", number, Position(number := number + 1, "x"), 1, 2, {"changes": "x" * 900})
            store.seen("capture")
            assert asked(store, "freelist_count") * 4096 >= room.RESERVE
        sizes.append(asked(store, "page_count"))
    assert sizes[-1] == sizes[1] and sizes[-1] * 4096 < 5_000_000
    store.close()


def test_a_process_that_was_killed_while_it_made_room_is_in_nobodys_way(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("CREATE TABLE reserve (bytes BLOB)")
    other.close()
    store = filled(tmp_path)
    assert store.snapshot()["phase"] == "loading"
    store._open().execute("CREATE TABLE reserve (bytes BLOB)")
    store.passed("capture", 0, Position(1, "x"), 1, 2)
    store.seen("capture")
    assert len(store.passages("capture", 1)) == 1
    store.close()
