"""Conflicts, where a target has not what a change expects: what the job declares for it, what is looked at, what is noted.

Values only. What does not live here: deciding (`apply/conflict.py`), reading and writing them at a target (a Writer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from anabranch.model.ids import TableId
from anabranch.rows.net import Operation

Texts = Mapping[str, str | None]


class OnConflict(StrEnum):
    """The fate of a change that finds the target otherwise: `on_conflict` of the job file."""

    STOP = "stop"  # the job stops, and a person decides
    SOURCE_WINS = "source_wins"  # its row is written, whatever is there
    TARGET_WINS = "target_wins"  # what is there stays
    IGNORE_MISSING = "ignore_missing"  # a row that is not there is passed over; one that is there already stops the job
    NEWEST = "newest"  # the row is written unless the target's is newer, by a column


@dataclass(frozen=True, slots=True)
class ConflictPolicy:
    """The job's choice for a table where stream and target disagree. `newest_by`: the target's name of the column that
    `OnConflict.NEWEST` compares. `pair`: both ends write the table, and a job of each way decides by this policy (K23);
    `target_wins_ties`: of two rows that are equally new the target's stays; `delta`: the target's names of columns that are
    added up, whichever row is newer; `deletes`: a delete removes the row unless that is newer, else it is refused.
    `target_stays`: the target's site wins in this table, so its row stays unless the change was made from that very row.
    `alters`: columns come to the table while both ends write it, so that the target may have some that a change lacks.
    """

    name: OnConflict = OnConflict.STOP
    newest_by: str = ""
    pair: bool = False
    target_wins_ties: bool = False
    delta: tuple[str, ...] = ()
    deletes: bool = False
    target_stays: bool = False
    alters: bool = False

    @property
    def decides(self) -> bool:
        """True if the policy settles conflicts; else every conflict stops the job."""
        return self.name != OnConflict.STOP


STRICT = ConflictPolicy()


@dataclass(frozen=True, slots=True)
class Age:
    """The age of a change: its value, in text form, of the column that tells which row is newest. `or_equal`: a row that is as
    old counts as newer, too."""

    column: str
    value: str | None
    or_equal: bool = False


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row as the target has it: the columns that the job writes, in the target's text form. `is_newer` than the age that
    was asked for: its column holds a later value, or one where the change has NULL."""

    values: Texts
    is_newer: bool = False


@dataclass(frozen=True, slots=True)
class NotedConflict:
    """A row of anabranch.conflict. Images are text forms by target column; None where there is none. Of the change: `before`
    and `after`, as far as the log has them; `found` is what the target had.

    `kind`: `missing` (the row of an update or a delete) · `exists` (a row at the key that comes) · `newer` (the target's
    row) · `differs` (the target's row was changed meanwhile, and is older). `decision`: `source` (its row was written) ·
    `target` (its row was kept) · `ignored` (there was nothing to keep)."""

    sequence: int
    position: str
    commit_time: int
    source: TableId
    target: TableId
    key: Texts
    operation: Operation
    kind: str
    policy: OnConflict
    decision: str
    before: Texts | None = None
    after: Texts | None = None
    found: Texts | None = None
    number: int = field(default=0, compare=False)  # given by the target
    noted_at: int = field(default=0, compare=False)  # microseconds since 1970 UTC, by the target's clock
