"""Follow the target to a place of the source's log, and find what users of the source have written behind the fence.

What does not live here: moving the target on, which apply does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from anabranch.contracts import LogOrder, NotesApplied, TargetStore
from anabranch.errors import NotCaughtUp
from anabranch.model.position import LogMark
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import ShownRow, show
from anabranch.view.job_view import JobView

TICK = 0.02  # seconds between two looks: the source's users wait meanwhile
MOST = 100  # rows behind the fence that are told; that there are any is what counts


@dataclass(frozen=True)
class Following:
    """The trail of a job, and its checkpoint at the target."""

    job: JobView
    store: TargetStore
    trail: TrailReader
    order: LogOrder

    def read(self, mark: LogMark, seconds: float) -> int:
        """Wait until capture has read the log up to `mark`. Returns the trail's end then. Raises NotCaughtUp."""
        until = time.monotonic() + seconds
        while True:
            end = self.trail.end()
            if end.resume and self.order.includes(LogMark(end.position.native, end.resume), mark.native, None):
                return end.position.sequence
            self._in_time(until, f"capture has read up to {end.position}, not to {mark.native}")

    def reached(self, mark: LogMark, seconds: float) -> int:
        """Wait until everything is applied that is in the log before `mark`. Returns the target's sequence then. Raises
        NotCaughtUp."""
        until = time.monotonic() + seconds
        sequence = self.read(mark, seconds)
        while True:
            at = self.at()
            if at >= sequence and not self._is_between():
                return at
            self._in_time(until, f"the target is at {at}, not at {sequence}")

    def at(self) -> int:
        """Return the sequence of the target's checkpoint; -1 without one."""
        found = self.store.jobs.checkpoint(self.job.config.name)
        return found.position.sequence if found else -1

    def _is_between(self) -> bool:
        """Return whether transactions are applied beyond the checkpoint, and perhaps not all before them."""
        jobs = self.store.jobs
        return isinstance(jobs, NotesApplied) and bool(jobs.applied(self.job.config.name))

    def foreign(self, fence: LogMark, after: int) -> list[dict[str, Any]]:
        """Return rows of replicated tables that are in the trail behind the fence, at most MOST: table, operation, key,
        position. `after`: a sequence before the fence."""
        rows = show(self.trail, after=after)
        behind = (row for row in rows if not self.order.includes(fence, row.position.native, row.gtid))
        return list(islice(self._told(behind), MOST))

    def _told(self, rows: Iterator[ShownRow]) -> Iterator[dict[str, Any]]:
        in_force = self.trail.history.in_force()
        for row in rows:
            schema = in_force.get(row.table)
            key = {name: row.values.get(name) for name in schema.primary_key} if schema else {}
            yield {
                "table": str(row.table),
                "operation": row.operation,
                "key": key,
                "position": str(row.position),
                "commit_time": row.commit_time,
            }

    def _in_time(self, until: float, where: str) -> None:
        if time.monotonic() > until:
            hint = "is anabranch run JOB at work, and near the source's end? anabranch status JOB tells"
            raise NotCaughtUp(where, job=self.job.label, hint=hint)
        time.sleep(TICK)


def said(rows: list[dict[str, Any]]) -> str:
    """Say, for people, which rows these are: the first three."""
    first = "; ".join(
        f"{row['operation']} {row['table']} {', '.join(f'{k}={v}' for k, v in row['key'].items())} at {row['position']}"
        for row in rows[:3]
    )
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return first + more
