"""Reads what a job's trail says of its tables: their definitions, and which capture has parked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.errors import SchemaError, SourceUnavailable
from anabranch.model.parked_reasons import DROPPED
from anabranch.trail import identity, retention
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.storage import LocalStorage
from anabranch.view.opened import catalog_of

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView


def definitions(job: JobView) -> dict[TableId, TableSchema]:
    """Return the definitions in force in the trail, of included tables; none where all of them are parked."""
    in_force, parked = history(job)
    found = {table: schema for table, schema in in_force.items() if job.rules.includes(table)}
    if not found and not any(map(job.rules.includes, {*parked, *_dropped(job)})):
        raise SchemaError(
            "the rules include no table of the source",
            job=job.config.name,
            hint="look at [[rules]] include with: anabranch preflight JOB",
        )
    return found


def parked_because(job: JobView, table: TableId) -> str:
    """Say why capture has parked a table, or that it was dropped, as apply would say it; "" where it is followed."""
    with TrailReader(job.trail) as trail:
        return parked_in(trail, table)


def parked_in_trail(job: JobView) -> dict[TableId, str]:
    """Return included tables that capture has parked, and why."""
    with TrailReader(job.trail) as trail:
        return {table: parked_in(trail, table) for table in trail.history.parked() if job.rules.includes(table)}


def parked_in(trail: TrailReader, table: TableId) -> str:
    """Say the same as `parked_because`, by a trail that is open."""
    entry = trail.history.parked_by(table)
    if (dropped := trail.history.dropped_by(table)) is not None:
        entry = replace(dropped, reason=DROPPED)
    if entry is None:
        return ""
    return f"{entry.reason} (at {entry.sequence})" + (f": {entry.statement}" if entry.statement else "")


def history(job: JobView) -> tuple[dict[TableId, TableSchema], dict[TableId, str]]:
    """Return definitions in force, and parked tables with their reason."""
    if not exists(job.trail):
        return {}, {}
    with TrailReader(job.trail) as trail:
        return trail.history.in_force(), trail.history.parked()


def _dropped(job: JobView) -> set[TableId]:
    """Return the tables that the source has dropped while its log was read."""
    if not exists(job.trail):
        return set()
    with TrailReader(job.trail) as trail:
        return trail.history.dropped()


def is_asked_for(job: JobView, table: TableId) -> bool:
    """Return whether a `load --table` of it has begun: then the trail is held for it."""
    return job.names.table(table) in retention.readers(job.trail)


def logs_cascades(job: JobView, source: SourceConnector) -> bool:
    """Return whether the source's log has what foreign keys change (K1). While the source is away, capture's note decides."""
    try:
        with catalog_of(source) as catalog:
            return catalog.log.logs_cascades()
    except SourceUnavailable:
        found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
        if found is None or found.logs_cascades is None:
            raise
        return found.logs_cascades
