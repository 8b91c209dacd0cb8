"""Rates of what is counted, over the last seconds, and how long what is left takes at such a rate.

What does not live here: what is counted (`measures.py`, `flows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

RATE_S = 5.0  # a rate is that of the last so many seconds


class Rate:
    """A rate of something that is counted, over the last `over` seconds. `is_of_work`: seconds before something was counted do
    not count; else they do, as they have to where it is counted by large pieces."""

    def __init__(self, over: float = RATE_S, *, is_of_work: bool = True) -> None:
        self._over, self._is_of_work = over, is_of_work
        self._seen: list[tuple[float, int]] = []

    def after(self, now: float, count: int | None) -> float | None:
        """Return the rate with this count; None at the first one. A count that falls has begun anew. `now`: monotonic."""
        if count is None or (self._seen and count < self._seen[-1][1]):
            self._seen = []
        if count is None:
            return None
        self._seen.append((now, count))
        while len(self._seen) > 2 and (now - self._seen[1][0] >= self._over or self._rested()):
            self._seen.pop(0)
        began, first = self._seen[0]
        return (count - first) / (now - began) if began < now else None

    def _rested(self) -> bool:
        return self._is_of_work and self._seen[0][1] == self._seen[1][1]


@dataclass(frozen=True)
class Remaining:
    """The rest of something. `rate`: in a second, `seconds`: until its end at that rate; None where nobody can say."""

    rate: float | None
    seconds: float | None


NOT_KNOWN = Remaining(None, None)


def remaining(rate: float | None, done: int, total: int | None) -> Remaining:
    """Return what is left of `total`, an estimate of which more may have come already."""
    left = None if total is None else max(0, total - done)
    return Remaining(rate, left / rate if left is not None and rate else None)
