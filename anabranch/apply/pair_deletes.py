"""Deletes of a pair (K23): older rows that arrive after a delete are cleared at the site that deleted.

A delete stands for the version that it removed, and wins over that and all older ones. Where a job applies it, at the other
site, older rows go. But that site may have logged one of them shortly before: it reaches the site that deleted, which keeps
no trace of its row, and looks like a new one. So the job notes each delete at its target, in the epoch that applies it. Its
twin reads the note there, at its source, waits until it has applied all that stood in the log by then, and removes at its own
target what is not newer. It does so in a transaction without a marker, like a user: what it has removed is a delete to the
first job, for a user may have changed the row that had come back. Where columns are added up, no version tells what of a row
is to stay, and all that stands under the key then goes. It ends, since each further note needs a row that somebody
has written. Ids of notes that were cleared are kept at the twin's target until the first job, which reads there, has removed
the notes, so both write at their own target alone, and whatever is killed or done twice does no harm.

What does not live here: the verdict on a single delete (`conflict.py`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from anabranch import log
from anabranch.apply.context import Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.apply.window import WindowResolver
from anabranch.contracts import Conflict, OlderRow, PairCatalog, PairWriter, SourceCatalog, SourceConnector
from anabranch.errors import SourceUnavailable, StateError, TargetError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes
from anabranch.rows.conflict import NotedConflict
from anabranch.rows.net import DELETE, RowChange

REFUSE = 'let [pair] deletes = "refuse" stand in both job files'
AWAY_SECONDS = 10.0  # until a source that is away is asked again: a connection that is waited for holds up epochs
LIMIT = 2000  # notes that are read at once, and cleared in one transaction


def note_deleted(job: str, writer: object, change: RowChange, age: str | None) -> None:
    """Note a delete that was decided, in the open epoch. Raises TargetError for a target that keeps no notes."""
    pair_writer(writer).note_deleted(job, DeletedRow(uuid.uuid4().hex, change.table.target, dict(change.old_key), age))


@dataclass
class _Waiting:
    """A note, and the end of the source's log behind it; `upto`: as a sequence of the trail, once that is known."""

    deleted: DeletedRow
    end: str
    upto: int | None = None


@dataclass
class PairDeletes:
    """Clears older rows by the notes of the twin, between two epochs. One per apply process."""

    source: SourceConnector
    resolver: WindowResolver
    twin: str
    is_held: Callable[[], bool]
    _catalog: SourceCatalog | None = None
    _again: float = 0.0  # the source was away: not before that (time.monotonic())
    _after: str = ""  # the id up to which notes were read
    _cleared: set[str] | None = None  # as the target has them
    _forgotten: frozenset[str] = frozenset()  # notes that the twin has cleared, and that are removed here
    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def look(self, applier: Applier) -> None:
        """Read the twin's notes, clear those whose time has come, and remove our own that it has cleared; not while a
        verification compares both ends at one position."""
        if not self.twin or self.is_held():
            return
        progress = applier.progress
        writer = pair_writer(progress.writer)
        if self._cleared is None:
            self._cleared = set(writer.pair_notes(progress.job).cleared)
        if time.monotonic() < self._again:
            return
        try:
            theirs = self._theirs(progress)
        except SourceUnavailable as away:  # capture tells it; what the trail has is applied meanwhile, and notes wait
            self.close()
            self._again = time.monotonic() + AWAY_SECONDS
            log.get(job=progress.job).debug("notes_not_read", error=away.message)
            return
        self._clear(applier, writer)
        self._forget(progress.job, writer, theirs)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None

    def _theirs(self, progress: Progress) -> PairNotes:
        """Read the twin's notes, behind those that were read last. New ones wait for the end that the log has behind them.
        Those of a table that is parked are read again when their turn comes."""
        self._catalog = self._catalog or self.source.catalog()
        assert self._cleared is not None
        if not isinstance(self._catalog, PairCatalog):
            raise StateError("this source cannot be asked for what the other site has deleted", hint=REFUSE)
        theirs = self._catalog.pair_notes(self.twin, LIMIT, self._after)
        new = [one for one in theirs.deleted if one.id not in self._cleared and one.id not in self._waiting]
        new = [one for one in new if self._followed(progress, one.table) is not None]
        if new:
            end = self._catalog.mark().resume
            self._waiting |= {one.id: _Waiting(one, end) for one in new}
        return theirs

    def _clear(self, applier: Applier, writer: PairWriter) -> None:
        """Remove older rows, of notes behind whose log's end the target is."""
        assert self._cleared is not None
        progress = applier.progress
        rows = list(islice(self._due(progress), LIMIT))
        if not rows:
            return
        reach("apply.pair.due")
        try:
            found = writer.remove_older(progress.job, rows)
        except Conflict as reason:
            refusal = refused(reason, progress.checkpoint.position)
            if not applier.take_out(refusal):
                raise refusal from reason
            return
        reach("apply.pair.cleared")
        done = [one.deleted.id for one in rows]
        self._cleared.update(done)
        for one in done:
            del self._waiting[one]
        log.get(job=progress.job).debug("deletes_cleared", notes=len(done), removed=found)

    def _due(self, progress: Progress) -> Iterator[OlderRow]:
        """Yield what may be removed now. A table that is parked or loaded has not come as far as the checkpoint: it waits."""
        ends = dict[str, int | None]()
        for waiting in self._waiting.values():
            if waiting.upto is None:
                if waiting.end not in ends:
                    ends[waiting.end] = self.resolver.end_behind(waiting.end)
                waiting.upto = ends[waiting.end]
            if waiting.upto is None or waiting.upto > progress.checkpoint.position.sequence:
                continue
            followed = self._followed(progress, waiting.deleted.table)
            if followed is not None:
                yield _older(progress, followed, waiting.deleted)

    def _followed(self, progress: Progress, read: TableId) -> Followed | None:
        """Return the table that this job reads under this name, which the twin writes; None where it does not stream."""
        followed = progress.context.tables.get(read)
        state = progress.states.get(read)
        return followed if followed is not None and state is not None and state.is_streaming else None

    def _forget(self, job: str, writer: PairWriter, theirs: PairNotes) -> None:
        """Remove our notes that the twin has cleared, and ids that we have cleared of notes that are gone."""
        assert self._cleared is not None
        there = [one.id for one in theirs.deleted]
        last = there[-1] if len(there) == LIMIT else ""  # "": these are the last
        gone = {id for id in self._cleared.difference(there) if id > self._after and (not last or id <= last)}
        self._after = last
        done = frozenset(theirs.cleared) - self._forgotten
        if gone or done:
            writer.forget_notes(job, done, gone)
            self._cleared -= gone
        self._forgotten = frozenset(theirs.cleared)


def pair_writer(writer: object) -> PairWriter:
    """Return the writer as one that keeps notes of a pair. Raises TargetError for one that does not."""
    if not isinstance(writer, PairWriter):
        raise TargetError("this target keeps no notes of deletes, by which two sites become equal", hint=REFUSE)
    return writer


def _older(progress: Progress, followed: Followed, deleted: DeletedRow) -> OlderRow:
    """Return the row at our target that is to go. The note has the names of the twin's target, which is our source."""
    table, policy = followed.table, followed.on_conflict
    names = dict(zip(table.source_columns, table.columns, strict=True))
    key = {names[name]: value for name, value in deleted.key.items()}
    at = progress.checkpoint
    conflict = NotedConflict(
        *(at.position.sequence, str(at.position), at.commit_time, table.source, table.target, key, DELETE),
        *("differs", policy.name, "source"),
        before=key if deleted.age is None else {**key, policy.newest_by: deleted.age},
    )
    return OlderRow(deleted, table, key, policy.newest_by, conflict)
