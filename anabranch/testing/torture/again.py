"""A process of a deed that is begun until one of them ends well.

What does not live here: what it does (local.py), what a deed is (deeds.py).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anabranch.testing.torture.parts import Ended, Parts, Running

AGAIN_SECONDS = 0.05  # before a process that ended is begun again
KILLED = 0.3  # of the deeds: their first process
LATEST_KILL = 0.4  # seconds


@dataclass
class Again:
    """`judge` is given each process that ended otherwise than well, unless by one of `expected` errors, or by us: `draw` says
    whether the first one is killed on its way."""

    part: str
    parts: Parts
    judge: Callable[[Ended], None]
    draw: int
    expected: frozenset[str] = frozenset({"Fenced"})
    _running: Running | None = field(default=None, init=False)
    _kill_at: float = field(default=0.0, init=False)
    _pause: float = field(default=0.0, init=False)

    def turn(self) -> bool:
        """Do one step; return whether a process has ended well."""
        if self._running is None:
            if time.monotonic() > self._pause:
                self._running = self.parts.begin(self.part)
                self._kill_at = self._kill_at or self._first_kill()
            return False
        if time.monotonic() > self._kill_at > 0:
            self._kill_at = float("inf")
            if self._running.process.send(signal.SIGKILL):
                self._running.process.wait(10)
                self._running = None
                return False
        if (ended := self._running.ended()) is None:
            return False
        self._running, self._pause = None, time.monotonic() + AGAIN_SECONDS
        if ended.code and ended.error not in self.expected:
            self.judge(ended)
        return ended.code == 0

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def _first_kill(self) -> float:
        drawn = random.Random(f"{self.part} {self.draw}")
        dies = drawn.random() < KILLED
        return time.monotonic() + drawn.uniform(0.0, LATEST_KILL) if dies else float("inf")
