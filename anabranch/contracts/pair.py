"""Contracts of two active sites (K23): the notes of deletes, which one job of a pair keeps at its target and the other reads
at its source. Abilities: not every database has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow

if TYPE_CHECKING:
    from anabranch.rows.altered import AlteredTable
    from anabranch.rows.conflict import FoundRow, NotedConflict, Texts
    from anabranch.rows.net import RowChange, TargetTable


@dataclass(frozen=True)
class OlderRow:
    """A row to be removed unless it is newer than `deleted`; `deleted` is as the twin has noted it, `key` has the target's
    names. `conflict`: the note of the row that was removed, `found` is added to it."""

    deleted: DeletedRow
    table: TargetTable
    key: Texts
    newest_by: str
    conflict: NotedConflict

    def goes(self, there: FoundRow | None) -> bool:
        """Return whether the row that is `there`, compared with the age that was noted, is to be removed."""
        return there is not None and (self.deleted.age is None or not there.is_newer)


@dataclass(frozen=True)
class RowAgain:
    """A row to be written again, as it was noted. `newer`: the next value of `newest_by` greater than its age, as a text."""

    standing: StandingRow
    table: TargetTable
    newest_by: str
    newer: str

    def changes(self, there: FoundRow | None) -> tuple[RowChange, ...]:
        """Return what writes the row again. `there`: the row as it is now, compared with the age that was noted."""
        from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange

        key, values = dict(self.standing.key), self.standing.values
        if there is None:  # a delete of what is gone is in no log
            return (
                (RowChange(self.table, INSERT, values=dict(values)), RowChange(self.table, DELETE, key))
                if values
                else ()
            )
        return () if there.is_newer else (RowChange(self.table, UPDATE, key, {self.newest_by: self.newer}),)


@runtime_checkable
class PairWriter(Protocol):
    """Lets a Writer keep the notes of a job of a pair."""

    def note_deleted(self, job: str, deleted: DeletedRow) -> None:
        """Keep a note, in the open epoch."""

    def remove_older(self, job: str, rows: Sequence[OlderRow]) -> int:
        """Remove these rows where they are not newer, and note the deletes as cleared, in one transaction that is no epoch: the
        database's log has it as that of a user, so that the twin reads what was removed. Returns how many rows were. To do it
        again does no harm. Raises Conflict with the key of a row that may not go. Not inside an epoch."""

    def note_standing(self, job: str, row: StandingRow) -> None:
        """Keep a note, in the open epoch."""

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        """Return the first `limit` notes with ids above `after`, the lowest ids first. Not inside an epoch."""

    def write_again(self, job: str, rows: Sequence[RowAgain]) -> int:
        """Write these rows again and remove their notes, in one transaction that is no epoch: the log has it as that of a user,
        so that the twin reads it. A row that is not newer than noted gets the newer value; one that is not there, and of which
        the note has values, is inserted and deleted; all others are left alone. Returns how many were written. To do it again
        does no harm. Raises Conflict with the key of a row that may not be written. Not inside an epoch."""

    def pair_notes(self, job: str) -> PairNotes:
        """Return the notes of deletes of a job, all of them. Not inside an epoch."""

    def forget_notes(self, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
        """Remove notes with these ids; nothing happens for those that are gone. Not inside an epoch."""


class ComingColumns(Protocol):
    """Sees to columns that come to a table of a pair at one site first, and then at the other, while both write it."""

    def standing(self, altered: AlteredTable) -> Mapping[str, str]:
        """Return, by the source's name, those of the columns that came which the target's table has already, each with what is
        other about it than if it were made now: "" for nothing. Not inside an epoch. Raises Conflict where a column cannot be
        made."""

    def kept_back(self, altered: AlteredTable) -> Mapping[str, str]:
        """Return, by the source's name, those of the columns that came whose default the log here would not tell as a constant
        once they are made, each with how it is written. Not inside an epoch. Raises Conflict where a column cannot be made."""

    def beside(self, table: TargetTable) -> Sequence[str]:
        """Return the columns of the target's table that are neither written by the job nor computed. Inside an epoch: the table
        keeps its columns until that ends."""

    def fill(self, table: TargetTable, key: Texts, columns: Sequence[str]) -> None:
        """Give the row with this key the defaults of these columns, as a row has that was written without them. Inside an
        epoch. Raises Conflict where the row cannot have them."""


@runtime_checkable
class AltersPair(Protocol):
    """Lets a Writer alter tables of a pair; an ability that not all have."""

    def coming(self) -> ComingColumns: ...


@runtime_checkable
class PairCatalog(Protocol):
    """Lets a SourceCatalog read the notes that the twin keeps here, at its target."""

    def pair_notes(self, job: str, limit: int = 0, after: str = "") -> PairNotes:
        """Return the notes of a job, of each kind at most `limit` (0: all), of deletes those with ids above `after`; none where
        there is no place for notes yet.
        What is noted was committed before. Raises SourceError with the remedy where the user may not read them."""

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        """Return the first `limit` of a job's rows to be written again, with ids above `after`, the lowest ids first. Raises
        like `pair_notes`."""
