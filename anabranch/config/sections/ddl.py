"""`[ddl]` of the job file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem
from anabranch.model.column_changes import APPLY, PARK, Actions, ColumnChange
from anabranch.model.ghost_names import TABLE, USUAL, GhostNames

ADDITIVE: Actions = {ColumnChange.ADD: APPLY, ColumnChange.TYPE: APPLY}  # nothing of what is there is lost by them


def _ghost(text: str) -> str:
    if text.count(TABLE) != 1 or text == TABLE:
        expected = 'some text and {table} once, like "_{table}_gho"'
        problem = Problem(f"{text!r} is no pattern of a name", expected=expected)
        raise refuse(problem) from None
    return text


class Ddl(Section):
    """Decide what becomes of changes of definitions at the source ([how](../howto/schema-changes.md)). What adds to a table
    and takes nothing from it comes to the target; what else has a key here parks its table unless the key says otherwise,
    and what has none parks it."""

    add_column: Literal["apply", "park"] | None = None
    """Add columns to the target's tables where the source adds them to its own, and go on (`apply`), or park the table. Where
    it is not certain what rows that are there then have, the table is parked in any case."""

    drop_column: Literal["apply", "keep", "park"] | None = None
    """Drop columns of the target's tables where the source drops them (`apply`), keep them there for the rows that have values
    in them (`keep`: rows that come have NULL), or park the table, as when absent. Where anything else depends on the column, at
    either end, the table is parked in any case."""

    rename_column: Literal["apply", "park"] | None = None
    """Rename columns of the target's tables where the source renames them, by the job's rules, or park the table, as when
    absent. Where a key, or a rule, a filter or a column setting of the job file names the column, the table is parked in any
    case."""

    nullability: Literal["apply", "park"] | None = None
    """Let the target's columns have NULL where the source's may by now, and refuse it where those do, or park the table, as
    when absent. From a MySQL or MariaDB; where the target has a NULL in such a column, the table is parked in any case."""

    column_default: Literal["apply", "ignore", "park"] | None = None
    """Give the target's columns the defaults that the source's have got (`apply`), leave theirs as they are (`ignore`: what is
    replicated has every value with it, a default is for those who write there after a cut-over), or park the table, as when
    absent. From a MySQL or MariaDB."""

    change_type: Literal["apply", "park"] | None = None
    """Widen the target's columns where the source widens its own: greater integers, longer texts and bytes, more digits
    (`apply`, as when absent); or park the table. Any other change of a type parks the table in any
    case. A job with `[pair]` parks it when absent."""

    online_swap: Literal["apply", "park"] | None = None
    """Follow a table that gh-ost or pt-online-schema-change swaps with a changed copy of it (`apply`), by the keys above, or
    park it, as when absent. By `apply` you say that such a copy has all rows of the table when it is swapped in, which no log
    tells: that only these tools use the names in `ghost_tables`. Tables of these names are then left out of the job
    ([more](../howto/schema-changes.md#tables-that-a-tool-swaps-with-a-copy)). From a MySQL or MariaDB."""

    ghost_tables: list[Annotated[str, AfterValidator(_ghost)]] = list(USUAL)
    """With `online_swap = "apply"`: how the tools call the tables that they work with, with `{table}` for the name of the table
    that they change. A table of such a name is left out, unless the job file names it in full."""

    @property
    def ghosts(self) -> GhostNames:
        """Return the names of tables that tools work with, none where swaps are not followed."""
        return GhostNames(tuple(self.ghost_tables) if self.online_swap == APPLY else ())

    @property
    def given(self) -> Actions:
        """Return what the file says of each kind that has a key in it."""
        said = {kind: getattr(self, kind) for kind in ColumnChange}
        return {kind: str(action) for kind, action in said.items() if action is not None}

    def actions(self, usual: Actions = ADDITIVE) -> Actions:
        """Return what becomes of each kind of change. `usual`: of those that the file says nothing of; others park."""
        return dict.fromkeys(ColumnChange, PARK) | dict(usual) | dict(self.given)
