"""The trace in a home: entries of several processes, in their order, as long as they are to be kept; never in anybody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from anabranch.state import trace
from anabranch.state.trace import Trace, drop_old, entries, files, read


def test_entries_come_in_their_order_with_what_was_said(tmp_path: Path) -> None:
    one, other = Trace(tmp_path, "shop/capture"), Trace(tmp_path, "shop/apply")
    one.note("info", "part_started", part="capture", state="starting")
    other.note(
        "error", "part_failed", "duplicate key", code="row_refused", side="target", table="shop.a", position=None
    )
    found = list(entries(tmp_path))
    assert [(e["task"], e["level"], e["event"]) for e in found] == [
        ("shop/capture", "info", "part_started"),
        ("shop/apply", "error", "part_failed"),
    ]
    assert (
        found[0]["state"] == "starting" and found[0]["facts"] == {"part": "capture"} and found[0]["pid"] == os.getpid()
    )
    assert (found[1]["code"], found[1]["message"], found[1]["facts"]) == (
        "row_refused",
        "duplicate key",
        {"table": "shop.a"},
    )
    assert list(entries(tmp_path, datetime.now(UTC) + timedelta(seconds=1))) == []
    assert len(list(entries(tmp_path, datetime.fromisoformat(found[1]["at"])))) == 1


def test_without_a_home_nothing_is_made(tmp_path: Path) -> None:
    Trace(tmp_path / "never", "shop/run").note("error", "x")
    assert list(entries(tmp_path / "never")) == [] and not (tmp_path / "never").exists()


def test_the_same_again_and_again_is_counted_and_told_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Trace(tmp_path, "shop/apply")
    for _ in range(1000):
        one.note("warning", "target_lost", "no line", code="target_unavailable")
    one.note("warning", "target_lost", "full", code="target_full")
    assert len(list(entries(tmp_path))) == 2
    monkeypatch.setattr(trace, "REPEAT_S", 0.0)
    one.note("warning", "target_lost", "no line", code="target_unavailable")
    assert list(entries(tmp_path))[-1]["facts"] == {"repeated": 999}


def test_an_hour_and_an_entry_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "HOUR_BYTES", 20_000)
    one = Trace(tmp_path, "shop/apply")
    for number in range(100):
        one.note("info", "state", "x" * 100_000, state="waiting", facts_of=str(number), more="y" * 100_000)
    size = sum(file.stat().st_size for file in files(tmp_path))
    assert 20_000 <= size <= 20_000 + trace.LINE and all(len(e["message"]) == trace.TEXT for e in entries(tmp_path))


def test_details_leave_room_for_errors_and_are_never_left_out_as_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "DETAILS_BYTES", 20_000)
    one = Trace(tmp_path, "shop/apply")
    for _ in range(300):
        one.note("debug", "statement", sql="SELECT …")
    one.note("error", "part_failed", "refused")
    found = [entry["event"] for entry in entries(tmp_path)]
    assert 50 < found.count("statement") < 300 and found[-1] == "part_failed"


def test_the_level_is_the_usual_one_unless_somebody_said_otherwise(tmp_path: Path) -> None:
    assert trace.recorded(tmp_path) == "info"
    for level in ("debug", "debug", "info", "info", "debug"):
        trace.record(tmp_path, level)
        assert trace.recorded(tmp_path) == level
    (tmp_path / "trace" / "level").write_text("everything")
    assert trace.recorded(tmp_path) == "info" and files(tmp_path) == []


def test_what_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / trace.FOLDER).write_text("no folder")
    Trace(tmp_path, "shop/apply").note("error", "x")
    assert list(entries(tmp_path)) == []


def test_a_torn_line_is_passed_over_and_read_when_it_is_whole(tmp_path: Path) -> None:
    one = Trace(tmp_path, "shop/apply")
    one.note("info", "a")
    (file,) = files(tmp_path)
    with file.open("ab") as stream:
        stream.write(b'{"id": "torn"')
    found, end = read(file, 0)
    assert [e["event"] for e in found] == ["a"]
    one.note("info", "b")
    later, _ = read(file, end)
    assert [e["event"] for e in later] == [] and len(list(entries(tmp_path))) == 1, "it spoils the line that it is in"
    one.note("info", "c")
    assert [e["event"] for e in entries(tmp_path)] == ["a", "c"]


def test_hours_that_are_too_old_go(tmp_path: Path) -> None:
    Trace(tmp_path, "shop/apply").note("info", "now")
    for hours in (1, 2, 30):
        moment = datetime.now(UTC) - timedelta(hours=hours)
        entry = {"id": f"{hours}", "at": moment.isoformat(), "level": "info", "event": f"{hours}", "task": "shop/run"}
        (tmp_path / "trace" / f"{moment:%Y%m%d%H}.jsonl").write_text(json.dumps(entry) + "\n")
    drop_old(tmp_path, 24)
    assert [e["event"] for e in entries(tmp_path)] == ["2", "1", "now"]
    drop_old(tmp_path, 1)
    assert "30" not in [e["event"] for e in entries(tmp_path)]


def test_many_processes_note_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from anabranch.state.trace import Trace\n"
        "one = Trace(Path(sys.argv[1]), 'shop/run')\n"
        "[one.note('info', 'e', 'x' * n, number=f'{sys.argv[2]}.{n}') for n in range(200)]"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"s{n}"]) for n in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    found = list(entries(tmp_path))
    assert {e["facts"]["number"] for e in found} == {f"s{a}.{b}" for a in range(4) for b in range(200)}
    assert len({e["id"] for e in found}) == 800


def test_noting_is_cheap(tmp_path: Path) -> None:
    one, begun = Trace(tmp_path, "shop/apply"), time.process_time()
    for _ in range(10_000):
        one.note("warning", "target_lost", code="target_unavailable")
    assert time.process_time() - begun < 2.0, "what is repeated costs no write"
