"""Patience with an end that refuses or is away: pauses that grow, as long as [retry] says, or without limit where only
room is missing. An error's class says what it asks for (`errors.Retry`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anabranch import log
from anabranch.errors import AnabranchError, Retry, TargetBusy
from anabranch.model.endpoint import USUAL, EndLimits

FIRST_PAUSE = 0.2
REST = 1.0  # seconds between two tries without a pause: what succeeds in between may be the checkpoint's own commit
NO_PAUSE = 0.0  # behind the first refusal of a busy end: a deadlock is over for who has lost it, a lock was waited for
STEP = 0.1  # seconds between two questions whether to stop


@dataclass
class Patience:
    """Limits and pauses of one thing that is tried again until it works. Not for two threads."""

    stop: Callable[[], bool] = lambda: False
    retry: EndLimits = USUAL
    _failures: list[float] = field(default_factory=list, init=False)  # when, since the last success
    _pause: float = field(default=FIRST_PAUSE, init=False)
    _at_once: float = field(default=float("-inf"), init=False)  # when a try came without a pause

    def success(self) -> None:
        self._failures.clear()
        self._pause = FIRST_PAUSE

    def failure(self, error: AnabranchError) -> float:
        """Return the seconds to wait before the next try. Raises `error` when there shall be none."""
        now = time.monotonic()
        if error.retry is Retry.PATIENT:
            self._failures.clear()
        else:
            self._failures.append(now)
        if error.retry in (Retry.NEVER, Retry.MANUAL) or self._is_over(error) or self.stop():
            raise error
        if isinstance(error, TargetBusy) and len(self._failures) == 1 and now - self._at_once > REST:
            pause, self._at_once = NO_PAUSE, now
        else:
            pause, self._pause = self._pause, min(self._pause * 2, self.retry.interval)
        if log.is_detailed():
            log.get().debug("try_failed", tries=len(self._failures), error=error.message, again_in=pause)
        return pause

    def wait(self, seconds: float) -> None:
        """Wait that long, or until `stop` says so."""
        for _ in range(round(seconds / STEP)):
            if self.stop():
                return
            time.sleep(STEP)

    def _is_over(self, error: AnabranchError) -> bool:
        """Return whether the limit is reached. Both the time and the least number of tries have to be over: one try
        alone may take longer than the time."""
        seconds = self.retry.lock if isinstance(error, TargetBusy) else self.retry.away
        tries = len(self._failures)
        is_late = tries >= self.retry.least and tries > 0 and self._failures[-1] - self._failures[0] > seconds
        return is_late or tries > self.retry.tries
