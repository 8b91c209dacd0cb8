"""A job whose tables stand at the target with the source's rows already: it begins without a load, at the place of the source's
log where it is armed.

What was committed at the source before that place is never carried over. So a way back is armed before anybody but the job
there writes to its source; what that job writes is left out by its origin. Every step may be repeated: a call that was killed
is made again, and goes on.

What does not live here: the file of such a job (`reversing.py`), beginning a trail (`beginning.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import TargetStore
from anabranch.errors import ConfigError, StateError
from anabranch.lifecycle.beginning import begin_trail_if_none, prepare_target
from anabranch.model.ids import TableId
from anabranch.model.markers import origin_of
from anabranch.model.position import Position
from anabranch.model.table_life import take_over
from anabranch.model.writers import JOB, is_left_out
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.view.alone import alone
from anabranch.view.definitions import definitions, parked_in_trail
from anabranch.view.opened import catalog_of, source_of, target_of
from anabranch.view.refusals import TAKE_OVER

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


@dataclass(frozen=True, slots=True)
class Armed:
    """`position`: behind it every change of the source goes to the target. `tables`: source tables that stream from there.
    `was_armed`: it was armed before, and nothing was changed."""

    position: Position
    tables: tuple[TableId, ...]
    was_armed: bool


def arm(job: JobView, stop: Callable[[], bool] = lambda: False) -> Armed:
    """Let the job begin at its source's present position. Raises ConfigError for a job whose tables are loaded, or which would
    bring back what another one writes."""
    if job.config.load.existing != TAKE_OVER:
        raise ConfigError(
            "only a job whose tables stand already begins without a load",
            job=job.config.name,
            hint='the file that anabranch reverse writes says so: [load] existing = "take_over"',
        )
    with alone(job, stop):
        begin_trail_if_none(job, stop)
        _require_begun(job)
        with closing(target_of(job).store()) as store:
            prepare_target(job, store)
            return _take_over(job, store)


def _require_begun(job: JobView) -> None:
    """Refuse to go on where the trail did not begin: stopped, or capture is beginning it at this moment."""
    with TrailReader(job.trail) as trail:
        if not trail.end().resume:
            hint = "run it again: it goes on where it was stopped"
            raise StateError("the trail has not begun", job=job.config.name, hint=hint)


def _take_over(job: JobView, store: TargetStore) -> Armed:
    """Record the tables, then the checkpoint behind which they stream: apply begins where it finds one."""
    name = job.config.name
    schemas = definitions(job)
    checkpoint, states = store.jobs.checkpoint(name), store.states.tables(name)
    if checkpoint is not None:
        hand_on(job, checkpoint.position.sequence)
        return Armed(checkpoint.position, tuple(sorted(states)), was_armed=True)
    targets = job.rules.targets(schemas)
    refuse_unmarked(job, targets)
    with TrailReader(job.trail) as trail:
        first, end = trail.first() - 1, trail.end()
        _refuse_changed(job, trail, first)
    retention.hold(job.trail, job.names.load, first)
    new = [(take_over(None, schema, targets[table]), None) for table, schema in schemas.items() if table not in states]
    if new:
        store.states.save_tables(name, new)
    native = end.position.native if end.position.sequence == first else ""
    position = Position(first, native)
    store.jobs.create_checkpoint(name, position, end.commit_time)
    hand_on(job, first)
    log.get(job=name).info("job_armed", position=str(position), tables=len(schemas))
    return Armed(position, tuple(sorted(schemas)), was_armed=False)


def _refuse_changed(job: JobView, trail: TrailReader, first: int) -> None:
    """Refuse tables that changed since the trail began, in an earlier call that was killed: what stands is their definition of
    now, and rows of the trail may have an older one. Refuse parked tables, too: such a job cannot load them later."""
    parked = parked_in_trail(job)
    entries = [one for one in trail.history.entries if one.kind == "schema" and one.sequence > first + 1]
    later = {one.schema.id for one in entries if one.schema} - parked.keys()
    found = [f"{table} is parked: {why}" for table, why in sorted(parked.items())]
    found += [f"{table} was altered" for table in sorted(later) if job.rules.includes(table)]
    if found:
        raise StateError(
            f"tables changed while the job was not armed yet: {'; '.join(found)}",
            job=job.config.name,
            hint="remove what was begun (anabranch drop JOB --execute), let the tables be as they were, or leave"
            " them out ([[rules]] exclude), then arm it again",
        )


def hand_on(job: JobView, sequence: int) -> None:
    """Hold the trail for apply, which registers again when it starts, no longer for what has no load."""
    held = retention.readers(job.trail)
    if job.names.load in held and job.names.apply not in held:
        retention.register(job.trail, job.names.apply, sequence)
    retention.unregister(job.trail, job.names.load)


def refuse_unmarked(job: JobView, tables: Collection[TableId]) -> None:
    """Refuse jobs that write to tables of the source without being left out: what they write would come back to where it came
    from."""
    with catalog_of(source_of(job)) as catalog:
        writers = [one for one in catalog.writers() if not one.through]
    for writer in writers:
        written = sorted(str(table) for _, table in writer.pairs if table in tables)
        if written and not is_left_out(writer, job.config.source.leave_out):
            origin = origin_of(writer.name.removeprefix(JOB))
            raise ConfigError(
                f"{writer.name} writes to {', '.join(written[:3])}, and what it writes is not left out",
                job=job.config.name,
                hint=f'[source] leave_out = ["{origin}"]; or remove that job (anabranch drop) if it does not write any more',
            )
