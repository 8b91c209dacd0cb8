"""Say for how long the oldest transaction waits that was published and is not acknowledged."""

from __future__ import annotations

import time
from collections import deque

SAMPLES = 4096


class Lag:
    """Transactions by when they were seen; the oldest of more than SAMPLES are forgotten."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=SAMPLES)
        self._acknowledged = -1

    def see(self, sequence: int) -> None:
        """Note that the trail is published up to there."""
        if sequence > (self._seen[-1][0] if self._seen else self._acknowledged):
            self._seen.append((sequence, time.monotonic()))

    def acknowledge(self, sequence: int) -> None:
        """Note that it is durable at the next store up to there; that may be less than before, where a replica is new."""
        self._acknowledged = sequence
        while self._seen and self._seen[0][0] <= sequence:
            self._seen.popleft()

    def seconds(self) -> float:
        return time.monotonic() - self._seen[0][1] if self._seen else 0.0
