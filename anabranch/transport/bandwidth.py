"""A limit of bytes a second, which may depend on the hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

SLEEP = 0.5


@dataclass(frozen=True, slots=True)
class Hours:
    """A limit from a minute of the day to another, which may be behind midnight. `limit`: bytes a second, None for none."""

    start: int
    end: int
    limit: float | None

    def has(self, at: int) -> bool:
        return self.start <= at < self.end if self.start <= self.end else at >= self.start or at < self.end


class Limiter:
    """Makes whoever sends wait so that no more than the limit goes out, with at most a quarter of a second's bytes at once."""

    def __init__(
        self,
        limit: float | None = None,
        hours: tuple[Hours, ...] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        of_day: Callable[[], time.struct_time] = time.localtime,
    ) -> None:
        self._limit, self._hours = limit, hours
        self._clock, self._of_day = clock, of_day
        self._owed, self._at = 0.0, clock()

    def limit(self) -> float | None:
        """Return the limit of now: that of the first hours that have it, else the one for all hours."""
        now = self._of_day()
        at = now.tm_hour * 60 + now.tm_min
        return next((one.limit for one in self._hours if one.has(at)), self._limit)

    def spend(self, count: int) -> None:
        """Note bytes that go out."""
        self._owed += count

    def pause(self) -> float:
        """Return for how many seconds nothing may go out now, at most SLEEP: ask again then, the hour may have changed."""
        limit, now = self.limit(), self._clock()
        passed, self._at = now - self._at, now
        if limit is None:
            self._owed = 0.0
            return 0.0
        self._owed = max(-limit / 4, self._owed - passed * limit)
        return min(SLEEP, max(0.0, self._owed / limit))
