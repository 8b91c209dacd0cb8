"""Notes of the time, at a target that keeps changes: readers learn up to when they have all of them while there are none.

The time is the source's: asked before its log's end, so what had been committed then is in front of that end. It is noted once
capture has read up to there and the target has all of it, so never while capture stands still or one of them is behind.
What does not live here: the note itself (`NotesIdle`).
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch import log
from anabranch.apply.progress import Progress
from anabranch.contracts import ClockCatalog, NotesIdle, SourceConnector
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.failpoints import reach
from anabranch.model.position import LogMark

# A MySQL or MariaDB may date a commit by its second, and a PostgreSQL a moment before it is in the log. What comes behind
# a note must never have the note's time: a reader that asks from behind that time would pass over it.
SLACK_US = 2_000_000


class Asked(NamedTuple):
    """Answer of the source: `time` by its clock, and its log's `end` a moment later."""

    time: int
    end: LogMark


@dataclass
class Heartbeats:
    """The notes of one run of apply: one for each `idle_seconds` of the writer at most, the first behind the first of them."""

    writer: object
    source: SourceConnector
    _last: float = field(default_factory=time.monotonic)
    _asked: Asked | None = None

    def look(self, progress: Progress) -> None:
        """Ask the source where it is time, and note what it has said where the target has come to it. Raises OutOfStep, Fenced,
        TargetUnavailable, after which the same is noted at another call, and once."""
        if not isinstance(self.writer, NotesIdle) or not self.writer.idle_seconds:
            return
        end, at, now = progress.trail.end(), progress.checkpoint.position, time.monotonic()
        if end.position.sequence != at.sequence or not end.resume:
            return
        if self._asked is None and now - self._last >= self.writer.idle_seconds:
            self._last, self._asked = now, self._ask()
        if self._asked is None or not self._is_read(LogMark(end.position.native, end.resume), self._asked.end):
            return
        then = progress.here()
        progress.begin(then)
        self.writer.note_idle(at, self._asked.time - SLACK_US)
        reach("changes.idle_noted")
        progress.commit(then, progress.work())
        self._asked = None

    def _ask(self) -> Asked | None:
        """Ask the source. None where it is away or does not tell: capture reports that, and apply has no need of it."""
        try:
            with closing(self.source.catalog()) as catalog:
                return Asked(catalog.clock(), catalog.mark()) if isinstance(catalog, ClockCatalog) else None
        except (SourceError, SourceUnavailable) as error:
            log.get().debug("heartbeat_left_out", why=error.message)
            return None

    def _is_read(self, read: LogMark, end: LogMark) -> bool:
        order = self.source.order
        try:
            if order.server(read) == order.server(end):
                return order.includes(read, end.native, None)
        except SourceError:  # its log has another name by now
            pass
        self._asked = None  # the address leads to another server than the trail's, of which this says nothing
        return False
