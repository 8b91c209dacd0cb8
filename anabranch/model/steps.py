"""Statements that are told before they are run: of a load at the target, of what prepares the source for capture."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from anabranch.model.ids import TableId


class When(StrEnum):
    """The time at which a statement of a load runs; the values are read by people, and in `schema print --json`."""

    BEFORE_LOAD = "before the load"
    AFTER_LOAD = "after the load"


@dataclass(frozen=True, slots=True)
class DdlStep:
    """A statement of a load, `when` it runs, and for which source table (None: for several); without `sql` one that is left
    out: `note` says what and why."""

    when: When
    table: TableId | None
    sql: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetUpStep:
    """A statement that prepares the source for capture; without it the log lacks rows of these tables (none: of all). `waits`:
    for transactions to end, with nobody behind it."""

    sql: str
    tables: tuple[TableId, ...] = ()
    waits: bool = False
