"""The Structured Streaming query of a job: one epoch after another, each carried out by a callable of ours.

Spark triggers; how far an epoch goes is read from the trail when it begins, so that it takes what came while Spark was
planning, too. A trigger's batch lingers while the trail brings more: planning the next one takes ten
epochs' time. An action on the query's own rows would cost more than a small epoch (a Spark job, a Python task), and tell
nothing new. The query's checkpoint is emptied at every start: where to go on is the target's to say (K9).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from anabranch.errors import StorageFull
from anabranch.spark.cluster import is_cluster, on_driver
from anabranch.spark.session import driver_python
from anabranch.spark.source import FORMAT, TrailSource
from anabranch.spark.work import is_alive
from anabranch.trail.failures import FULL, writing
from anabranch.trail.reader import TrailReader

EPOCH_ROWS = 500_000
LINGER_SECONDS = 0.2  # without news, until the batch is given back to Spark
LONGEST_BATCH_SECONDS = 2.0  # also with news: what is done between batches is due
POLL_SECONDS = 0.004
CHECKPOINT = "Spark's checkpoint"
NO_ROOM = tuple(os.strerror(number) for number in FULL)  # the JVM's message is the system's


def warm_up(spark: SparkSession) -> None:
    """Prepare a first query while the load still runs: the source known, a Python worker started. Not in a cluster, whose
    executors an idle stream does not need."""
    with on_driver(spark.sparkContext, driver_python):
        spark.dataSource.register(TrailSource)
    if not is_cluster(spark.sparkContext.master):
        spark.sparkContext.parallelize([0], 1).map(abs).collect()


class EpochQuery:
    """Runs `apply(upto)` for every epoch until it raises or `stop` is called. `apply` is never called twice at once; `at`
    says where the target is. `done`: up to where was applied once."""

    def __init__(
        self,
        spark: SparkSession,
        trail: Path,
        checkpoint: Path,
        start: int,
        apply: Callable[[int], None],
        at: Callable[[], int],
    ) -> None:
        self.apply, self.at = apply, at
        self.failure: BaseException | None = None
        self.is_warm = threading.Event()
        self.is_stopping = threading.Event()
        self.idle = threading.Lock()  # held while an epoch runs
        self._trail, self.done = TrailReader(trail), start
        self._spark, self._directory, self._checkpoint = spark, trail, checkpoint
        self.query = self._start(start)

    def _start(self, at: int) -> StreamingQuery:
        options = {"path": str(self._directory), "start": str(at), "rows": str(EPOCH_ROWS)}
        with _room(), writing(CHECKPOINT):
            place = _emptied(self._checkpoint).absolute().as_uri()  # else it is a path of the cluster's own file system
            with on_driver(self._spark.sparkContext, driver_python):
                stream = self._spark.readStream.format(FORMAT).options(**options).load()
            return stream.writeStream.foreachBatch(self._epoch).option("checkpointLocation", place).start()

    def start_again(self) -> None:
        """Start again where the target is, with an empty checkpoint, after StorageFull. Raises StorageFull while there
        is no room.
        """
        self.query.stop()
        self.query = self._start(self.at())

    def _epoch(self, frame: DataFrame, number: int) -> None:
        with self.idle:
            if not self.is_stopping.is_set():
                self._guarded()
        self.is_warm.set()

    def _guarded(self) -> None:
        """Run an epoch; its error is kept as it is for the thread that waits. Spark would wrap it into a trace of its own."""
        try:
            self._apply()
        except BaseException as failure:  # noqa: BLE001 - carried over to the waiting thread
            self.failure = failure
            self.is_stopping.set()

    def _apply(self) -> None:
        begun = news = time.monotonic()
        while not self.is_stopping.is_set() and (now := time.monotonic()) < begun + LONGEST_BATCH_SECONDS:
            refs = self._trail.descriptors(self.at(), limit_rows=EPOCH_ROWS)
            if refs:
                self.done = refs[-1].last_sequence
                self.apply(self.done)
                news = time.monotonic()
            elif now > news + LINGER_SECONDS:
                return
            else:
                time.sleep(POLL_SECONDS)

    def wait(self, seconds: float) -> None:
        """Wait. Raises what `apply` raised, or what ended the query: StorageFull where its checkpoint found no room."""
        if not self.is_stopping.is_set():
            with _room():
                self.query.awaitTermination(seconds)
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Let the running epoch finish, then end the query. It waits for an epoch that begins now, which waits for nobody."""
        self.is_stopping.set()
        with self.idle:
            pass
        self.query.stop()
        self._trail.close()


@contextmanager
def _room() -> Iterator[None]:
    """Translate the JVM's error for a full disk: the checkpoint lies beside the trail."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if any(words in str(error) for words in NO_ROOM):
            raise StorageFull(f"no room left for {CHECKPOINT}") from error
        raise


def _emptied(checkpoint: Path) -> Path:
    """Return an empty directory of this process; those of processes that are gone are removed.

    A process that still lives is being replaced and finds that out at the target (K9): it must not stumble over its
    checkpoint first.
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    for left in checkpoint.iterdir():
        if not (left.name.isdigit() and is_alive(int(left.name))) or left.name == str(os.getpid()):
            shutil.rmtree(left, ignore_errors=True)
    return checkpoint / str(os.getpid())
