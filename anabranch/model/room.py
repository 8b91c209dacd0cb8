"""Limits on connections: what preflight says of each, compared with the sessions that the job opens.

What does not live here: which limits there are, and who counts against them (each connector).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anabranch.model.checks import CheckResult, CheckVerdict

LEAST_PARALLEL = 1  # a load goes on with one piece at a time


class Room(NamedTuple):
    """A limit on sessions. `most`: usable by the job and others together; `taken`: used by others now; `raised`: the
    statement that sets it to what the job needs.
    """

    shown: str
    most: int
    taken: int
    raised: str

    @property
    def free(self) -> int:
        return self.most - self.taken


def judged(rooms: Sequence[Room], end: str, own: int, parallel: int) -> Iterator[CheckResult]:
    """Yield a finding per limit: failed if it can never be enough, warning if others leave too few now.

    `end`: source or target; `own`: sessions of the job beside those of the load's `parallel` pieces. A warning also
    where pieces would have to wait for each other.
    """
    check, wanted, least = f"{end}.connections", own + parallel, own + LEAST_PARALLEL
    for room in rooms:
        message = f"{room.shown}, others have {room.taken}: {max(0, room.free)} are free, the job opens up to {wanted}"
        hint = f"{room.raised}; or lower [load] parallel, which is {parallel}"
        if room.most < least:
            message += f", and needs {least} with [load] parallel = {LEAST_PARALLEL}"
            yield CheckResult(check, CheckVerdict.FAILED, message, hint)
        elif room.free < wanted:
            yield CheckResult(check, CheckVerdict.WARNING, message, hint)
    free = min(room.free for room in rooms)
    if free >= wanted:
        yield CheckResult(check, CheckVerdict.OK, f"{free} connections are free, the job opens up to {wanted}")
