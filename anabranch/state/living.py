"""Is a process that said it had started still there? Its number alone does not tell: another process may have it by now,
here or on another machine.

On Linux a process is known by the boot of the machine, its process namespace and the moment it started; whoever looks from
the same place gets a certain answer. Of another host, another container, or without /proc, the process is believed as long as
it goes on saying that it is there.
https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

SILENT_S = 30.0  # a process elsewhere that has not said for so long that it is there is gone
STATE, STARTED = 0, 19  # fields of /proc/PID/stat behind the name
DEAD = ("Z", "X")  # its parent has not asked how it ended


def mark_of(pid: int, host: str) -> str:
    """Return what tells this process from another one of the same number; "" where that cannot be said."""
    found = _stat(pid) if host == os.uname().nodename else None
    return f"{_place()}/{found[STARTED]}" if found and _place() else ""


def lives(part: Mapping[str, Any]) -> bool:
    """Return whether a part still runs. `part` has pid, host, mark, and `seen`: when it last said that it is there."""
    place, _, started = str(part["mark"] or "").rpartition("/")
    if place and place == _place():
        found = _stat(part["pid"])
        if found is not None:
            return found[STARTED] == started and found[STATE] not in DEAD
        return _is_hidden(part["pid"]) and is_fresh(part["seen"], SILENT_S)
    if part["host"] == os.uname().nodename and not place:
        return _has_process(part["pid"])
    return is_fresh(part["seen"], SILENT_S)


def is_here(part: Mapping[str, Any]) -> bool:
    """Return whether the part runs, or ran, where we can look for its process."""
    place = str(part["mark"] or "").rpartition("/")[0]
    return place == _place() if place else part["host"] == os.uname().nodename


def is_fresh(at: str, seconds: float) -> bool:
    """Return whether `at` was at most so many seconds ago, by clocks that may differ a little."""
    return abs((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()) < seconds


@cache
def _place() -> str:
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name, which may have spaces and brackets in it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return None


def _has_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _is_hidden(pid: int) -> bool:
    """Return whether the process exists and belongs to another user, so that we may not read its /proc (hidepid)."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False  # it ended between two looks
