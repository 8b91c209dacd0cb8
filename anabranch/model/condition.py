"""The state of a job, as `status` shows it: a closed set of states, each with its sub-states.

What does not live here: telling which one holds (`job/states.py`), the state of a table (`table_life.py`).
"""

from __future__ import annotations

from enum import StrEnum


class Waiting(StrEnum):
    """The cause of a wait, in one word; `status` shows it beside the text."""

    SOURCE = "source"  # it is away
    TARGET = "target"  # it is away
    OTHERS = "others"  # somebody else's lock, or an older transaction
    ROOM = "room"  # a disk is full: beside the trail, or at the target
    LOAD = "load"  # apply begins behind it
    CAPTURE = "capture"  # it has not come far enough yet
    PART = "part"  # one that is not running
    BEGIN = "begin"  # a part, or the first epoch, is about to start
    CUTOVER = "cutover"  # the target is, or will be, its users' to write
    VERIFICATION = "verification"  # one that reads both ends at one position, for seconds
    STANDBY = "standby"  # another capture writes the trail
    WINDOW = "window"  # changes that were made while the rows were copied


STATES: dict[str, tuple[str, ...]] = {
    "starting": ("preflight", "parts"),
    "loading": ("rows", "window"),
    "streaming": ("working", "idle"),
    "waiting": ("source", "target", "others", "room", "load", "capture", "part", "cutover", "verification", "standby"),
    "stopping": ("in_order",),
    "stopped": ("in_order", "never_started"),
    "died": ("gone", "silent"),
    "failed": ("source", "target", "job"),
}
ACTIVE = ("starting", "loading", "streaming", "waiting", "stopping")
