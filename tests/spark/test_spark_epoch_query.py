"""The streaming query that triggers epochs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.apply.stream import EpochQuery, warm_up
from anabranch.trail.writer import TrailWriter


class StopFirst:
    """The query's lock, where whoever stops it comes before an epoch that has just begun."""

    def __init__(self) -> None:
        self.waits, self.free, self.stopping = threading.Event(), threading.Event(), threading.current_thread()

    def __enter__(self) -> None:
        if threading.current_thread() is not self.stopping:
            self.waits.set()
            self.free.wait()

    def __exit__(self, *_: object) -> None:
        self.free.set()


@pytest.mark.timeout(90)
def test_stopping_waits_for_no_epoch_that_waits_for_it(spark: SparkSession, tmp_path: Path) -> None:
    with TrailWriter.open(tmp_path / "trail", job="shop", job_uuid="u", source_identity="s", pack=False) as writer:
        writer.flush()
        warm_up(spark)
        query = EpochQuery(spark, tmp_path / "trail", tmp_path / "spark", 0, lambda upto: None, lambda: 0)
        lock = query.idle = StopFirst()  # type: ignore[assignment]
        assert lock.waits.wait(60), "no epoch began"
        query.stop()
        assert not query.query.isActive and query.failure is None
