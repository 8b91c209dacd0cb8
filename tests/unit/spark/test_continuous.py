"""Epochs of `runner = "continuous"`: in order, never two at once, ended by what they raise, left for whoever waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import TargetUnavailable
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.spark import continuous
from anabranch.spark.continuous import ContinuousEpochs
from anabranch.testing.in_time import in_time
from anabranch.trail.writer import TrailWriter

PATIENCE = 180.0


class Target:
    """Takes epochs; `gate` holds them up, `failure` is raised instead."""

    def __init__(self) -> None:
        self.at, self.epochs, self.running = 0, list[int](), 0
        self.gate, self.failure = threading.Event(), None
        self.gate.set()

    def apply(self, upto: int) -> None:
        self.running += 1
        assert self.running == 1, "two epochs at once"
        assert self.gate.wait(PATIENCE)
        if self.failure is not None:
            raise self.failure
        self.at = upto
        self.epochs.append(upto)
        self.running -= 1


class Rig:
    def __init__(self, directory: Path) -> None:
        self.writer = TrailWriter.open(directory, job="shop", job_uuid="u", source_identity="s", pack=False)
        self.writer.flush()
        self.directory, self.target, self.sequence = directory, Target(), 0

    def follow(self, rows: int = continuous.EPOCH_ROWS) -> ContinuousEpochs:
        return ContinuousEpochs(self.directory, self.target.at, self.target.apply, lambda: self.target.at, rows)

    def commit(self, number: int = 1) -> None:
        """So many transactions, a chunk each, published together."""
        for _ in range(number):
            self.sequence += 1
            facts = {"native": f"log.1:{self.sequence}", "gtid": None, "commit_time": 0, "rows": 0}
            transactions = pa.RecordBatch.from_pylist([facts], schema=TRANSACTION_SCHEMA)
            self.writer.append(Chunk(transactions, (), (), Part.WHOLE, resume=str(self.sequence)))
        self.writer.flush()

    def reaches(self, sequence: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.target.at < sequence:
            in_time(end)
            time.sleep(0.002)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "trail")
    yield made
    made.writer.close()


def test_every_transaction_is_applied_once_in_order(rig: Rig) -> None:
    epochs = rig.follow()
    assert epochs.is_warm.wait(PATIENCE) and rig.target.epochs == []
    for _ in range(20):
        rig.commit(3)
        time.sleep(0.003)
    rig.reaches(60)
    epochs.stop()
    assert rig.target.epochs == sorted(set(rig.target.epochs)) and epochs.done == 60


def test_what_an_epoch_raises_comes_to_whoever_waits(rig: Rig) -> None:
    rig.target.failure = TargetUnavailable("gone")
    epochs = rig.follow()
    rig.commit()
    with pytest.raises(TargetUnavailable):
        for _ in range(900):
            epochs.wait(0.2)
    epochs.stop()
    assert rig.target.at == 0 and epochs.done == 1


def test_stopping_lets_the_running_epoch_finish_and_begins_none(rig: Rig) -> None:
    rig.target.gate.clear()
    epochs = rig.follow()
    rig.commit()
    while not rig.target.running:
        time.sleep(0.002)
    rig.commit()
    stopping = threading.Thread(target=epochs.stop)
    stopping.start()
    time.sleep(0.05)
    assert stopping.is_alive()
    rig.target.gate.set()
    stopping.join(PATIENCE)
    assert rig.target.epochs == [1]


def test_under_a_backlog_that_never_ends_others_get_their_turn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "STRETCH_SECONDS", 0.02)
    epochs, ended = rig.follow(), threading.Event()

    def write() -> None:
        while not ended.is_set():
            rig.commit()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(10):
            assert epochs.idle.acquire(timeout=PATIENCE)
            before = rig.target.at
            time.sleep(0.01)
            assert rig.target.at == before, "an epoch ran while somebody had the turn"
            epochs.idle.release()
            rig.reaches(before + 1)
    finally:
        ended.set()
        writing.join()
        epochs.stop()


def test_a_target_that_lost_commits_gets_them_again(rig: Rig) -> None:
    epochs = rig.follow()
    rig.commit(5)
    rig.reaches(5)
    with epochs.idle:
        rig.target.at = 2
    rig.reaches(5)
    epochs.stop()
    assert rig.target.epochs[-1] == 5 and len(rig.target.epochs) > 1
