"""The error that stops a job, or parks a table: which row the target cannot take, and where it stands in the log."""

from __future__ import annotations

from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.unconverted import Unconvertible
from anabranch.contracts import Conflict
from anabranch.errors import RowRefused
from anabranch.model.position import Position


def refused(reason: Conflict | NeedsSlowWay, position: Position) -> RowRefused:
    """Return the error for a row that cannot be applied, with its key where it is known."""
    if isinstance(reason, NeedsSlowWay):
        hint = reason.hint if isinstance(reason, Unconvertible) else ""
        return RowRefused(reason.why, table=str(reason.table), position=str(position), hint=hint)
    key = ", ".join(f"{name} = {value}" for name, value in reason.key.items())
    error = RowRefused(
        f"{reason.what}" + (f" (row {key})" if key else ""),
        table=str(reason.table),
        position=str(position),
        hint="correct the row or the table at the target, then start again: the job continues from here; on_conflict decides"
        " about rows that are missing or already there",
    )
    error.is_taken = reason.is_taken
    return error
