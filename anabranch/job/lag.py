"""Lag of the target behind the source: by the trail, and by what capture has noted of the source's end.

What does not live here: asking the source (`status.py` does), bytes (`LogOrder.bytes_between`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.errors import TrailError
from anabranch.model.state import Checkpoint
from anabranch.rows.chunk import Part
from anabranch.trail.reader import TrailReader, exists

FRESH_SECONDS = 5.0  # how long capture's note counts that it has read everything; it writes one every three
MICROSECONDS = 1_000_000


class Lag:
    """Lag of one job; asked again and again by `run`, once by `status`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._trail: TrailReader | None = None
        self._oldest = (-1, 0)  # a sequence, and the commit time of the first transaction after it

    def seconds(
        self, snapshot: dict[str, Any], checkpoint: Checkpoint | None, is_all_read: bool | None = None
    ) -> float | None:
        """Return 0 where nothing is left to apply; else the age of the oldest transaction that is not applied. None
        where nobody knows.

        Where the trail is applied, it is the age of what capture has read: what the source has since is younger.
        `is_all_read`: whether the trail has all that the source has; None: the source was not asked.
        """
        if checkpoint is None:
            return None
        with suppress(TrailError):
            return self._seconds(snapshot, checkpoint, is_all_read)
        return None

    def _seconds(self, snapshot: dict[str, Any], checkpoint: Checkpoint, is_all_read: bool | None) -> float | None:
        trail = self._opened()
        if trail is None:
            return None
        end, applied = trail.end(), checkpoint.position.sequence
        if end.position.sequence > applied:
            return _age(self._oldest_behind(trail, applied))
        noted, is_alive = _noted_end(snapshot), lives(snapshot, "capture")
        if is_all_read is None and is_alive:
            is_all_read = 0 <= time.time() - noted / MICROSECONDS < FRESH_SECONDS or None  # no note of the future
        if is_all_read:
            return 0.0
        is_followed = is_alive and snapshot["phase"] != "waiting"
        return _age(max(end.commit_time, noted)) if is_followed or is_all_read is False else None

    def close(self) -> None:
        if self._trail is not None:
            self._trail.close()

    def _opened(self) -> TrailReader | None:
        if self._trail is None and exists(self._directory):
            self._trail = TrailReader(self._directory)
        return self._trail

    def _oldest_behind(self, trail: TrailReader, applied: int) -> int:
        if self._oldest[0] != applied:
            self._oldest = applied, _commit_time_behind(trail, applied)
        return self._oldest[1]


def lives(snapshot: dict[str, Any], part: str) -> bool:
    return any(one["name"] == part for one in snapshot["parts"])


def _commit_time_behind(trail: TrailReader, sequence: int) -> int:
    """Return the commit time of the first transaction after `sequence`. The trail must have one."""
    refs = trail.descriptors(sequence, limit_rows=1)
    ref = next(ref for ref in refs if ref.part is not Part.FRAGMENT)
    if ref.part is Part.LAST:
        return ref.last_commit_time
    place = max(0, sequence + 1 - ref.first_sequence)
    return int(trail.transactions(ref).column("commit_time")[place].as_py())


def _noted_end(snapshot: dict[str, Any]) -> int:
    """Return when capture was at the source's end last, in microseconds; 0: never."""
    noted = snapshot["positions"].get("source_end")
    return int(datetime.fromisoformat(noted["at"]).timestamp() * MICROSECONDS) if noted else 0


def _age(commit_time: int) -> float | None:
    """Return an age in seconds; None for 0, an unknown time."""
    return round(max(0.0, time.time() - commit_time / MICROSECONDS), 3) if commit_time else None
