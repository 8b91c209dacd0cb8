"""Lag of the target behind the source: by the trail, and by what capture has noted of the source's end.

What does not live here: asking the source (`status.py` does), bytes (`LogOrder.bytes_between`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.errors import TrailError
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.chunk import Part
from anabranch.trail.reader import TrailReader, exists

FRESH_SECONDS = 5.0  # how long capture's note counts that it has read everything; it writes one every three
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Oldest:
    """A transaction of the trail, by its end. `commit_time`: in microseconds since 1970, 0 if unknown. `images`: how many
    row images it has; `bytes`: of these in memory, of one that shares its chunk with others, all of that chunk."""

    position: Position
    commit_time: int
    images: int
    bytes: int


class Lag:
    """Lag of one job; asked again and again by `run`, once by `status`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._trail: TrailReader | None = None
        self._after, self._oldest = -1, Oldest(Position(0), 0, 0, 0)  # a sequence, and the first transaction after it

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
            return _age(self._oldest_behind(trail, applied).commit_time)
        noted, is_alive = _noted_end(snapshot), lives(snapshot, "capture")
        if is_all_read is None and is_alive:
            is_all_read = 0 <= time.time() - noted / MICROSECONDS < FRESH_SECONDS or None  # no note of the future
        if is_all_read:
            return 0.0
        is_followed = is_alive and snapshot["phase"] != "waiting"
        return _age(max(end.commit_time, noted)) if is_followed or is_all_read is False else None

    def oldest(self, applied: int) -> Oldest | None:
        """Return the first transaction after a sequence, which the trail must have; None without a trail. Raises TrailError."""
        trail = self._opened()
        return self._oldest_behind(trail, applied) if trail else None

    def altered(self, sequence: int) -> list[str]:
        """Return the tables whose definition a transaction of the trail changes, and which go on. Raises TrailError."""
        trail = self._opened()
        if trail is None or not trail.history.altered_between(sequence - 1, sequence):
            return []
        entries = (one for one in trail.history.entries if one.altered and one.sequence == sequence)
        return sorted({str(one.schema.id) for one in entries if one.schema})

    def native_at(self, sequence: int) -> str | None:
        """Return the source's place just after a transaction; None without a trail. Raises TrailError."""
        trail = self._opened()
        return trail.position_at(sequence).native if trail else None

    def close(self) -> None:
        if self._trail is not None:
            self._trail.close()

    def _opened(self) -> TrailReader | None:
        if self._trail is None and exists(self._directory):
            self._trail = TrailReader(self._directory)
        return self._trail

    def _oldest_behind(self, trail: TrailReader, applied: int) -> Oldest:
        if self._after != applied:
            self._oldest = _first_behind(trail, applied)
            self._after = applied
        return self._oldest


def lives(snapshot: Mapping[str, Any], part: str) -> bool:
    return any(one["name"] == part for one in snapshot["parts"])


def _first_behind(trail: TrailReader, sequence: int) -> Oldest:
    """Return the first transaction after `sequence`. The trail must have one."""
    refs = trail.descriptors(sequence, limit_rows=1)
    ref = next(ref for ref in refs if ref.part is not Part.FRAGMENT)
    size = sum(one.bytes for one in refs)
    if ref.part is Part.LAST:
        return Oldest(ref.last_position, ref.last_commit_time, sum(one.rows for one in refs), size)
    place = max(0, sequence + 1 - ref.first_sequence)
    found = trail.transactions(ref).slice(place, 1).to_pylist()[0]
    return Oldest(
        Position(ref.first_sequence + place, found["native"]), int(found["commit_time"]), int(found["rows"]), size
    )


def _noted_end(snapshot: dict[str, Any]) -> int:
    """Return when capture was at the source's end last, in microseconds; 0: never."""
    noted = snapshot["positions"].get("source_end")
    return int(datetime.fromisoformat(noted["at"]).timestamp() * MICROSECONDS) if noted else 0


def _age(commit_time: int) -> float | None:
    """Return an age in seconds; None for 0, an unknown time."""
    return round(max(0.0, time.time() - commit_time / MICROSECONDS), 3) if commit_time else None
