"""What a target keeps of a job beside the rows: where it is, the state of each table, what it was told to leave out.

What does not live here: reading and writing it (TargetStore, Writer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.model.ids import TableId
from anabranch.model.position import Position

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The row that decides where the target is (K9)."""

    owner: str
    epoch: int
    position: Position
    commit_time: int = 0


@dataclass(frozen=True, slots=True)
class TableState:
    """A row of anabranch.table_state. `low`, `high`: JSON lists of LogMark.resume texts, set while loading and until
    the table is past its window; `generation` counts loads of the table; `rows_loaded`, `changes_applied` are for
    status."""

    source: TableId
    target: TableId
    state: str  # pending | loading | streaming | parked
    generation: int = 0
    low: str = ""
    high: str = ""
    reason: str = ""
    rows_loaded: int = 0
    changes_applied: int = 0
    schema: TableSchema | None = None  # the source's definition that the load used
    facts: Mapping[str, str] = field(default_factory=dict)  # e.g. {"indexes": "built", "analyzed": "yes"}

    @property
    def is_dropped(self) -> bool:
        """Has the source no such table any more?"""
        return self.state == "parked" and self.reason.startswith(DROPPED)

    @property
    def is_untouched(self) -> bool:
        """No load of it has ever begun: the target has nothing of it."""
        return self.generation == 0 and self.schema is None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source transaction that a person has told the job to leave out. `changes`: rows by source table. Times are
    microseconds since 1970 UTC: the source's clock, and the target's."""

    sequence: int
    position: str
    commit_time: int
    changes: Mapping[str, int]
    asked_at: int = 0


DROPPED = "dropped at the source"  # so begins the reason of a parked table of which the source has no table any more
JOINS = "joins"  # a fact: the table is loaded while the others stream already
RECREATE = "recreate"  # a fact: the job file changed, and the target table has to be made anew
RESUMES = "resumes"  # a fact: the sequence from which a table that apply has parked can go on
WINDOW = "window"  # a fact: "low,high", sequences between which changes are carried out as in a load's window
ORIGINS = "origins"  # a fact of a job: who writes to the tables that it reads (model/writers.py)
KEPT = "kept"  # a fact: rows were in the target table before the load, and stay
REREAD = "reread"  # a fact: keys whose rows have to come from the source again, as JSON
SET_ASIDE = "set_aside"  # a fact: how many changes are set aside
CONFLICTS = "conflicts"  # a fact: how many were settled and noted since the load
