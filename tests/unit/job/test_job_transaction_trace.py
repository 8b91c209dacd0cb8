"""One transaction through all stages: what is known of it in the trail, in state.db and at each target, and what is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.apply.told import PassedEpoch, Totals
from anabranch.cli import main as shell
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.errors import ConfigError, StateError
from anabranch.job import Job
from anabranch.job.watching import ApplyWatcher, CaptureWatcher
from anabranch.model.position import Position
from anabranch.model.state import Skipped
from anabranch.model.table_life import Facts, TableState
from anabranch.rows.chunk import Part
from anabranch.state.store import PASSAGES, StateStore
from anabranch.trail.writer import TrailWriter
from rigs import trail_source
from rigs.trail_source import NOTES, ORDERS

FILE = """name = "shop"
[source]
url = "memory:///one-source"
[[targets]]
name = "north"
url = "memory:///one-north"
[[targets]]
name = "south"
url = "postgresql://app:x@127.0.0.1:9/db?ssl_mode=disabled"
[[rules]]
include = ["shop.*"]
"""
BEGAN = 1_700_000_000_000_000
EPOCH = PassedEpoch(41, 1, Position(3, "log:3"), BEGAN, BEGAN + 5_000_000, {"shop.orders": 5}, {}, {}, ())


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Five transactions in the trail, of which one target has three, two in a noted epoch; the other is away."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    file = tmp_path / "shop.toml"
    file.write_text(FILE)
    made = Job.from_file(file)
    state = StateStore(made.config.home)
    state.part("capture", os.getpid(), os.uname().nodename)
    watcher = CaptureWatcher(state)
    with TrailWriter.open(made.trail, **trail_source.JOB, pack=False) as writer:
        for table in (ORDERS, NOTES):
            writer.schema(trail_source.definition(table))
        watcher.begins(writer)
        for first, last in ((1, 3), (4, 5)):
            writer.append(trail_source.chunk(first, last))
            writer.flush()
            watcher.written(writer)
    state.part_ended("capture", os.getpid(), os.uname().nodename)
    noted(made, EPOCH)
    target = MemoryStore(database("one-north"))
    target.prepare()
    target.create_checkpoint("shop", Position(3, "log:3"), 0)
    target.save_table("shop", TableState(ORDERS, ORDERS, "streaming"), None)
    facts = Facts(resumes=1)
    target.save_table("shop", TableState(NOTES, NOTES, "parked", reason="a row was refused", facts=facts), None)
    yield made
    forget()


def noted(job: Job, *epochs: PassedEpoch) -> None:
    """Have apply note epochs, and end."""
    with_state = StateStore(job.on("north").target_home)
    with_state.part("apply", os.getpid(), os.uname().nodename)
    totals = Totals()
    totals.passed.extend(epochs)
    ApplyWatcher(with_state).counted(totals)
    assert not totals.passed
    with_state.part_ended("apply", os.getpid(), os.uname().nodename)


def told(job: Job, *arguments: str) -> tuple[Any, Any, Any]:
    found = job.trace_transaction(*arguments)
    north, south = found.targets
    return found, north, south


def test_an_applied_transaction_is_told_with_its_epoch(job: Job) -> None:
    found, north, south = told(job, "3@log:3")
    assert (found.position, found.gtid, found.commit_time) == ("3@log:3", "gtid-3", "1970-01-01T00:00:00.003000Z")
    assert found.rows == {"shop.orders": 2, 'shop."odd.name"': 1}
    assert found.captured.state == "written" and all(found.captured.between)
    (place,) = found.captured.places
    assert place.segment.endswith(".segment") and place.offset > 0 and place.made_at
    assert (north.target, north.state, north.why, north.applied_upto) == ("north", "applied", "", "3@log:3")
    (epoch,) = north.epochs
    assert (epoch.number, epoch.transactions, epoch.changes) == (41, 2, {"shop.orders": 5})
    assert (epoch.began, epoch.committed) == ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:25.000000Z")
    assert north.tables == {'shop."odd.name"': "parked in front of it, waits in the trail: a row was refused"}
    assert south.state == "unknown" and "cannot be asked" in south.why


@pytest.mark.parametrize("arguments", [("3",), ("log:3",), ("", "gtid-3")])
def test_it_is_found_by_its_names(job: Job, arguments: tuple[str, ...]) -> None:
    assert told(job, *arguments)[0].position == "3@log:3"


def test_one_that_waits_says_for_whom(job: Job) -> None:
    _, north, _ = told(job, "5")
    assert (north.state, north.why, north.epochs) == ("waits", "for apply, which is not running", ())
    found, north, _ = told(job, "9")
    assert (found.captured.state, north.why) == ("not yet", "for capture") and found.rows == {}


def test_what_is_not_kept_is_said(job: Job) -> None:
    _, north, _ = told(job, "1")
    assert north.state == "applied" and "only the last stretches are kept" in north.why and not north.epochs
    with pytest.raises(ConfigError, match="no transaction 'log:77'"):
        job.trace_transaction("log:77")
    with pytest.raises(ConfigError, match="there is no 3@log:9, but 3@log:3"):
        job.trace_transaction("3@log:9")


def test_a_target_that_went_back_has_both_epochs(job: Job) -> None:
    noted(job, EPOCH)
    _, north, _ = told(job, "3")
    assert [one.number for one in north.epochs] == [41, 41]
    store = MemoryStore(database("one-north"))
    store.skip("shop", Skipped(3, "3@log:3", 0, {"shop.orders": 1}))
    assert told(job, "3")[1].state == "left out"


def test_a_large_transaction_has_all_its_pieces(job: Job) -> None:
    with TrailWriter.open(job.trail, **trail_source.JOB, pack=False) as writer:
        for part in (Part.FRAGMENT, Part.FRAGMENT, Part.LAST):
            writer.append(trail_source.chunk(6, 6, part=part))
        writer.flush()
    found, north, _ = told(job, "6")
    assert len(found.captured.places) == 3 and sum(found.rows.values()) == 3 * trail_source.row_count(6)
    assert found.captured.between == (None, None) and "are kept" in found.captured.why and north.state == "waits"


def test_without_a_trail_there_is_nothing_to_follow(job: Job) -> None:
    for file in job.trail.iterdir():
        file.unlink()
    with pytest.raises(StateError, match="no trail"):
        job.trace_transaction("3")


def test_the_command_tells_it_to_people_and_to_machines(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.exit_code(["trace", str(job.path), "--position", "3", "--target", "north"]) == 0
    text = capsys.readouterr().out
    for line in ("transaction  3@log:3  gtid-3", "capture      read: when is not kept", "target       north: applied"):
        assert line in text
    assert "epoch      41, 2 transactions, opened 2023-11-14T22:13:20" in text and "south" not in text
    assert shell.exit_code(["trace", str(job.path), "--xid", "gtid-5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["position"] == "5@log:5" and found["captured"]["read_at"] is None and len(found["targets"]) == 2
    assert found["captured"]["written_after"] <= found["captured"]["written_before"]
    assert shell.exit_code(["trace", str(job.path), "--position", "3", "--follow"]) == 2
    assert shell.exit_code(["trace", str(job.path), "--position", "3", "--xid", "x"]) == 2


def test_the_stretches_are_the_last_ones_and_cost_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path)
    store.part("apply", os.getpid(), os.uname().nodename)
    before = (tmp_path / "state.db").stat().st_mtime_ns
    for number in range(PASSAGES + 10):
        store.passed("apply", number, Position(number + 1, "x"), 1, 2)
    assert (tmp_path / "state.db").stat().st_mtime_ns == before
    store.seen("apply")
    store.passed("apply", PASSAGES + 10, Position(PASSAGES + 11, "x"), 3, 4, {"epoch": 7})
    store.seen("apply")
    (found,) = store.passages("apply", PASSAGES + 11)
    assert (found["began"], found["facts"]) == (3, {"epoch": 7})
    assert store.passages("apply", 11) == store.passages("capture", 12) == [] and len(store.passages("apply", 12)) == 1
    store.close()


def test_parts_take_no_stretch_from_each_other(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    for part in ("capture", "apply"):
        store.part(part, os.getpid(), os.uname().nodename)
    store.passed("apply", 0, Position(1, "x"), 1, 2)
    store.seen("apply")
    for number in range(2 * PASSAGES):
        store.passed("capture", number, Position(number + 1, "x"), 1, 2)
        if number % 900 == 0:
            store.seen("capture")
    store.seen("capture")
    assert len(store.passages("apply", 1)) == 1
    kept = store.last_passages("capture", 2 * PASSAGES)
    assert [one["sequence"] for one in kept] == list(range(PASSAGES + 1, 2 * PASSAGES + 1))
    store.close()


def test_of_an_epoch_of_many_tables_the_largest_are_named(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {f"shop.t{number}": number for number in range(1, 203)}
    noted(job, replace(EPOCH, changes=rows, parked=tuple(rows)))
    *_, epoch = told(job, "3")[1].epochs
    assert epoch.changes == {f"shop.t{number}": number for number in range(202, 182, -1)} and len(epoch.parked) == 20
    assert epoch.others == {"changes": {"tables": 182, "rows": sum(range(183))}, "parked": {"tables": 182}}
    assert shell.exit_code(["trace", str(job.path), "--position", "3", "--target", "north"]) == 0
    text = capsys.readouterr().out
    assert "shop.t183 183, 182 other tables 16,653, of the whole epoch" in text
    assert "shop.t20, 182 other tables" in text


def test_state_of_a_release_before_gets_its_table(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.part("apply", os.getpid(), os.uname().nodename)
    store._open().execute("DROP TABLE passage")
    store.last_error("it stays", 1, "apply")
    store.close()
    again = StateStore(tmp_path)
    again.passed("apply", 0, Position(1, "x"), 1, 2)
    again._parts["apply"] = {"name": "apply", "pid": 1, "host": "h", "at": "", "mark": ""}
    again.seen("apply")
    assert len(again.passages("apply", 1)) == 1 and again.snapshot()["last_error"]["message"] == "it stays"
    again.close()


def test_capture_that_writes_nothing_new_notes_nothing(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    watcher = CaptureWatcher(store)
    end = SimpleNamespace(end=SimpleNamespace(position=Position(4, "x"), commit_time=0))
    for _ in range(3):
        watcher.written(end)  # type: ignore[arg-type]  # asked for its end alone
    assert not store._passages
    store.close()
