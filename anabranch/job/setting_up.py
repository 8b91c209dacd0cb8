"""`setup`: what capture needs at the source, shown or made beforehand, and taken away. `run` and `capture` do the same by
themselves where their user may.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.job import ends
from anabranch.job.running import APPLY, LOAD, require_stopped
from anabranch.trail.reader import TrailReader, exists

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.job.job import Job
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema


def setup(job: Job, execute: bool, remove: bool) -> list[str]:
    """The statements; run if told. Raises StateError for taking away what a part that runs reads by, SourceError for a
    statement that is refused."""
    source = ends.source_of(job)
    if remove:
        return _removal(job, execute)
    options = ends.log_options(job, ends.trail_uuid(job) or ends.new_trail_uuid(job))
    begins = not (exists(job.trail) and TrailReader(job.trail).end().resume)
    tables = _tables(job, source)
    if execute:
        return ends.carry_out(source, options, tables, begins, seconds=ends.set_up_seconds(job))
    return [step.sql for step in source.missing(options, tables, begins)]


def _tables(job: Job, source: SourceConnector) -> dict[TableId, TableSchema]:
    """The definitions of the tables that the rules include. The log warns where one rule takes tables from another."""
    present: list[TableId] = []

    def wanted(table: TableId) -> bool:
        present.append(table)
        return job.rules.includes(table)

    with closing(source.catalog()) as catalog:
        found = catalog.tables(wanted)
    for one in job.rules.contradictions(present):
        log.get(job=job.config.name).warning("rules_contradict", problem=str(one.problem), hint=one.hint)
    return found


def _removal(job: Job, execute: bool) -> list[str]:
    if execute:
        require_stopped(job, but=(LOAD, APPLY))
    job_uuid = ends.trail_uuid(job) or ends.begun_uuid(job.trail)
    return ends.source_of(job).leftovers(ends.name_at_source(job.config.name, job_uuid), execute) if job_uuid else []
