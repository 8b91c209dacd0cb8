"""Rows of the site that wins in a table of a pair (K23): what stood against the other site's change is written again.

The versions of a row decide at both sites, and the greatest stays (`conflict.py`). So a row that is to stay although the other
site has a newer one is made newer. The epoch that refuses the change gives its row a greater version; but that is the job's own
write, which its twin leaves out. So the epoch notes the row, too, and behind it the row is made newer once more, in a
transaction without a marker, like a user: the twin brings it to the other site, where it wins as any newer row does. A row that
was deleted here while the other site wrote it has no version to raise: what the other site wrote is inserted and deleted in one
such transaction, and the delete goes there. Notes are kept, read and removed at the job's own target alone, so whatever
is killed or done twice does no harm, and it ends, because each note needs a change that a user of the other site has made.

What does not live here: the verdict on a single change (`conflict.py`), older rows behind a delete (`pair_deletes.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anabranch import log
from anabranch.apply.conflict import Again
from anabranch.apply.context import Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.pair import greater_than
from anabranch.apply.pair_deletes import LIMIT, pair_writer
from anabranch.apply.progress import Progress
from anabranch.apply.refusal import refused
from anabranch.contracts import Conflict, PairWriter, RowAgain
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import StandingRow
from anabranch.rows.net import RowChange

ATTEMPTS = 3  # of rows that users insert while they are written again


def note_standing(job: str, writer: object, change: RowChange, again: Again) -> None:
    """Note a row that stood against a change, in the open epoch. Raises TargetError for a target that keeps no notes."""
    key = change.old_key or {name: change.values.get(name) for name in change.table.key}
    row = StandingRow(uuid.uuid4().hex, change.table.target, dict(key), again.age, again.values)
    pair_writer(writer).note_standing(job, row)


@dataclass
class PairStanding:
    """Writes rows again by the notes, between two epochs. One per apply process."""

    is_held: Callable[[], bool]
    is_through: bool = False  # all notes were carried out when it was looked last
    _after: str = ""  # the id up to which notes were read: there are more than are read at once

    def look(self, applier: Applier) -> None:
        """Write rows again, as many as are read at once; not while a verification compares both ends at one position. A table
        that is parked or loaded keeps its notes."""
        progress = applier.progress
        tables = _streaming(progress)
        if self.is_held() or not any(followed.on_conflict.pair for followed in tables.values()):
            return
        if self.is_through and not any(followed.on_conflict.target_stays for followed in tables.values()):
            return  # what an earlier file has left was looked for once
        writer = pair_writer(progress.writer)
        noted = writer.standing(progress.job, LIMIT, self._after)
        is_first, self._after = not self._after, noted[-1].id if len(noted) == LIMIT else ""
        rows = [_again(tables[one.table], one) for one in noted if one.table in tables]
        self.is_through = is_first and not rows and not self._after
        if not rows:
            return
        reach("apply.pair.standing")
        try:
            found = _written(writer, progress.job, rows)
        except Conflict as reason:
            refusal = refused(reason, progress.checkpoint.position)
            if not applier.take_out(refusal):
                raise refusal from reason
            return
        reach("apply.pair.stood")
        log.get(job=progress.job).debug("rows_written_again", notes=len(rows), written=found)


def _written(writer: PairWriter, job: str, rows: Sequence[RowAgain]) -> int:
    """Write rows again. A user may insert one meanwhile that was not there: then all of it is done anew."""
    for _ in range(ATTEMPTS):
        try:
            return writer.write_again(job, rows)
        except Conflict:
            continue
    return writer.write_again(job, rows)


def _streaming(progress: Progress) -> Mapping[TableId, Followed]:
    """Return by target the tables that this job follows."""
    return {
        followed.table.target: followed
        for table, followed in progress.context.tables.items()
        if (state := progress.states.get(table)) is not None and state.is_streaming
    }


def _again(followed: Followed, noted: StandingRow) -> RowAgain:
    column = followed.on_conflict.newest_by
    return RowAgain(noted, followed.table, column, greater_than(followed.table, column, noted.age, noted.key))
