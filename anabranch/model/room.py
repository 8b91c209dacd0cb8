"""Whether an end lets a job open the sessions that it wants: what preflight says of each limit.

What does not live here: which limits there are, and who counts against them (each connector).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anabranch.model.checks import CheckResult

LEAST_PARALLEL = 1  # a load goes on with one piece at a time


class Room(NamedTuple):
    """Of one limit. `most`: usable by the job and others together; `taken`: by others; `raised`: the statement that sets it to
    what is wanted."""

    shown: str
    most: int
    taken: int
    raised: str

    @property
    def free(self) -> int:
        return self.most - self.taken


def judged(rooms: Sequence[Room], end: str, own: int, parallel: int) -> Iterator[CheckResult]:
    """`end`: source or target; `own`: sessions of the job beside those of the load's `parallel` pieces. A limit that can never
    be enough fails; where others leave too few now, or pieces would have to wait for each other, that is a warning."""
    check, wanted, least = f"{end}.connections", own + parallel, own + LEAST_PARALLEL
    for room in rooms:
        message = f"{room.shown}, others have {room.taken}: {max(0, room.free)} are free, the job opens up to {wanted}"
        hint = f"{room.raised}; or lower [load] parallel, which is {parallel}"
        if room.most < least:
            message += f", and needs {least} with [load] parallel = {LEAST_PARALLEL}"
            yield CheckResult(check, "failed", message, hint)
        elif room.free < wanted:
            yield CheckResult(check, "warning", message, hint)
    free = min(room.free for room in rooms)
    if free >= wanted:
        yield CheckResult(check, "ok", f"{free} connections are free, the job opens up to {wanted}")
