"""The steps from one definition of a table to the next one, as far as the target's table goes with them.

What does not live here: when they come (`altering.py`), how a target carries them out (its Writer).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.model.column_changes import PARK, Actions, ColumnChange, Untold
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded, Step
from anabranch.rows.net import TargetTable

KINDS: Mapping[type[Step], ColumnChange] = {ColumnAdded: ColumnChange.ADD}


class NotFollowed(Exception):
    """The target's table does not go with the change; the text says why."""


def altered_table(
    former: tuple[TableSchema, TargetTable], now: tuple[TableSchema, TargetTable], untold: Untold, actions: Actions
) -> AlteredTable:
    """Return the table with the steps that its target needs. Raises NotFollowed for a step that the job file parks, and
    where the job's rules make something else of the table now, apart from the steps."""
    steps = tuple(_steps(former, now, untold))
    if parked := sorted({KINDS[type(step)] for step in steps if actions.get(KINDS[type(step)], PARK) == PARK}):
        raise NotFollowed(f'[ddl] {parked[0]} is "{PARK}"')
    if _without(former[1], steps) != _without(now[1], steps):
        raise NotFollowed("the job's rules make another table of it now")
    return AlteredTable(*former, *now, steps)


def _steps(
    former: tuple[TableSchema, TargetTable], now: tuple[TableSchema, TargetTable], untold: Untold
) -> Iterator[Step]:
    before, filled = {column.name for column in former[0].columns}, dict(untold.filled)
    for name in now[1].source_columns:
        if name not in before:
            yield ColumnAdded(name, filled.get(name))


def _without(table: TargetTable, steps: tuple[Step, ...]) -> tuple[object, ...]:
    """Return what makes the table, without the columns of steps."""
    names = {step.name for step in steps}
    columns = [one for one in zip(table.source_columns, table.columns, table.types, strict=True) if one[0] not in names]
    return table.target, table.key, table.computed, columns
