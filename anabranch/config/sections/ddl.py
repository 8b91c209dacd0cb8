"""`[ddl]` of the job file."""

from __future__ import annotations

from typing import Literal

from anabranch.config.section import Section
from anabranch.model.column_changes import PARK, ColumnChange


class Ddl(Section):
    """Decide what becomes of changes of definitions at the source ([how](../howto/schema-changes.md)). What has no key here
    parks its table."""

    add_column: Literal["apply", "park"] = "park"
    """Add columns to the target's tables where the source adds them to its own, and go on (`apply`), or park the table. Where
    it is not certain what rows that are there then have, the table is parked in any case."""

    @property
    def actions(self) -> dict[ColumnChange, str]:
        """Return what becomes of each kind of change."""
        return {kind: str(getattr(self, kind)) for kind in ColumnChange}

    @property
    def followed(self) -> frozenset[ColumnChange]:
        """Return the kinds behind which a table goes on."""
        return frozenset(kind for kind, action in self.actions.items() if action != PARK)
