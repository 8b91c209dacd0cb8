"""Looks at a target only where it is what the source was at one place of the log: with `[apply] commit_order = "relaxed"` that
is between two barriers not so. What does not live here: how a target is asked (`target/verify.py` of each family)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from anabranch.errors import TargetBusy

WAIT_S, POLL_S = 10.0, 0.002  # a barrier lasts until the next run's first commit
T = TypeVar("T")


def at_barrier(look: Callable[[], T], is_between: Callable[[T], bool], leave: Callable[[], None]) -> T:
    """Return what a look in a snapshot finds, in one which has nothing that is applied beyond the checkpoint. Raises TargetBusy
    where none comes."""
    until = time.monotonic() + WAIT_S
    while True:
        found = look()
        if not is_between(found):
            return found
        leave()
        if time.monotonic() > until:
            raise TargetBusy(
                "transactions are applied beyond the checkpoint, and not all before them",
                hint="a job that runs comes to a barrier by itself: try again; start one that does not run",
            )
        time.sleep(POLL_S)
