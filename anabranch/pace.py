"""The pace of the product's loops: how long they rest, and how much they take at once. Numbers that no user sets.

They spare servers and disks and decide nothing about what is right, so a process may run with others: `use(Pace(…))`,
once, before its loops begin. Tests and `anabranch torture` do, to bring a short history to what a long one meets.

    pace.use(Pace(apply_tick=0.04, load_rows=(7, 7)))

Loops read `pace.current` each time they rest. What does not live here: what a job file says (config/), limits that
decide when an end counts as lost, and how often a loop looks at what only costs itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Pauses in seconds, amounts in what their names say. 0 in a `log_` or `block_` field: what the connector has."""

    apply_tick: float = 0.2  # between two looks whether apply is to stop
    apply_chores: float = 1.0  # between two rounds of what apply does beside its epochs: reloads, joins, indexes
    apply_clean_up: float = 300.0  # between two looks at which changes have been at a target for long enough
    apply_register: float = 5.0  # between two notes of where apply is
    capture_read: float = 0.2  # longest wait for the source's log to give something
    capture_heartbeat: float = 0.5  # between two notes that the log went on without rows of ours
    capture_requests: float = 0.5  # between two looks at what load and apply ask capture for
    capture_tables: float = 10.0  # between two looks at what became of the tables, and at which are new or gone
    capture_end: float = 3.0  # between two looks at the source's end, while nothing comes
    capture_drop: float = 10.0  # between two looks at what the trail need not keep any more
    log_idle: float = 0.0  # between two marks of a log that only move on
    log_images: int = 0  # row images after which a chunk of the log is full, where a connector counts them
    load_pause: float = 10.0  # longest between two tries of a load at an end that is away
    load_rows: tuple[int, int] = (200_000, 1_000_000)  # of a chunk of a load: fewest, most
    block_changes: int = 0  # changes of one shape from which on several transactions go in one statement
    run_tick: float = 0.2  # between two looks of `run` at its parts
    run_asked: float = 1.0  # between two looks of `run` at what is asked for where its trail is applied
    run_again: float = 1.0  # before a part that died is started again; then twice as long each time
    run_ship: float = 5.0  # between two looks for entries of the trace that a target has not got
    part_beat: float = 2.0  # between two notes that a part is alive, with what it has counted
    hop_look: float = 1.0  # between two looks of a pump for files of a load
    hop_asked: float = 1.0  # between two looks of a receiver for what is asked for where its trail is applied, at most
    repair_poll: float = 0.2  # between two looks whether apply has answered a repair
    verify_poll: float = 0.05  # between two looks whether capture and apply have come to what a verification has read
    verify_lost: float = 1.0  # before a verification asks an end again that was lost; then twice as long each time


current = Pace()


def use(pace: Pace) -> None:
    """Set the pace of this process, for all loops that read it from here on."""
    global current
    current = pace
