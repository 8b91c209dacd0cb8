"""The streaming query that triggers epochs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.epochs import EpochQuery, warm_up
from anabranch.trail.writer import TrailWriter

# Spark's own loop for streaming sources, with the JVM's side played: it says what the loop asks for, then closes the line.
LOOP = """
import io, sys
from pyspark.serializers import CPickleSerializer, write_int, write_with_length
from pyspark.sql.streaming.python_streaming_source_runner import main
from anabranch.spark.source import TrailSource

class Line(io.BytesIO):
    def write(self, data):
        if self.tell():
            raise BrokenPipeError("the JVM is gone")
        return super().write(data)

said = io.BytesIO()
write_with_length(("%d.%d" % sys.version_info[:2]).encode(), said)
write_with_length(b".", said)
write_int(0, said)
CPickleSerializer()._write_with_length(TrailSource({"path": "t", "start": "0", "rows": "1"}), said)
write_with_length(b'{"type": "struct", "fields": []}', said)
write_int(1, said)
said.seek(0)
main(said, Line())
"""


def test_the_source_ends_without_a_word_when_the_jvm_has_closed_the_line() -> None:
    done = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


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


@pytest.mark.timeout(1200)
def test_stopping_waits_for_no_epoch_that_waits_for_it(spark: SparkSession, tmp_path: Path) -> None:
    with TrailWriter.open(tmp_path / "trail", job="shop", job_uuid="u", source_identity="s", pack=False) as writer:
        writer.flush()
        warm_up(spark)
        query = EpochQuery(spark, tmp_path / "trail", tmp_path / "spark", 0, lambda upto: None, lambda: 0)
        lock = query.idle = StopFirst()
        assert lock.waits.wait(180), "no epoch began"
        query.stop()
        assert not query.query.isActive and query.failure is None
