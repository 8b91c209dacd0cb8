"""What a job is doing, as `status` says it: a closed set of states, each with its sub-states.

What does not live here: telling which one holds (`job/states.py`), the state of a table (`state.py`).
"""

from __future__ import annotations

from enum import StrEnum


class Waiting(StrEnum):
    """What a part waits for, or what a phase is about beside its text."""

    SOURCE = "source"  # it is away
    TARGET = "target"  # it is away
    OTHERS = "others"  # somebody else's lock, or an older transaction
    ROOM = "room"  # a disk is full: beside the trail, or at the target
    LOAD = "load"  # apply begins behind it
    CAPTURE = "capture"  # it has not come far enough yet
    PART = "part"  # one that is not running
    BEGIN = "begin"  # a part, or the first epoch, is about to start
    WINDOW = "window"  # changes that were made while the rows were copied


STATES: dict[str, tuple[str, ...]] = {
    "starting": ("preflight", "parts"),
    "loading": ("rows", "window"),
    "streaming": ("working", "idle"),
    "waiting": ("source", "target", "others", "room", "load", "capture", "part"),
    "stopping": ("in_order",),
    "stopped": ("in_order", "never_started"),
    "died": ("gone", "silent"),
    "failed": ("source", "target", "job"),
}
ACTIVE = ("starting", "loading", "streaming", "waiting", "stopping")
