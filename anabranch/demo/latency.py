"""Measurement of the time from the writer's clock until a transaction is visible at the target, from outside the job.

Both clocks are this machine's. What does not live here: the ledger rows themselves (writer.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC
from typing import Any, Self

from anabranch.demo.shop import schema_at
from anabranch.demo.words import words_of
from anabranch.testing.databases import Database

POLL_SECONDS = 0.01
CAUGHT_UP_SECONDS = 1.0
NEWEST = "SELECT writer, max(number) FROM {}.ledger GROUP BY writer"
NEWER = "SELECT number, written FROM {}.ledger WHERE writer = %s AND number > %s ORDER BY number"


class Distribution:
    """Counts per millisecond: bounded, however long the demo runs."""

    LONGEST = 600_000  # ms; what takes longer counts as this

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0

    def add(self, seconds: Iterable[float]) -> None:
        for value in seconds:
            bucket = min(max(round(value * 1000), 0), self.LONGEST)
            self.counts[bucket] = self.counts.get(bucket, 0) + 1
            self.total += 1

    def percentile(self, share: float) -> int | None:
        """Return the milliseconds that `share` (0 to 1) of all values do not exceed; None without values."""
        needed, seen = share * self.total, 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= needed:
                return bucket
        return None


class LatencyWatch:
    """A thread that looks for new ledger rows at the target, from its start until the context is left.

    What was written while the tables were still loading waits for the load, not for the stream. So rows count as
    `catching_up` until the job is steady: one was visible within a second (`caught_up_after`: seconds since the start),
    and whoever started this said so (`begin_steady`). From then on they are `latencies`.
    """

    def __init__(self, target: Database, workers: int) -> None:
        self.catching_up, self.latencies = Distribution(), Distribution()
        self.caught_up_after: float | None = None
        self.steady_after: float | None = None
        self._target, self._workers = target, workers
        self._started = time.time()
        self._stop = threading.Event()
        self._failures: list[Exception] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin_steady(self) -> None:
        """Note that only the writer's transactions are left to apply. Has no effect before the stream has caught up."""
        if self.steady_after is None and self.caught_up_after is not None:
            self.steady_after = time.time() - self._started

    def check(self) -> None:
        """Raise what ended the thread."""
        if self._failures:
            raise self._failures[0]

    def _watch(self) -> None:
        family = self._target.server.name
        try:
            with closing(self._target.connect()) as connection, closing(connection.cursor()) as cursor:
                self._look(cursor, schema_at(family))
        except words_of(family).driver_error as error:
            self._failures.append(error)

    def _look(self, cursor: Any, schema: str) -> None:
        """Ask for new rows again and again. A worker's transactions commit in the order of their numbers, so a new row
        has a higher one."""
        cursor.execute(NEWEST.format(schema))
        newest = dict.fromkeys(range(1, self._workers + 1), 0) | dict(cursor.fetchall())
        newer = NEWER.format(schema)
        while not self._stop.wait(POLL_SECONDS):
            for worker, number in newest.items():
                cursor.execute(newer, (worker, number))
                rows = cursor.fetchall()
                if rows:
                    newest[worker] = rows[-1][0]
                    self._saw([time.time() - written.replace(tzinfo=UTC).timestamp() for _, written in rows])

    def _saw(self, latencies: list[float]) -> None:
        (self.catching_up if self.steady_after is None else self.latencies).add(latencies)
        if self.caught_up_after is None and latencies[-1] < CAUGHT_UP_SECONDS:
            self.caught_up_after = time.time() - self._started
