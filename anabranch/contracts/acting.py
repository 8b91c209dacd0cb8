"""Define how an end says what acts on rows of its tables: triggers, and constraints that do not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class Trigger:
    """Name a trigger that a user has made. `enable`: the statement that lets it fire for what an application writes; ""
    where it does."""

    table: TableId
    name: str
    enable: str = ""


@dataclass(frozen=True, slots=True)
class Unproven:
    """Name a constraint that some rows may break. `said`: its kind, its name and what is wrong with it. `mend`: what to do, a
    statement where there is one."""

    table: TableId
    said: str
    mend: str


@dataclass(frozen=True, slots=True)
class Acting:
    """Hold what acts on rows of some tables. `unseen`: tables whose triggers this user may not see, each with the statement
    that grants it; nothing is known of triggers there."""

    triggers: tuple[Trigger, ...] = ()
    unproven: tuple[Unproven, ...] = ()
    unseen: Mapping[TableId, str] = field(default_factory=dict)


@runtime_checkable
class ActingEnd(Protocol):
    """Says what acts on rows; an ability of sources and targets whose tables have triggers or constraints."""

    def acting(self, tables: Sequence[TableId]) -> Acting:
        """Return what users have made on these tables, as it is now. Triggers of our own are left out. A table that is not
        there has nothing. What stands on a partition is told of the table that it is a part of.

        Called by a cut-over, in its plan and while nobody may write, so it asks the catalogue only, in a fixed number of
        statements over one session, and locks nothing. A right that is missing is told, in `unseen`, not raised. Raises
        SourceError or TargetError, by the role of the end."""
