"""Progress of a running job, read from the target and the trail, and when it has caught up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.capture.newcomers import gone, unknown
from anabranch.contracts import Drift, TargetStore, Undecided, drift_of, replaced_of
from anabranch.errors import AnabranchError, NotCaughtUp, SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.model.writers import own_targets
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.alone import is_loading_again
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, end_of, source_of
from anabranch.view.options import log_options

if TYPE_CHECKING:
    from anabranch.job.pair_left import NotesLeft
    from anabranch.view.job_view import JobView

REFRESH_SECONDS, AWAY_SECONDS = 0.5, 60.0
KNOWING = 1.0  # seconds between two questions for the names of all tables
FAILED_LOOKS, FAILED_SECONDS = 5, 60.0  # in a row, of one table: from then on nobody waits for one that succeeds


class Progress:
    """States and checkpoint at the target, refreshed now and then. An end that is away leaves the last picture."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        self.states: dict[TableId, TableState] = {}
        self.checkpoint: Checkpoint | None = None
        self.is_asked = False  # a release or discard was asked for, and apply has not done it yet
        self._store: TargetStore | None = None
        self._next, self._pause = 0.0, REFRESH_SECONDS
        self._first_owner: str | None = None

    def refresh(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        try:
            self._store = self._store or end_of(self.job).store()
            if self._store.exists():
                self.checkpoint = self._store.jobs.checkpoint(self.job.config.name)
                self.states = self._store.states.tables(
                    self.job.config.name
                )  # read after the checkpoint, so that it has every table parked up to there
                self.is_asked = bool(self.set_aside()) and self._store.asides.asked(self.job.config.name)
            if self._first_owner is None:
                self._first_owner = self.checkpoint.owner if self.checkpoint else ""
        except AnabranchError:  # trying to connect takes seconds, and the other targets' display waits
            self._pause = min(2 * self._pause, AWAY_SECONDS)
            self._next = time.monotonic() + self._pause
            if self._store is not None:
                self._store.close()
            self._store = None
        else:
            self._pause = REFRESH_SECONDS

    @property
    def is_followed(self) -> bool:
        """Return whether apply has claimed the checkpoint since this object first looked. Streaming tables alone do not
        show that: they may stream from an earlier start."""
        return self.checkpoint is not None and self.checkpoint.owner not in ("", self._first_owner)

    @property
    def is_streaming(self) -> bool:
        """Return whether every table is past its load and its window, or parked. No table at all counts as well, once
        there is a checkpoint: a table that the source dropped is forgotten."""
        return bool(self.states or self.checkpoint) and all(not s.is_before_stream for s in self.states.values())

    @property
    def is_built(self) -> bool:
        """Return whether the indexes and foreign keys of all streaming tables are built, or reported as not built."""
        return all(s.is_built for s in self.states.values() if s.is_streaming)

    def is_loading_again(self) -> bool:
        """Return whether a table is parked only because a `load --table` has just taken it out."""
        return any(s.is_taken_out for s in self.states.values()) and is_loading_again(self.job)

    def parked(self) -> list[str]:
        return [str(table) for table, state in self.states.items() if state.is_parked]

    def set_aside(self) -> dict[str, int]:
        """Return how many row changes are set aside, by table, where some are."""
        return {str(t): state.facts.set_aside for t, state in sorted(self.states.items()) if state.facts.set_aside}


def undone(parked: Sequence[str], aside: Mapping[str, int]) -> str:
    """Say what keeps a job that is done from being complete; "" where nothing does."""
    found = [f"{len(parked)} tables are parked: {', '.join(parked)}"] if parked else []
    rows = ", ".join(f"{number:,} of {table}" for table, number in aside.items())
    return "; ".join([*found, *([f"row changes are set aside: {rows}"] if aside else [])])


class CaughtUp:
    """The check whether everything is applied that the source had committed when streaming was reached, and what it means for
    rows of a pair carried out."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.source = source_of(progress.job)
        self._notes: NotesLeft | None = None
        self._goal: LogMark | None = None
        self._ask_again, self._knew = 0.0, False  # when the source's names are asked for again, and what was found last
        self._failed: dict[TableId, tuple[int, float]] = {}  # looks in a row that could not be taken, and since when
        self._sequence: int | None = None

    @property
    def has_goal(self) -> bool:
        """Return whether streaming was reached, so that the source's end at that moment is known."""
        return self._goal is not None

    def is_reached(self) -> bool:
        """Return whether it is all applied. Raises NotCaughtUp for a table of which the source's looks never tell."""
        progress = self.progress
        if not progress.is_streaming or progress.checkpoint is None:
            return False
        if self._goal is None:
            self._goal = self._source_end()
        if self._goal is None:
            return False
        if self._sequence is None:
            self._sequence = self._sequence_of_goal()
        if self._sequence is None:
            return False
        is_there = progress.checkpoint.position.sequence >= self._sequence and progress.is_built
        if not is_there or progress.is_asked or progress.is_loading_again():
            return False
        return self.knows() and self._are_notes_done()

    @property
    def waits(self) -> str:
        """Say what a job of a pair still waits for, "" for nothing."""
        return self._notes.text if self._notes is not None else ""

    def _are_notes_done(self) -> bool:
        if self.progress.job.config.pair is None:
            return True
        if self._notes is None:
            from anabranch.job.pair_left import NotesLeft  # it loads what looks at rows, and few jobs are of a pair

            self._notes = NotesLeft(self.progress.job)
        return self._notes.are_none(self.progress.states)

    def knows(self) -> bool:
        """Return what `_knows_all` says, asked once a second. Meanwhile the last answer holds: several targets have to
        agree at one moment.
        """
        if time.monotonic() >= self._ask_again:
            self._ask_again = time.monotonic() + KNOWING
            self._knew = self._knows_all()
        return self._knew

    def _knows_all(self) -> bool:
        """Return whether capture has noticed every table of the source, and what became of those that it follows.

        Apply must have come to where it parked them. The log need not tell of either. Raises NotCaughtUp.
        """
        job, checkpoint = self.progress.job, self.progress.checkpoint
        job_uuid = trail_uuid(job)
        if job_uuid is None:
            return False
        with TrailReader(job.trail) as trail:
            history = trail.history
        try:
            with closing(self.source.catalog()) as catalog:
                names, own = catalog.names(), own_targets(catalog.writers(), job_uuid)
                left = [
                    *unknown(names, job.rules.includes, history, own),
                    *gone(catalog, names, job.rules.includes, history),
                ]
            drift = drift_of(self.source, log_options(job, job_uuid), job.config.followed_changes, history.in_force())
            left += self._that_may_be_told(drift)
            left += replaced_of(self.source, history.in_force())
        except SourceUnavailable:
            self._failed = {}  # looks that fail are counted in a row, and it was away in between
            return False
        entries = (history.parked_by(table) for table in history.parked())
        last = max((entry.sequence for entry in entries if entry), default=0)
        return not left and checkpoint is not None and checkpoint.position.sequence >= last

    def _that_may_be_told(self, drift: Mapping[TableId, Drift]) -> Iterable[TableId]:
        """Return the tables of a look. Raises NotCaughtUp for one of which look after look fails: the table may lack rows, and
        nobody will say so."""
        failed = {t: one for t, one in drift.items() if isinstance(one, Undecided) and one.has_failed}
        now, before = time.monotonic(), self._failed
        self._failed = {t: (before[t][0] + 1, before[t][1]) if t in before else (1, now) for t in failed}
        for table, (looks, since) in self._failed.items():
            if looks >= FAILED_LOOKS and now - since >= FAILED_SECONDS:
                raise NotCaughtUp(
                    f"nobody can tell whether {table} has all its rows: {failed[table].reason}",
                    table=str(table),
                    job=self.progress.job.config.name,
                    hint="let the source answer that, then start again: it goes on from where it is; or"
                    f" anabranch load JOB --table {table.typed} brings the rows in, whatever came",
                )
        return drift

    def _source_end(self) -> LogMark | None:
        """Return the source's end; None while the source is away. How long it may be away is for the parts to decide."""
        try:
            with catalog_of(self.source) as catalog:
                return catalog.mark()
        except SourceUnavailable:
            return None

    def _sequence_of_goal(self) -> int | None:
        """Return where the trail ends once it has the goal behind it: everything up to there has to be applied."""
        assert self._goal is not None
        if not exists(self.progress.job.trail):
            return None
        with TrailReader(self.progress.job.trail) as trail:
            end = trail.end()
            reached = self.source.order.includes(LogMark(end.position.native, end.resume), self._goal.native, None)
            return end.position.sequence if reached else None
