"""Sessions of several appliers, as many of them as a target gives: a server that is short of connections makes it slower, and
stops nobody.

What does not live here: what a session does (`target/appliers.py` of each family), whose turn it is (`apply/appliers.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from anabranch import log
from anabranch.errors import TargetBusy, TargetUnavailable

AGAIN_S = 10.0  # between two attempts to open a session that was not given


class Session(Protocol):
    def ready(self) -> None: ...
    def close(self) -> None: ...


Applier = TypeVar("Applier", bound=Session)


class Appliers(Generic[Applier]):
    """The sessions of an owner's appliers, by their numbers from 0. Not for two threads. `make` makes one that is not open."""

    def __init__(self, make: Callable[[int], Applier], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._opened: dict[int, Applier] = {}
        self._again, self._told = 0.0, False

    def ready(self, number: int, job: str) -> Sequence[Applier]:
        """Return up to `number` sessions with nothing open, those that the target gives; none, and none is open, where it gives
        less than two. Tells the log once of those that are not given, until all are there again. Raises TargetBusy."""
        for one in range(number):
            if one in self._opened or self._clock() >= self._again:
                self._get_ready(one, job)
        if len(self._opened) == number:
            self._told = False
        if len(self._opened) < 2:
            self.close()
        return [self._opened[one] for one in sorted(self._opened)]

    def _get_ready(self, one: int, job: str) -> None:
        applier = self._opened.get(one) or self._make(one)
        try:
            applier.ready()
        except TargetBusy:  # another session is in the way, and not too many of them
            raise
        except TargetUnavailable as error:
            self._opened.pop(one, None)
            self._again = self._clock() + AGAIN_S
            applier.close()
            if not self._told:
                self._told = True
                log.get(job=job).warning("applier_is_not_given", number=one + 1, reason=error.message)
            return
        self._opened[one] = applier

    def close(self) -> None:
        """Close all."""
        for one in self._opened.values():
            one.close()
        self._opened.clear()
