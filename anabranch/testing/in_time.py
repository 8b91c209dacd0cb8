"""Waits of tests, and the error of one that was in vain. Nothing else raises `NotInTime`, above all no comparison: a test that
fails with it may be run once more (tests/second_run.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0  # of a wait for another process, thread or server; pytest ends a test after 900 s

Found = TypeVar("Found")


class NotInTime(AssertionError):
    """Raised where a wait was in vain. On a busy machine that may be the machine's fault."""


def pause(begun: float) -> None:
    """Sleep between two questions of a wait that began then (`time.monotonic()`): a tenth of what has been waited, at most a
    quarter of a second. What is asked costs processor time that those need who are waited for."""
    time.sleep(min(max(0.02, 0.1 * (time.monotonic() - begun)), 0.25))


def in_time(until: float, what: object = "it did not come in time") -> None:
    """Ask this in a loop that waits. `until` is of `time.monotonic()`. Raises NotInTime with `what` from then on."""
    if time.monotonic() >= until:
        raise NotInTime(str(what))


def until(
    condition: Callable[[], Found], what: object = "it did not come in time", patience: float = PATIENCE
) -> Found:
    """Ask until the answer is true, and return it. Raises NotInTime with `what` when it never was."""
    begun = time.monotonic()
    while not (found := condition()):
        in_time(begun + patience, what)
        pause(begun)
    return found
