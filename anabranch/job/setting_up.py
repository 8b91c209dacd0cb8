"""`setup`: what capture needs at the source, shown or made beforehand, and taken away. `run` and `capture` do the same by
themselves where their user may.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import remains_of, steps_of
from anabranch.lifecycle.beginning import carry_out
from anabranch.trail.reader import has_begun
from anabranch.view.identity import begun_uuid, new_trail_uuid, trail_uuid
from anabranch.view.opened import source_of
from anabranch.view.options import log_options, name_at_source, set_up_seconds
from anabranch.view.running import APPLY, LOAD, require_stopped

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView


def setup(job: JobView, execute: bool, remove: bool) -> list[str]:
    """Return the statements; with `execute` they are run.

    Raises StateError for removing what a running part reads by, SourceError for a statement that is refused.
    """
    source = source_of(job)
    if remove:
        return _removal(job, execute)
    options = log_options(job, trail_uuid(job) or new_trail_uuid(job))
    begins = not has_begun(job.trail)
    tables = _tables(job, source)
    if execute:
        return carry_out(source, options, tables, begins, seconds=set_up_seconds(job))
    return [step.sql for step in steps_of(source, options, tables, begins)]


def _tables(job: JobView, source: SourceConnector) -> dict[TableId, TableSchema]:
    """Return the definitions of the tables that the rules include. The log warns where one rule takes tables from another."""
    present: list[TableId] = []

    def wanted(table: TableId) -> bool:
        present.append(table)
        return job.rules.includes(table)

    with closing(source.catalog()) as catalog:
        found = catalog.tables(wanted)
    for one in job.rules.contradictions(present):
        log.get(job=job.config.name).warning("rules_contradict", problem=str(one.problem), hint=one.hint)
    return found


def _removal(job: JobView, execute: bool) -> list[str]:
    if execute:
        require_stopped(job, but=(LOAD, APPLY))
    job_uuid = trail_uuid(job) or begun_uuid(job.trail)
    return remains_of(source_of(job), name_at_source(job.config.name, job_uuid), execute) if job_uuid else []
