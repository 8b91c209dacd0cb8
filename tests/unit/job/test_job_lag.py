"""How long the target is behind: what the trail and capture's notes say, and when nobody knows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.connectors.memory.source.capture import mark
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.job import Job
from anabranch.job.lag import FRESH_SECONDS, Lag, Oldest
from anabranch.job.lag_stages import (
    APPLYING,
    READ_NOT_WRITTEN,
    SOURCE_NOT_READ,
    STAGES,
    WAITING_FOR_LOCKS,
    WRITTEN_NOT_PLANNED,
)
from anabranch.job.watching import ApplyWatcher, CaptureWatcher
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.metrics import EPOCH_BEGAN, EPOCH_END
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Checkpoint
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.state import store
from anabranch.state.store import StateStore
from anabranch.trail.writer import TrailWriter

HOUR = 3600.0
Says = Callable[..., float | None]


def chunk(*ages: float, first: int = 1, part: Part = Part.WHOLE) -> Chunk:
    """One transaction for each age, in seconds; transaction n of the source is at place n."""
    rows = [
        {"native": str(first + n), "gtid": None, "commit_time": microseconds(age), "rows": 0}
        for n, age in enumerate(ages)
    ]
    resume = mark("lag_source", first + len(ages) - 1).resume
    return Chunk(pa.RecordBatch.from_pylist(rows, TRANSACTION_SCHEMA), (), (), part, resume=resume)


def microseconds(age: float) -> int:
    return int((time.time() - age) * 1_000_000)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The clock stands, half a second behind a whole one: ages do not grow while a busy machine goes on."""
    moment = time.time() // 1 + 0.5
    monkeypatch.setattr(time, "time", lambda: moment)
    monkeypatch.setattr(time, "time_ns", lambda: int(moment * 1_000_000_000))
    return moment


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    file = tmp_path / "job.toml"
    ends = '[source]\nurl = "memory:///lag_source"\n[target]\nurl = "memory:///lag_target"\n'
    file.write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    yield Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    forget()


@pytest.fixture
def trail(job: Job) -> Iterator[TrailWriter]:
    """It begins at the source's place 0."""
    identity = database("lag_source").identity
    with TrailWriter.open(job.trail, job="shop", job_uuid="u", source_identity=identity, pack=False) as made:
        made.heartbeat(mark(identity, 0))
        made.flush()
        yield made


@pytest.fixture
def says(job: Job) -> Iterator[Says]:
    """The lag where `applied` is applied, capture lives or not, and was at the source's end `at_end` seconds ago."""
    made = Lag(job.trail)

    def ask(
        applied: int, *, capture: bool = True, phase: str = "streaming", at_end: float | None = None, **asked: Any
    ) -> float | None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - (at_end or 0)))
        snapshot = {
            "phase": phase,
            "parts": [{"name": "capture"}] if capture else [],
            "positions": {} if at_end is None else {"source_end": {"text": "0@0", "at": at}},
        }
        return made.seconds(snapshot, Checkpoint("o", 1, Position(applied, str(applied)), 1), **asked)

    yield ask
    made.close()


def write(trail: TrailWriter, *chunks: Chunk) -> None:
    for one in chunks:
        trail.append(one)
    trail.flush()


def test_what_is_not_applied_is_as_old_as_its_oldest_transaction(trail: TrailWriter, says: Says) -> None:
    """Not as old as what was applied before it: an hour may have been quiet."""
    write(trail, chunk(HOUR, 40, 30), chunk(20, first=4))
    for capture in (True, False):
        assert says(0, capture=capture) == pytest.approx(HOUR, abs=1)
        assert says(1, capture=capture) == pytest.approx(40, abs=1)
        assert says(2, capture=capture, phase="waiting") == pytest.approx(30, abs=1)
        assert says(3, capture=capture, at_end=0.0) == pytest.approx(20, abs=1)


def test_a_large_transaction_is_as_old_as_its_end(trail: TrailWriter, says: Says) -> None:
    write(trail, chunk(0.0, part=Part.FRAGMENT), chunk(0.0, part=Part.FRAGMENT), chunk(77.0, part=Part.LAST))
    assert says(0) == pytest.approx(77, abs=1)


def test_all_of_the_trail_applied_is_no_lag_only_where_the_trail_has_all(trail: TrailWriter, says: Says) -> None:
    """Capture may be an hour behind the source, and apply at the trail's end."""
    write(trail, chunk(HOUR))
    assert says(1) == pytest.approx(HOUR, abs=1)
    assert says(1, is_all_read=False) == pytest.approx(HOUR, abs=1)
    assert says(1, is_all_read=False, capture=False) == pytest.approx(HOUR, abs=1)
    assert says(1, is_all_read=True, capture=False) == 0.0
    assert says(1, at_end=0.0) == says(1, at_end=FRESH_SECONDS - 3) == 0.0
    assert says(1, at_end=0.0, phase="waiting") == 0.0, "for another part"


def test_what_the_source_has_since_is_younger_than_the_last_look_at_its_end(trail: TrailWriter, says: Says) -> None:
    write(trail, chunk(HOUR))
    assert says(1, at_end=60.0) == pytest.approx(60, abs=1)
    assert 0.0 < (says(1, at_end=0.0, is_all_read=False) or 0.0) < 5, "what was asked last counts"


def test_nobody_knows(trail: TrailWriter, says: Says, tmp_path: Path) -> None:
    assert says(0) is None, "nothing was read yet"
    write(trail, chunk(HOUR))
    assert says(1, capture=False) is None and says(1, capture=False, at_end=0.0) is None
    assert says(1, phase="waiting") is None
    none = {"phase": "streaming", "parts": [], "positions": {}}
    assert Lag(tmp_path / "nowhere").seconds(none, Checkpoint("o", 1, Position(1, "1"), 1)) is None
    assert Lag(tmp_path / "nowhere").seconds(none, None) is None


def target_at(job: Job, sequence: int) -> None:
    store = MemoryStore(database("lag_target"))
    store.prepare()
    store.create_checkpoint("shop", Position(sequence, str(sequence)), microseconds(HOUR))


def commit(source: Database, count: int) -> None:
    for n in range(count):
        with source.transaction() as open_:
            open_.insert(TableId("shop", "a"), {"id": str(len(source.log) + n)})


def test_status_asks_the_source_whether_the_trail_has_all(job: Job, trail: TrailWriter) -> None:
    source, key = database("lag_source"), Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
    source.create(TableSchema(TableId("shop", "a"), (key,), ("id",)))
    write(trail, chunk(HOUR))
    target_at(job, 1)
    commit(source, 1)
    assert amounts(job) == (0.0, 0)
    commit(source, 1)
    lag = job.status()["targets"][0]["lag"]
    assert lag["seconds"] == pytest.approx(HOUR, abs=1) and lag["bytes"] == 1
    trail.heartbeat(mark(source.identity, 2))
    trail.flush()
    assert amounts(job) == (0.0, 0), "nothing of ours in it"


def amounts(job: Job) -> tuple[float | None, int | None]:
    lag = job.status()["targets"][0]["lag"]
    return lag["seconds"], lag["bytes"]


def stages(job: Job, what: str = "seconds") -> dict[str, Any]:
    return {one["stage"]: one[what] for one in job.status()["targets"][0]["lag"]["stages"]}


def test_stages_say_where_the_oldest_transaction_is_and_how_much_of_the_log_is_where(
    job: Job, trail: TrailWriter
) -> None:
    """The source has six, the trail four; one is applied, and apply is at work on the next two since ten seconds."""
    source, key = database("lag_source"), Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
    source.create(TableSchema(TableId("shop", "a"), (key,), ("id",)))
    commit(source, 6)
    write(trail, chunk(HOUR, 100, 90, 80))
    target_at(job, 1)
    state = StateStore(job.config.home)
    assert stages(job) == {
        SOURCE_NOT_READ: None,
        READ_NOT_WRITTEN: None,
        WRITTEN_NOT_PLANNED: pytest.approx(100, abs=1),
        WAITING_FOR_LOCKS: 0,
        APPLYING: 0,
    }
    for part in ("capture", "apply"):
        state.part(part, os.getpid(), os.uname().nodename)
    state.phase("streaming")
    state.gauge("apply", {EPOCH_END: 3, EPOCH_BEGAN: microseconds(10) // 1000})
    state.seen("apply")
    found = stages(job)
    assert found[APPLYING] == pytest.approx(10, abs=1) and found[WRITTEN_NOT_PLANNED] == pytest.approx(90, abs=1)
    assert stages(job, "bytes") == dict(zip(STAGES, (2, 0, 1, 0, 2), strict=True)), "of the memory's log: commits"
    assert sum(stages(job, "bytes").values()) == amounts(job)[1]
    state.waits("apply", "there", "for a lock on public.a, held by process 7 (user u), idle at there")
    assert stages(job, "bytes") == dict(zip(STAGES, (2, 0, 1, 2, 0), strict=True))
    lag = job.status()["targets"][0]["lag"]
    assert lag["culprit"]["kind"] == "lock" and lag["culprit"]["held_by"] == "process 7 (user u), idle"
    state.part_ended("apply", os.getpid(), os.uname().nodename)
    assert stages(job, "bytes") == dict(zip(STAGES, (2, 0, 3, 0, 0), strict=True)), "nobody carries anything out"
    assert job.status()["targets"][0]["lag"]["culprit"]["kind"] == "part"
    state.close()


def test_an_estimate_is_made_of_what_the_parts_have_kept(
    job: Job, trail: TrailWriter, now: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a minute the source came from 30 to 40 commits, the target from 0 to 20: it takes another two for the rest."""
    source, key = database("lag_source"), Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
    source.create(TableSchema(TableId("shop", "a"), (key,), ("id",)))
    commit(source, 40)
    write(trail, chunk(*[HOUR] * 40))
    target_at(job, 20)
    state, host = StateStore(job.config.home), os.uname().nodename
    for part in ("capture", "apply"):
        state.part(part, os.getpid(), host)
    state.phase("streaming")
    clock = SimpleNamespace(time=lambda: now - clock.ago, monotonic=lambda: 1000 - clock.ago, ago=60.0)
    monkeypatch.setattr(store, "time", clock)
    for number in range(13):
        clock.ago = 60 - 5 * number
        state.position("written", Position(40, "40"))
        state.position("applied", Position(20 * number // 12, str(20 * number / 12).partition(".")[0]))
        state.position("log_end", str(30 + 10 * number // 12))
        state.seen("apply")
    lag = job.status()["targets"][0]["lag"]
    assert lag["eta"]["seconds"] == pytest.approx(120, rel=0.3) and lag["eta"]["error"] is None
    assert lag["bytes"] == 20 and lag["eta"]["at"] > job.status()["at"]
    state.phase("waiting", "for the target", "target")
    assert job.status()["targets"][0]["lag"]["eta"] is None, "it does not go on"
    state.close()


def test_a_change_that_is_carried_out_is_named_and_what_it_waits_for(job: Job, trail: TrailWriter) -> None:
    """Not before apply has come to it."""
    source, key = database("lag_source"), Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
    source.create(TableSchema(TableId("shop", "a"), (key,), ("id",)))
    commit(source, 3)
    write(trail, chunk(HOUR))
    trail.alter(TableSchema(TableId("shop", "a"), (key, replace(key, name="b")), ("id",), version=2), "ALTER TABLE a")
    write(trail, chunk(90, 80, first=2))
    target_at(job, 1)
    state = StateStore(job.config.home)
    for part in ("capture", "apply"):
        state.part(part, os.getpid(), os.uname().nodename)
    state.phase("streaming")
    assert job.status()["targets"][0]["lag"]["culprit"] is None
    state.gauge("apply", {EPOCH_END: 3, EPOCH_BEGAN: microseconds(10) // 1000})
    state.seen("apply")
    found = job.status()["targets"][0]["lag"]["culprit"]
    assert (found["kind"], found["tables"], found["position"]) == ("change", ["shop.a"], "2@2") and found["since"]
    ApplyWatcher(state).builds(["shop.a"])
    assert job.status()["targets"][0]["lag"]["culprit"]["kind"] == "building"
    ApplyWatcher(state).builds([])
    assert job.status()["targets"][0]["lag"]["culprit"]["kind"] == "change"
    state.close()


def test_a_large_transaction_of_the_trail_is_known_by_its_rows(job: Job, trail: TrailWriter) -> None:
    write(trail, chunk(1.0), chunk(0.0, first=2, part=Part.FRAGMENT), chunk(77.0, first=2, part=Part.LAST))
    lag = Lag(job.trail)
    assert lag.oldest(0) == Oldest(Position(1, "1"), lag.oldest(0).commit_time, 0, 0)  # type: ignore[union-attr]  # there is one, else it fails
    found = lag.oldest(1)
    assert found is not None and found.position == Position(2, "2") and lag.native_at(2) == "2"
    lag.close()


def test_read_is_what_capture_has_read_and_at_least_what_is_written(job: Job, trail: TrailWriter) -> None:
    state = StateStore(job.config.home)
    watcher = CaptureWatcher(state)
    watcher.read(Position(1, "1"), microseconds(0))
    state.part("capture", os.getpid(), os.uname().nodename)
    read, written = (job.status()["positions"][name]["text"] for name in ("read", "written"))
    assert (read, written) == ("1@1", "0@0"), "its flush is waiting"
    write(trail, chunk(9, 8))
    assert job.status()["positions"]["read"] == job.status()["positions"]["written"]
    assert job.status()["positions"]["written"]["text"] == "2@2"
    state.close()


def test_what_capture_notes_of_the_end_is_in_state(job: Job, trail: TrailWriter) -> None:
    state = StateStore(job.config.home)
    CaptureWatcher(state).at_end(trail)
    noted = state.snapshot()["positions"]["source_end"]
    state.close()
    assert noted["text"] == "0@0"


def test_pitfall_45_a_clock_that_was_set_back_makes_no_old_word_fresh(trail: TrailWriter, says: Says) -> None:
    """What capture noted an hour "from now" was noted before the clock was set; nor is anything younger than nothing."""
    write(trail, chunk(-HOUR))
    assert says(1, at_end=1) == 0.0 and says(1, at_end=-HOUR) == 0.0
    assert says(1, at_end=-HOUR, phase="waiting") is None
    assert says(0) == 0.0
