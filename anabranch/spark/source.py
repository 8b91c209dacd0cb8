"""The trail as a Spark streaming source. Its rows are descriptors of what there is to apply, few and small; who applies
reads the trail itself, and needs of the source that it triggers an epoch as soon as there is something.

Spark's offsets are `{"sequence": n, "round": r}`: n is the trail's sequence, r makes one first, empty epoch that warms
the query up before streaming is announced. The truth about progress is the target's checkpoint, never Spark's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anabranch.trail.reader import TrailReader

FORMAT = "anabranch-trail"
WAIT_SECONDS = 0.2  # how long one question for news may wait: idle costs one such question at a time
QUIET, QUIET_PAUSE = 10, 0.02  # questions in vain after which nothing is expected any more; seconds between looks then
SCHEMA = "first_sequence bigint, last_sequence bigint, rows bigint"


class TrailSource(DataSource):
    """Options: `path` the trail, `start` the sequence the target is at, `rows` how many images an epoch may have."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> TrailStreamReader:
        return TrailStreamReader(self.options["path"], int(self.options["start"]), int(self.options["rows"]))


class TrailPiece(InputPartition):
    """The transactions with after < sequence <= upto."""

    def __init__(self, after: int, upto: int) -> None:
        super().__init__(0)
        self.after, self.upto = after, upto


class TrailStreamReader(DataSourceStreamReader):
    """Lives in one Python process as long as the query."""

    def __init__(self, path: str, start: int, rows: int) -> None:
        self.path, self.start, self.rows = path, start, rows
        self._trail: TrailReader | None = None
        self._in_vain = 0  # questions in a row

    @property
    def trail(self) -> TrailReader:
        if self._trail is None:
            self._trail = TrailReader(self.path)
        return self._trail

    def initialOffset(self) -> dict[str, int]:
        return {"sequence": self.start, "round": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        if start["round"] == 0:
            return {"sequence": start["sequence"], "round": 1}
        after = start["sequence"]
        pause = QUIET_PAUSE if self._in_vain >= QUIET else 0.0
        end = self.trail.wait(after, WAIT_SECONDS, pause).position.sequence
        if end <= after:
            self._in_vain += 1
            return start
        self._in_vain = 0
        refs = self.trail.descriptors(after, end, limit_rows=self.rows)
        return {"sequence": max((ref.last_sequence for ref in refs), default=after), "round": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [TrailPiece(start["sequence"], end["sequence"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        assert isinstance(partition, TrailPiece)
        if partition.after < partition.upto:
            with TrailReader(self.path) as trail:
                for ref in trail.descriptors(partition.after, partition.upto):
                    yield ref.first_sequence, ref.last_sequence, ref.rows

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: Spark says it late or never."""

    def stop(self) -> None:
        """End the process if the JVM has closed the connection. Spark's loop calls this when it ends, which it does by
        an exception only.

        Then there is nobody left to tell: the loop would try, and print a traceback into the log.
        """
        if isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            os._exit(0)
