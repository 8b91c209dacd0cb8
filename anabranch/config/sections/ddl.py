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

    drop_column: Literal["apply", "keep", "park"] = "park"
    """Drop columns of the target's tables where the source drops them (`apply`), keep them there for the rows that have values
    in them (`keep`: rows that come have NULL), or park the table. From a MySQL or MariaDB; where anything else depends on the
    column, at either end, the table is parked in any case."""

    rename_column: Literal["apply", "park"] = "park"
    """Rename columns of the target's tables where the source renames them, by the job's rules, or park the table. From a MySQL
    or MariaDB; where a key, or a rule, a filter or a column setting of the job file names the column, the table is parked in
    any case."""

    nullability: Literal["apply", "park"] = "park"
    """Let the target's columns have NULL where the source's may by now, and refuse it where those do, or park the table. From a
    MySQL or MariaDB; where the target has a NULL in such a column, the table is parked in any case."""

    column_default: Literal["apply", "ignore", "park"] = "park"
    """Give the target's columns the defaults that the source's have got (`apply`), leave theirs as they are (`ignore`: what is
    replicated has every value with it, a default is for those who write there after a cut-over), or park the table. From a
    MySQL or MariaDB."""

    change_type: Literal["apply", "park"] = "park"
    """Widen the target's columns where the source widens its own: greater integers, longer texts and bytes, more digits; or
    park the table. From a MySQL or MariaDB; any other change of a type parks the table in any case."""

    @property
    def actions(self) -> dict[ColumnChange, str]:
        """Return what becomes of each kind of change."""
        return {kind: str(getattr(self, kind)) for kind in ColumnChange}

    @property
    def followed(self) -> frozenset[ColumnChange]:
        """Return the kinds behind which a table goes on."""
        return frozenset(kind for kind, action in self.actions.items() if action != PARK)
