"""Statements that are told before they are run: of a load at the target, of what prepares the source for capture."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class DdlStep:
    """A statement of a load, `when` it runs, and for which source table; without `sql` one that is left out: `note` says
    what and why."""

    when: str
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
