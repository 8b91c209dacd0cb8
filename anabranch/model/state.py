"""State that a target keeps of a job beside the rows: its checkpoint, and transactions that it was told to leave out.

What does not live here: the states of its tables (table_life.py), reading and writing all that (TargetStore, Writer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.position import Position


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The row that decides where the target is (K9)."""

    owner: str
    epoch: int
    position: Position
    commit_time: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source transaction that a person has told the job to leave out. `changes`: rows by source table. Times are
    microseconds since 1970 UTC: the source's clock, and the target's."""

    sequence: int
    position: str
    commit_time: int
    changes: Mapping[str, int]
    asked_at: int = 0


ORIGINS = "origins"  # a fact of a job: who writes to the tables that it reads (model/writers.py)
PAIR = "pair"  # a fact of a job: two sites write its tables, and how it decides (model/pairing.py)
LEAVES_OUT = "leave_out"  # a fact of a job: origins whose changes it does not read
