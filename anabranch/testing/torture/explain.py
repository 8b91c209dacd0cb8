"""Decide whether a fault explains how a process ended. What nothing explains fails the history.

What does not live here: which faults there were while it lived (pipeline.py).
"""

from __future__ import annotations

import signal

from anabranch.failpoints import EXIT_CODE, FailpointReached
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.parts import Ended, target_of

ON_LINES = frozenset({"cut", "stall", "slow", "refuse"})
ON_SERVERS = frozenset({"restart", "lose"})

AWAY = {"source": frozenset({"SourceUnavailable"}), "target": frozenset({"TargetUnavailable"})}
# What one of two owners ends with; whose session the other one ended, before its first epoch, has lost its target.
REPLACED = frozenset({"Fenced", "TrailLocked", "StateError", "TargetUnavailable"})


def explains(fault: Fault, ended: Ended, pid: int, *, apart: bool = False, forgets: bool = True) -> bool:
    """Return whether the process may have ended in that way because of the fault. `pid`: the process that the fault hit.
    `apart`: each of the targets has a server of its own. `forgets`: a target that is made to lose its last commits does."""
    if fault.kind == "exit":
        return pid == ended.pid and ended.code == EXIT_CODE
    if fault.kind == "raise":
        return pid == ended.pid and ended.error == FailpointReached.__name__
    if fault.kind == "kill":
        return pid == ended.pid and ended.code == -signal.SIGKILL
    if fault.kind == "full":
        return pid == ended.pid and ended.error == "StorageFull"
    if fault.kind == "second":
        return fault.place == ended.part and ended.error in REPLACED
    if fault.kind == "lose" and forgets and ended.error == "Fenced":  # the server has lost whose the checkpoint was
        return not apart or target_of(ended.part) == fault.at
    is_one_s = fault.kind in (ON_LINES | ON_SERVERS if apart else ON_LINES) and fault.where == "target"
    if is_one_s and ended.part != "capture":  # which asks every target
        return target_of(ended.part) == fault.at and ended.error in AWAY["target"]
    if fault.kind in ON_LINES | ON_SERVERS:
        return ended.error in AWAY[fault.where]
    return False
