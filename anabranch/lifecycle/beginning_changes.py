"""The beginning of a job that keeps changes: its change tables at the target, and the place of the log behind which they have
every change. What was there before is in no change table; a target that takes messages may have it (`first_rows.py`).

Every step may be repeated: a call that was killed is made again, and goes on. What does not live here: the trail's beginning
(`beginning.py`), what a change table is (`connectors/<db>/target/change_tables/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import FollowsInstances, KeepsChanges, TakesFirstRows, TargetStore
from anabranch.errors import StateError
from anabranch.failpoints import reach
from anabranch.lifecycle.arming import hand_on
from anabranch.lifecycle.attunity import make_tables
from anabranch.lifecycle.beginning import prepare_target
from anabranch.lifecycle.first_rows import Watcher, load_first_rows, refuse_unfit
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import heard_of, take_over
from anabranch.rules.instances import refuse_shared
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.view.definitions import definitions, parked_in_trail
from anabranch.view.opened import end_of, store_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def begin_changes(job: JobView, stop: Callable[[], bool], watcher: Watcher) -> None:
    """Create the change tables, set the checkpoint in front of the trail's first transaction, and load the rows that are there,
    where the job wants them. Nothing to do is no error. `watcher` is told of the rows.

    Raises StateError where a table changed meanwhile, or the database has change tables of another job."""
    with store_of(job) as store:
        prepare_target(job, store)
        checkpoint = store.jobs.checkpoint(job.config.name)
        if checkpoint is None:
            _refuse_lost(job)
            _begin(job, store, definitions(job))
        else:
            _follow_instances(job, store)
            make_tables(job)
            hand_on(job, checkpoint.position.sequence)
        load_first_rows(job, store, stop, watcher)


def _refuse_lost(job: JobView) -> None:
    """Raise StateError for a target that was written to, and has lost its checkpoint: to begin again would repeat changes, or
    leave out what the trail does not have any more, and say nothing."""
    if job.names.apply in retention.readers(job.trail):
        hint = "bring its state back; or begin again: anabranch drop JOB --execute, then run the job"
        raise StateError("the target has lost the job's checkpoint", job=job.config.name, hint=hint)


def _begin(job: JobView, store: TargetStore, schemas: Mapping[TableId, TableSchema]) -> None:
    name = job.config.name
    job.rules.targets(schemas)  # refuses two tables with one change table
    with TrailReader(job.trail) as trail:
        first, end, uuid = trail.first() - 1, trail.end(), trail.identity.job_uuid
        _refuse_changed(job, trail, first)
    retention.hold(job.trail, job.names.load, first)
    tables = [(schema, job.rules.target_table(schema)) for _, schema in sorted(schemas.items())]
    target = end_of(job)
    assert isinstance(target, KeepsChanges), "so its form says"
    if isinstance(target, TakesFirstRows) and target.wants_first_rows:
        refuse_unfit(job, list(schemas.values()))
    forms = [(schema, form) for schema, _ in tables for form in job.rules.instances(schema, strict=True)]
    refuse_shared(forms)
    with closing(target.change_tables(value_rules(job))) as made:
        made.begin(name, uuid, forms, first, end.commit_time if end.position.sequence == first else 0)
    make_tables(job)
    reach("changes.made")
    known = store.states.tables(name)
    wants = isinstance(target, TakesFirstRows) and target.wants_first_rows
    new = [
        (heard_of(schema.id, table.target) if wants else take_over(None, schema, table.target), None)
        for schema, table in tables
        if schema.id not in known
    ]
    if new:
        store.states.save_tables(name, new)
    reach("changes.known")
    native = end.position.native if end.position.sequence == first else ""
    store.jobs.create_checkpoint(name, Position(first, native), end.commit_time)
    hand_on(job, first)
    log.get(job=name).info("change_tables_begun", tables=len(tables), sequence=first)


def _follow_instances(job: JobView, store: TargetStore) -> None:
    """Make the change tables that the job file names besides, and let those end that it names no more, of tables that stream:
    apply begins and ends them with its next epoch."""
    target, name = end_of(job), job.config.name
    assert isinstance(target, KeepsChanges), "so its form says"
    states = store.states.tables(name)
    schemas = [one.schema for _, one in sorted(states.items()) if one.is_streaming and one.schema]
    with closing(target.change_tables(value_rules(job))) as made, TrailReader(job.trail) as trail:
        if isinstance(made, FollowsInstances) and schemas:
            forms = [(schema, form) for schema in schemas for form in job.rules.instances(schema)]
            refuse_shared(forms)
            made.follow(name, trail.identity.job_uuid, forms)


def _refuse_changed(job: JobView, trail: TrailReader, first: int) -> None:
    """Refuse tables that changed since the trail began: rows of both definitions have no change table in common."""
    parked = parked_in_trail(job)
    entries = [one for one in trail.history.entries if one.kind == "schema" and one.sequence > first + 1]
    later = {one.schema.id for one in entries if one.schema} - parked.keys()
    found = [f"{table} is parked: {why}" for table, why in sorted(parked.items())]
    found += [f"{table} was altered" for table in sorted(later) if job.rules.includes(table)]
    if found:
        raise StateError(
            f"tables changed before their change tables were there: {'; '.join(found)}",
            job=job.config.name,
            hint="begin again behind the change: anabranch drop JOB --execute, then run the job",
        )
