"""Waits of tests, and the error of one that was in vain. Nothing else raises `NotInTime`, above all no comparison: a test that
fails with it may be run once more (tests/second_run.py)."""

from __future__ import annotations

import time


class NotInTime(AssertionError):
    """Raised where a wait was in vain. On a busy machine that may be the machine's fault."""


def in_time(until: float, what: object = "it did not come in time") -> None:
    """Ask this in a loop that waits. `until` is of `time.monotonic()`. Raises NotInTime with `what` from then on."""
    if time.monotonic() >= until:
        raise NotInTime(str(what))
