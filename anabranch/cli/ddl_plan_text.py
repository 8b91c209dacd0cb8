"""Text of `anabranch ddl plan`, for people and as JSON.

What does not live here: making the plan (`Job.plan_ddl`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.job.ddl_plan import DdlPlan, PlannedColumn
    from anabranch.model.altering_plan import AlteringPlan

KIB = 1024


def planned(one: DdlPlan) -> dict[str, Any]:
    """Return a plan for one target as JSON's values."""
    return {
        "version": 1,
        "statement": one.statement,
        "source": str(one.table),
        "table_version": one.then.version,
        "from_trail": one.from_trail,
        "outcome": str(one.outcome),
        "why": one.why,
        "changes": _changes(one),
        "columns": [_column(column) for column in one.columns],
        "altering": _altering(one.altering) if one.altering else None,
        "exit_code": one.exit_code,
    }


def planned_backlog(found: list[DdlPlan]) -> dict[str, Any]:
    """Return the plans of statements of the log as JSON's values."""
    return {"version": 1, "changes": [planned(one) | {"sequence": one.sequence} for one in found]}


def backlog_lines(found: list[DdlPlan]) -> Iterator[str]:
    """Yield the lines of statements of the log for people."""
    if not found:
        yield "the target has come to every change of a definition that the trail has"
    for one in found:
        first, *rest = plan_lines(one)
        yield f"at {one.sequence}: {first or '-'}"
        yield from (f"  {line}" for line in rest)


def plan_lines(one: DdlPlan) -> Iterator[str]:
    """Yield the lines for people."""
    held = "the trail" if one.from_trail else "the source's catalogue"
    yield f"{one.table} version {one.then.version}, as {held} has it: {one.statement}"
    if one.after:
        yield from (f"  {change}" for change in [*_changes(one), "as far as the statement tells"])
    yield f"{one.outcome}{f': {one.why}' if one.why else ''}"
    for column in one.columns:
        fit = column.fit
        reason = f" ({fit.reason})" if fit.reason else ""
        yield f"  {column.column.name}: {column.column.native} is {column.target} {fit.native} there, {fit.fidelity}{reason}"
    if one.altering:
        yield from _altering_lines(one.altering)


def _altering_lines(one: AlteringPlan) -> Iterator[str]:
    yield from (f"  {statement};" for statement in one.statements)
    yield f"  lock: {one.lock} ({one.link})"
    size = f"{'unknown' if one.rows is None else f'about {one.rows:,}'} rows, {_size(one.bytes)}"
    duration = "not known" if one.seconds is None else f"about {one.seconds:,.0f} s"
    yield f"  {size}: {f'all rows are written anew, {duration}' if one.rewrites else 'no row is written'}"
    yield from (f"  back: {statement};" for statement in one.inverse)


def _size(bytes: int | None) -> str:
    if bytes is None:
        return "size unknown"
    return f"{bytes / KIB:,.0f} KiB" if bytes < KIB * KIB else f"{bytes / KIB / KIB:,.1f} MiB"


def _changes(one: DdlPlan) -> list[str]:
    from anabranch.model.schema_changes import changes

    return [str(change) for change in changes(one.then, one.after)] if one.after else []


def _column(one: PlannedColumn) -> dict[str, Any]:
    from anabranch.model.schema_changes import column_text

    return {
        "source": one.column.name,
        "definition": column_text(one.column),
        "target": one.target,
        "type": one.fit.native,
        "fidelity": str(one.fit.fidelity),
        "reason": one.fit.reason,
    }


def _altering(one: AlteringPlan) -> dict[str, Any]:
    return {
        "statements": list(one.statements),
        "inverse": list(one.inverse),
        "lock": one.lock,
        "link": one.link,
        "rewrites": one.rewrites,
        "rows": one.rows,
        "bytes": one.bytes,
        "seconds": one.seconds,
    }
