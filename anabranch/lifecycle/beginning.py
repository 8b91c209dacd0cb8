"""The beginning of a job: its trail, what the source needs before it, and the job's row at the target."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import SourceSetUp
from anabranch.errors import SourceError, StateError, TrailLocked
from anabranch.lifecycle.compat import show_progress
from anabranch.lifecycle.encrypting import key_places
from anabranch.model.markers import jobs_among
from anabranch.model.pairing import Pairing, said_of_deletes
from anabranch.trail import identity
from anabranch.trail.reader import has_begun
from anabranch.trail.storage import LocalStorage
from anabranch.view.definitions import history
from anabranch.view.identity import new_trail_uuid, trail_uuid
from anabranch.view.opened import catalog_of, source_of
from anabranch.view.options import limits_of, log_options, set_up_seconds
from anabranch.view.refusals import TARGET, refuse_changes, refuse_others_trail

if TYPE_CHECKING:  # importing contracts takes time
    from anabranch.contracts import LogOptions, SourceConnector, TargetStore
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.trail.lease import Lease
    from anabranch.trail.writer import TrailWriter
    from anabranch.view.job_view import JobView

JOIN_SECONDS = 2.0  # how long a set-up statement of a joining table waits for others, while capture follows


def begin_trail_if_none(job: JobView, stop: Callable[[], bool] = lambda: False) -> None:
    """Begin a trail at the source's present position for a `load` without one. The caller waits for one that capture is
    beginning.
    """
    from anabranch.capture.begin import begin
    from anabranch.capture.older import OlderPatience

    if has_begun(job.trail):
        return
    job_uuid = trail_uuid(job) or new_trail_uuid(job)
    source = source_of(job)
    options = log_options(job, job_uuid)
    reader = source.log(options)
    try:
        with open_trail(job, reader.identity(), job_uuid) as trail:
            prepare_source(job, source, options, stop)
            patience = OlderPatience(float(job.config.capture.staging_timeout_s), stop)
            begin(source, reader, trail, job.rules.includes, patience)
    except TrailLocked:
        return
    finally:
        reader.close()


def open_trail(
    job: JobView, source_identity: str, job_uuid: str, lock_timeout: float = 0.0, lease: Lease | None = None
) -> TrailWriter:
    """Open the job's trail for writing. `lease`: of a trail that captures share, given up with the writer."""
    from anabranch.trail.writer import TrailWriter

    refuse_others_trail(job)
    capture = job.config.capture
    return TrailWriter.open(
        job.trail,
        job=job.config.name,
        job_uuid=job_uuid,
        source_identity=source_identity,
        segment_bytes=capture.segment_mb * 1024 * 1024,
        limits=limits_of(job),
        lock_timeout=lock_timeout,
        lock=lease,
        encrypt=key_places(job.config),
    )


def prepare_source(
    job: JobView, source: SourceConnector, options: LogOptions, stop: Callable[[], bool] = lambda: False
) -> None:
    """Carry out what the source still needs before a trail begins. Of one that has begun, add what shows who has written (K21)
    where `leave_out` is new and nobody has: behind writes of those jobs that would hide that they came without it, and capture
    refuses to start."""
    if has_begun(job.trail):
        if jobs_among(options.leave_out):
            carry_out(source, options, {}, False, stop)
        return
    carry_out(source, options, tables_at_source(job, source), True, stop, set_up_seconds(job))


def tables_at_source(job: JobView, source: SourceConnector) -> dict[TableId, TableSchema]:
    """Read the definitions of the tables that the rules include, as they are now."""
    with catalog_of(source) as catalog:
        return catalog.tables(job.rules.includes)


def carry_out(
    source: SourceConnector,
    options: LogOptions,
    tables: Mapping[TableId, TableSchema],
    begins: bool = False,
    stop: Callable[[], bool] = lambda: False,
    seconds: float = math.inf,
) -> list[str]:
    """Run what is missing at the source for these tables. Returns the statements. Before a log begins, each step waits
    up to `seconds` for other sessions that are in the way; a table that joins later waits only briefly, and asks again."""
    if not isinstance(source, SourceSetUp):
        return []
    steps = source.steps(options, tables, begins)
    for step in steps:
        source.run([step], seconds if begins else JOIN_SECONDS, stop)
        log.get().info("source_set_up", statement=step.sql)
    return [step.sql for step in steps]


def prepare_target(job: JobView, store: TargetStore) -> None:
    """Create the state schema and the job's row. Refuses a job file that says something else than the one last run (K32)."""
    store.prepare()
    trail = identity.load(LocalStorage(job.trail))
    if trail is None:
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
    known = store.jobs.job(job.config.name)
    if known is not None:
        refuse_changes(job, known, trail.job_uuid)
    store.jobs.save_job(
        job.config.name,
        {
            "uuid": trail.job_uuid,
            "source_identity": trail.source_identity,
            "definition": json.dumps(job.config.fingerprint(job.target)),
            **({TARGET: job.names.target} if job.names.target else {}),
            **_origins(job, trail.job_uuid, known or {}),
            **_left_out(job),
            **pair_facts(job),
        },
    )
    show_progress(job, store)


def _origins(job: JobView, job_uuid: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return which jobs write to the tables that this job reads, for jobs that read what it writes. While the source is
    away, return what was noted last."""
    from anabranch.model.state import ORIGINS
    from anabranch.model.writers import as_text, is_left_out, passed_on

    try:
        with catalog_of(source_of(job)) as catalog:
            left_out = job.config.source.leave_out
            writers = [one for one in catalog.writers() if one.key != job_uuid and not is_left_out(one, left_out)]
    except SourceError:
        return {ORIGINS: before[ORIGINS]} if ORIGINS in before else {}
    included = [schema for table, schema in history(job)[0].items() if job.rules.includes(table)]
    found = passed_on(writers, {schema.id: job.rules.target_table(schema).target for schema in included})
    return {ORIGINS: as_text(found)} if found else {}


def _left_out(job: JobView) -> dict[str, str]:
    """Return what the job leaves out, for a job in the other direction, which asks for it."""
    from anabranch.model.state import LEAVES_OUT
    from anabranch.model.writers import origins_as_text

    left_out = job.config.source.leave_out
    return {LEAVES_OUT: origins_as_text(left_out)} if left_out else {}


def pair_facts(job: JobView) -> dict[str, str]:
    """Return how a job of a pair decides, for its twin, which asks for it."""
    from anabranch.model.state import PAIR

    pair = job.config.pair
    if pair is None:
        return {}
    included = [schema for table, schema in history(job)[0].items() if job.rules.includes(table)]
    policies = {job.rules.target_table(schema).target: job.rules.on_conflict(schema) for schema in included}
    newest_by = {table: policy.newest_by for table, policy in policies.items()}
    delta = {table: tuple(sorted(policy.delta)) for table, policy in policies.items()}
    winning = {entry.id: entry.wins for entry in job.config.tables if entry.wins is not None}
    wins = {job.rules.target_table(one).target: winning[one.id] for one in included if one.id in winning}
    deletes = said_of_deletes(pair.deletes, any(delta.values()))
    ends = pair.site, pair.other, pair.winner, pair.twin
    noted = Pairing(*ends, newest_by, delta, deletes, wins, pair.ddl_from or "")
    return {PAIR: noted.as_text()}
