"""Columns that come to a table of a pair while both sites write it (`[pair] ddl_from`).

A column is added at the declared site. The job that reads there adds it at the other site, as any job does, and its twin meets
that statement in the other site's log: for the twin the column has come at its target first, so that it goes on by the next
definition without doing anything. Rows that were written by the former one are under way to the declared site meanwhile. Where
such a row wins over one that has the column already, it stands for a row with the column's default, which is what it got at
its own site when the column came there; without that the two sites would keep different values under equal versions.

What does not live here: altering (`altering.py`), deciding between two rows (`conflict.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.apply.column_steps import NotFollowed
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.settings import ApplySettings
from anabranch.contracts import AltersPair, ComingColumns
from anabranch.errors import StoppedByChange, TargetError
from anabranch.failpoints import reach
from anabranch.model.column_changes import THERE, ColumnChange, TableActions
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.net import TargetTable

NO_VALUE = (
    "{} is NOT NULL and has no default, which rows that are under way from the other site would lack: give it one"
)
NO_WAY_BACK = (
    "give such a column another type, or no default; for this one, say in [types.map] of both files how it goes and comes"
    ' back, or let its table park here ([ddl] add_column = "park")'
)
AGAIN = "{}, and start the job again: it goes on from here"
WAITS = "columns have come at the target that rows under way lack"


def agreed(
    writer: object, altered: AlteredTable, actions: TableActions, settings: ApplySettings, job: str
) -> AlteredTable:
    """Return the table with the columns that its target lacks. Not inside an epoch. Raises StoppedByChange in front of a column
    that has not come first where columns are added, stands otherwise than it comes, or would come back otherwise; NotFollowed
    for one that some row would have no value in; Conflict."""
    site = settings.ddl_from
    added = [step for step in altered.steps if isinstance(step, ColumnAdded)]
    if not added:
        return altered
    for step in added:
        column = altered.schema.column(step.name)
        if step.fill is not None or (not column.nullable and not (column.has_default and column.default is not None)):
            raise NotFollowed(NO_VALUE.format(step.name))
    standing = coming(writer).standing(altered)
    if other := [why for why in standing.values() if why]:
        told = f"a column that came at the source stands at {altered.table.target} otherwise: {'; '.join(other)}"
        raise _stopped(altered, told, "make it the same at both sites", job)
    lacking = [step.name for step in added if step.name not in standing]
    if lacking and actions.of(ColumnChange.ADD) == THERE:
        told = f"{', '.join(lacking)} came at this site, and [pair] ddl_from says that columns are added at {site}"
        raise _stopped(altered, told, f"add it at {site}, too, with the same type and default", job)
    if standing:
        reach("apply.pair.stands")
    altered = replace(altered, steps=tuple(step for step in altered.steps if step not in added or step.name in lacking))
    _refuse_lost_on_the_way(writer, altered, lacking, settings, job)
    return altered


def _refuse_lost_on_the_way(
    writer: object, altered: AlteredTable, lacking: Sequence[str], settings: ApplySettings, job: str
) -> None:
    """Raise StoppedByChange in front of columns that would come back from the target otherwise than they go there: the twin
    would meet another column, stop in front of it or park the table, with rows of users behind that."""
    defaults = coming(writer).kept_back(altered) if lacking else {}
    for name in lacking:
        column = altered.schema.column(name)
        why = settings.why_not_back(column, altered.table.type_of(altered.target(name)))
        if why or name in defaults:
            told = f"{name} would not come back from {altered.table.target} as it goes there: {why or defaults[name]}"
            raise _stopped(altered, told, NO_WAY_BACK, job)


def _stopped(altered: AlteredTable, told: str, what: str, job: str) -> StoppedByChange:
    return StoppedByChange(told, job=job, table=str(altered.table.source), hint=AGAIN.format(what))


def refuse_come(table: TargetTable, policy: ConflictPolicy, writer: object) -> None:
    """Raise NeedsSlowWay where the target's table has columns that the rows of a net lack: only row by row it is known which of
    them win. Inside the epoch, in which no further ones come."""
    if policy.alters and coming(writer).beside(table):
        raise NeedsSlowWay(table, WAITS)


def fill_come(table: TargetTable, policy: ConflictPolicy, key: Mapping[str, str | None], writer: object) -> None:
    """Give a row that has won the defaults of the columns that have come at the target, and that it lacks."""
    if policy.alters and (names := coming(writer).beside(table)):
        coming(writer).fill(table, key, names)
        reach("apply.pair.filled")


def coming(writer: object) -> ComingColumns:
    """Return how the writer sees to columns that come. Raises TargetError for one that cannot."""
    if not isinstance(writer, AltersPair):
        raise TargetError(
            "this target's tables cannot be altered while two sites write them", hint="leave [pair] ddl_from out"
        )
    return writer.coming()
