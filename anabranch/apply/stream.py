"""The Structured Streaming query of a job: one epoch after another, each carried out by a callable of ours.

Spark triggers; how far an epoch goes is read from the trail when it begins, so that it takes what came while Spark was
planning, too. An action on the query's own rows would cost more than a small epoch (a Spark job, a Python task), and
tell nothing new. The query's checkpoint is emptied at every start: where to go on is the target's to say (K9).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from anabranch.spark.source import FORMAT, TrailSource
from anabranch.trail.reader import TrailReader

EPOCH_ROWS = 500_000


def warm_up(spark: SparkSession) -> None:
    """What a first query needs anyway, done while the load still runs: the source known, a Python worker started."""
    spark.dataSource.register(TrailSource)
    spark.sparkContext.parallelize([0], 1).map(abs).collect()


class EpochQuery:
    """Runs `apply(upto)` for every epoch until it raises or `stop` is called. `apply` is never called twice at once."""

    def __init__(self, spark: SparkSession, trail: Path, checkpoint: Path, start: int, apply: Callable[[int], None]):
        self.apply = apply
        self.failure: BaseException | None = None
        self.is_warm = threading.Event()
        self.is_stopping = threading.Event()
        self.idle = threading.Lock()  # held while an epoch runs
        self._trail, self._done = TrailReader(trail), start
        options = {"path": str(trail), "start": str(start), "rows": str(EPOCH_ROWS)}
        stream = spark.readStream.format(FORMAT).options(**options).load()
        writer = stream.writeStream.foreachBatch(self._epoch).option("checkpointLocation", str(_emptied(checkpoint)))
        self.query: StreamingQuery = writer.start()

    def _epoch(self, frame: DataFrame, number: int) -> None:
        with self.idle:
            if not self.is_stopping.is_set():
                self._guarded()
        self.is_warm.set()

    def _guarded(self) -> None:
        """Our errors go to whoever waits for the query, as they are; Spark would wrap them into a trace of its own."""
        try:
            self._apply()
        except BaseException as failure:  # noqa: BLE001 - carried over to the waiting thread
            self.failure = failure
            self.is_stopping.set()

    def _apply(self) -> None:
        refs = self._trail.descriptors(self._done, limit_rows=EPOCH_ROWS)
        if refs:
            upto = refs[-1].last_sequence
            self.apply(upto)
            self._done = upto

    def wait(self, seconds: float) -> None:
        """Raises what `apply` raised, or what ended the query."""
        if not self.is_stopping.is_set():
            self.query.awaitTermination(seconds)
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Let the running epoch finish, then end the query."""
        self.is_stopping.set()
        with self.idle:
            self.query.stop()
            self._trail.close()


def _emptied(checkpoint: Path) -> Path:
    """A directory of this process; those of processes that are gone are removed. One that still lives is being replaced
    and finds that out at the target (K9): it must not stumble over its checkpoint first."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    for left in checkpoint.iterdir():
        if not (left.name.isdigit() and _is_alive(int(left.name))) or left.name == str(os.getpid()):
            shutil.rmtree(left, ignore_errors=True)
    return checkpoint / str(os.getpid())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
