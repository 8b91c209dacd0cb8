"""Room for a load in a trail: whether more of it may come while what is there was not read by all.

What does not live here: who has read what, and the removal of files (trail/load_readers.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from anabranch.trail import load_keeping, load_readers

GB = 1_000_000_000
NAMED = 3  # readers that a text names
REST = 20.0  # a look is taken again after so many times its processor time, which a busy machine makes no longer


@dataclass(frozen=True)
class LoadRoom:
    """Picklable: each process looks for itself. `limit`: bytes of files that wait for readers."""

    trail: Path
    limit: int

    def __call__(self) -> str:
        """Return why no further rows may come now, "" where they may. Tables that are under way get as much as they need: files
        become free by whole tables only. So do others, where nobody takes what is there without help."""
        until, said = _looks.get(self, (0.0, ""))
        if time.monotonic() < until:
            return said
        began = time.thread_time()
        said = self._why()
        _looks[self] = time.monotonic() + REST * (time.thread_time() - began), said
        return said

    def _why(self) -> str:
        if load_readers.size(self.trail) <= self.limit:
            return ""
        load_readers.sweep(self.trail)
        load_keeping.make_room(self.trail, self.limit)
        unread = load_readers.unread(self.trail)
        taken = [one for one in unread if not one.is_stuck]
        total = load_readers.size(self.trail) - sum(one.bytes for one in unread if one.is_stuck)
        if total <= self.limit or not taken:
            return ""
        awaited: dict[str, int] = {}
        for one in taken:
            for reader in (name for name in one.awaited if name != load_keeping.READER):
                awaited[reader] = awaited.get(reader, 0) + 1
        who = ", ".join(f"{reader} ({tables} tables)" for reader, tables in sorted(awaited.items())[:NAMED])
        who = f"it waits for {who}" if who else "no job applies the trail yet, start one: anabranch run JOB"
        return f"load_limit_gb: {_gb(total)} GB of the load are in the trail, of {_gb(self.limit)} that may wait there; {who}"


_looks: dict[LoadRoom, tuple[float, str]] = {}  # until when what was seen last holds


def _gb(size: int) -> str:
    return f"{size / GB:.3g}"
