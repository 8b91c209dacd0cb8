"""Epochs without triggers: one thread of the apply process that looks at the trail for as long as apply runs, and carries out
what it finds (`[apply] runner = "continuous"`). Spark plans nothing in between; it gets the work that is worth tasks.

The torture kit drives its epochs with it, too. What does not live here: Structured Streaming's way (epochs.py), what an
epoch does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from anabranch.trail.reader import TrailReader

EPOCH_ROWS = 500_000
WAIT_SECONDS = 0.2  # how long one question for news may wait
STRETCH_SECONDS = 1.0  # of epochs in a row; then whoever waits for `idle` gets it, which a lock alone does not promise
PAUSE_SECONDS = 0.001


class ContinuousEpochs:
    """Epochs without Spark's own batches (engine.py). `apply` is called in the thread; what it raises ends the epochs."""

    def __init__(
        self,
        trail: Path,
        start: int,
        apply: Callable[[int], None],
        at: Callable[[], int],
        epoch_rows: int = EPOCH_ROWS,
    ) -> None:
        self.idle, self.is_warm, self.done = threading.Lock(), threading.Event(), start
        self._trail, self._apply, self._at, self._rows = TrailReader(trail), apply, at, epoch_rows
        self._is_stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="anabranch-epochs", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure

    def start_again(self) -> None:
        """Do nothing: it writes nothing, so it never needs room."""

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._trail.close()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                with self.idle:
                    has_more = self._stretch()
                self.is_warm.set()
                if has_more:
                    time.sleep(PAUSE_SECONDS)
                else:
                    self._trail.wait(self._at(), WAIT_SECONDS)
        except BaseException as failure:  # noqa: BLE001 - carried over to the waiting thread
            self._failure = failure

    def _stretch(self) -> bool:
        """Run epochs until nothing is left, or for long enough: then returns True."""
        end = time.monotonic() + STRETCH_SECONDS
        while not self._is_stopping.is_set() and self._epoch():
            if time.monotonic() > end:
                return True
        return False

    def _epoch(self) -> bool:
        refs = self._trail.descriptors(self._at(), limit_rows=self._rows)
        if refs:
            self.done = refs[-1].last_sequence
            self._apply(self.done)
        return bool(refs)
