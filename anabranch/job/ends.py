"""Opening what a job works on: trail, target store, connectors; and the checks that all belong together (K31, K32)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anabranch import connectors, log
from anabranch.config import ONLY, describe_change
from anabranch.errors import (
    AnabranchError,
    JobChanged,
    SchemaError,
    SourceError,
    SourceUnavailable,
    StateError,
    TargetUnavailable,
    TrailLocked,
)
from anabranch.job.signals import PATIENT
from anabranch.model.endpoint import EndLimits
from anabranch.trail import identity, retention
from anabranch.trail.failures import writing
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.retention import Limits
from anabranch.trail.storage import LocalStorage

if TYPE_CHECKING:  # contracts take time to come, and `status` goes without them
    from anabranch.contracts import LogOptions, RowTarget, SourceConnector, TargetStore, ValueRules
    from anabranch.job.job import Job
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.model.state import Checkpoint
    from anabranch.preflight.known import Known
    from anabranch.preflight.report import Report
    from anabranch.rows.conflict import NotedConflict
    from anabranch.trail.writer import TrailWriter

T = TypeVar("T")
TARGET = "target"  # among a job's facts at a target that has a name: which one it is
JOIN_SECONDS = 2.0  # that others may be in the way of what a table needs at the source, while capture follows
SERVER_ID_FLOOR = 1 << 20  # derived ids stay clear of the small numbers that people give their servers


def source_of(job: Job) -> SourceConnector:
    return connectors.source(replace(job.config.source.endpoint, limits=source_limits(job)))


def target_of(job: Job) -> RowTarget:
    return connectors.row_target(replace(job.endpoint, limits=target_limits(job)))


def source_limits(job: Job, interval: float = 10.0) -> EndLimits:
    return job.config.retry.source.limits(interval, is_patient=False)


def target_limits(job: Job) -> EndLimits:
    return job.config.retry.target.limits(EndLimits().interval, bool(os.environ.get(PATIENT)))


def set_up_seconds(job: Job) -> float:
    """How long others may be in the way of what prepares the source, before a log begins."""
    wanted = job.config.retry.source.lock_s
    return math.inf if wanted is None or wanted < 0 else float(wanted)


def told(job: Job, error: AnabranchError) -> str:
    """An error's message, with the job in it."""
    error.job = error.job or job.label
    return str(error)


def value_rules(job: Job) -> ValueRules:
    return job.rules.values


def log_options(job: Job, job_uuid: str) -> LogOptions:
    from anabranch.contracts import LogOptions

    capture = job.config.capture
    derived = SERVER_ID_FLOOR + uuid.UUID(job_uuid).int % ((1 << 31) - SERVER_ID_FLOOR)
    name = name_at_source(job.config.name, job_uuid)
    return LogOptions(
        capture.server_id or derived,
        capture.flush_interval_ms / 1000,
        value_rules(job),
        name,
        capture.decoder,
        heartbeat=capture.heartbeat_interval_s,
        binary=capture.binary,
        streaming=capture.streaming,
        decoding=capture.decoding,
    )


def name_at_source(job: str, job_uuid: str) -> str:
    """What the job has at the source is called so: small letters, digits and underscores, of no other job of this name."""
    readable = re.sub(r"[^a-z0-9]+", "_", job.lower())[:40].strip("_")
    return f"anabranch_{readable}_{job_uuid[:8]}"


def trail_uuid(job: Job) -> str | None:
    """The job uuid that the trail carries, None where no trail was begun."""
    found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
    return found.job_uuid if found else None


def followed_identity(job: Job) -> str | None:
    """The server that the trail was read from last."""
    found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
    return found.source_identity if found else None


def refuse_switch_while_loading(job: Job, followed: str, now: str) -> None:
    """Another server's log has other positions: the marks of a load that is not finished would mean nothing in it."""
    loading = [str(table) for one in job.whole.targets() for table in _loading(one)]
    if loading:
        raise SourceError(
            f"this server is {now}, the trail follows {followed}, and {', '.join(loading[:5])} are not past their load",
            job=job.config.name,
            hint="connect to the former server until every table streams, or drop the job and load again",
        )


def _loading(job: Job) -> list[TableId]:
    store = target_of(job).store()
    try:
        states = store.states.tables(job.config.name) if store.exists() else {}
    finally:
        store.close()
    return [table for table, state in states.items() if state.is_before_stream]


def begun_uuid(trail: Path) -> str | None:
    """The job uuid that a trail will carry which was prepared for and has not begun."""
    file = trail / "uuid"
    return file.read_text() if file.exists() else None


def new_trail_uuid(job: Job) -> str:
    """For a trail that is begun now. Refuses to begin one anew under a target that has followed another.

    Who begins the same trail at the same moment may be quicker and have its checkpoint at the target already: so
    whether there is a trail is asked after the checkpoint. One of several targets that is away is passed over: where it has
    followed another trail, its load and apply refuse this one.
    """
    found = of_each(job.whole, _checkpoint)
    for checkpoint in filter(None, found):
        if begun := trail_uuid(job):
            return begun
        raise StateError(
            f"the target is at {checkpoint.position}, but the trail {job.trail} is gone",
            job=job.config.name,
            hint="restore the trail; or remove the job's state (anabranch drop JOB --execute) and load again",
        )
    return _agreed_uuid(job.trail)


def _checkpoint(job: Job) -> Checkpoint | None:
    store = target_of(job).store()
    try:
        facts = store.jobs.job(job.config.name) if store.exists() else None
        return store.jobs.checkpoint(job.config.name) if facts else None
    finally:
        store.close()


def of_each(job: Job, ask: Callable[[Job], T]) -> list[T]:
    """The answers of a job's targets; without those that are away, unless all of them are."""
    found, away = list[T](), list[TargetUnavailable]()
    for one in job.targets():
        try:
            found.append(ask(one))
        except TargetUnavailable as error:
            away.append(error)
    if away and not found:
        raise away[0]
    return found


def _agreed_uuid(trail: Path) -> str:
    """Capture and load may begin the same trail at the same moment: whoever makes the file decides for both."""
    with writing(f"the trail {trail}"):
        trail.mkdir(parents=True, exist_ok=True)
        mine = trail / f"uuid.{os.getpid()}"
        mine.write_text(str(uuid.uuid4()))
        with contextlib.suppress(FileExistsError):
            os.link(mine, trail / "uuid")
        mine.unlink()
        return (trail / "uuid").read_text()


def limits_of(job: Job) -> Limits:
    capture = job.config.capture
    most = None if capture.retain_mb is None else capture.retain_mb * 1024 * 1024
    return Limits(capture.retain_hours * 3600, most, capture.retain_segments)


def open_trail(job: Job, source_identity: str, job_uuid: str, lock_timeout: float = 0.0) -> TrailWriter:
    from anabranch.trail.writer import TrailWriter

    capture = job.config.capture
    return TrailWriter.open(
        job.trail,
        job=job.config.name,
        job_uuid=job_uuid,
        source_identity=source_identity,
        segment_bytes=capture.segment_mb * 1024 * 1024,
        limits=limits_of(job),
        lock_timeout=lock_timeout,
    )


def begin_trail_if_none(job: Job, stop: Callable[[], bool] = lambda: False) -> None:
    """`load` without a trail records the source's present position itself. One that capture is beginning is awaited
    by the caller."""
    from anabranch.capture.begin import begin
    from anabranch.capture.older import Patience

    if exists(job.trail) and TrailReader(job.trail).end().resume:
        return
    job_uuid = trail_uuid(job) or new_trail_uuid(job)
    source = source_of(job)
    options = log_options(job, job_uuid)
    reader = source.log(options)
    try:
        with open_trail(job, reader.identity(), job_uuid) as trail:
            prepare_source(job, source, options, stop)
            patience = Patience(float(job.config.capture.staging_timeout_s), stop)
            begin(source, reader, trail, job.rules.includes, patience)
    except TrailLocked:
        return
    finally:
        reader.close()


def prepare_source(
    job: Job, source: SourceConnector, options: LogOptions, stop: Callable[[], bool] = lambda: False
) -> None:
    """What the source still needs before a trail begins."""
    if exists(job.trail) and TrailReader(job.trail).end().resume:
        return
    carry_out(source, options, tables_at_source(job, source), True, stop, set_up_seconds(job))


def tables_at_source(job: Job, source: SourceConnector) -> dict[TableId, TableSchema]:
    """Reads the definitions of the tables that the rules include, as they are now."""
    catalog = source.catalog()
    try:
        return catalog.tables(job.rules.includes)
    finally:
        catalog.close()


def carry_out(
    source: SourceConnector,
    options: LogOptions,
    tables: Mapping[TableId, TableSchema],
    begins: bool = False,
    stop: Callable[[], bool] = lambda: False,
    seconds: float = math.inf,
) -> list[str]:
    """Run what is missing at the source for these tables; the statements. Before a log begins, others who are in the way are
    waited for, each step so many `seconds`; a table that joins asks again later."""
    steps = source.missing(options, tables, begins)
    for step in steps:
        source.carry_out([step], seconds if begins else JOIN_SECONDS, stop)
        log.get().info("source_set_up", statement=step.sql)
    return [step.sql for step in steps]


def prepare_target(job: Job, store: TargetStore) -> None:
    """State schema and job row; a job file that says something else than the one last run is refused (K32)."""
    store.prepare()
    trail = identity.load(LocalStorage(job.trail))
    if trail is None:
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
    known = store.jobs.job(job.config.name)
    if known is not None:
        _refuse_changes(job, known, trail.job_uuid)
    store.jobs.save_job(
        job.config.name,
        {
            "uuid": trail.job_uuid,
            "source_identity": trail.source_identity,
            "definition": json.dumps(job.config.fingerprint()),
            **({TARGET: job.names.target} if job.names.target else {}),
            **_origins(job, trail.job_uuid, known or {}),
        },
    )


def _origins(job: Job, job_uuid: str, before: Mapping[str, str]) -> dict[str, str]:
    """Who writes to what the job reads, for those who read what it writes. While the source is away: what was noted last."""
    from anabranch.model.state import ORIGINS
    from anabranch.model.writers import as_text, passed_on

    try:
        with contextlib.closing(source_of(job).catalog()) as catalog:
            writers = [writer for writer in catalog.writers() if writer.key != job_uuid]
    except SourceError:
        return {ORIGINS: before[ORIGINS]} if ORIGINS in before else {}
    included = [schema for table, schema in _history(job)[0].items() if job.rules.includes(table)]
    found = passed_on(writers, {schema.id: job.rules.target_table(schema).target for schema in included})
    return {ORIGINS: as_text(found)} if found else {}


def refuse_changed_job(job: Job) -> None:
    """Before anything runs by a job file that says otherwise than when the job last ran. Raises JobChanged."""
    if lost := targets_left_out(job):
        raise JobChanged(
            f"the trail is held for {', '.join(lost)}, which the job file has no more",
            job=job.config.name,
            hint="anabranch plan JOB --execute lets it go; or put it back into the job file",
        )
    of_each(job, _refuse_changed)


def targets_left_out(job: Job) -> dict[str, list[str]]:
    """Targets that the job file does not have, and what of the trail is held for them."""
    found: dict[str, list[str]] = {}
    for name in retention.readers(job.trail) if exists(job.trail) else ():
        whose = retention.Names.of(name)
        target = whose.target or ONLY
        if whose.has(name) and target not in job.config.ends:
            found.setdefault(target, []).append(name)
    return found


def _refuse_changed(job: Job) -> None:
    store = target_of(job).store()
    try:
        known = store.jobs.job(job.config.name) if store.exists() else None
    finally:
        store.close()
    if known is not None:
        _refuse_changes(job, known, trail_uuid(job) or known["uuid"])


def is_other_target(job: Job, known: dict[str, str]) -> bool:
    """Is what a database keeps of the job that of another of its targets, by whatever name it is reached?"""
    return known.get(TARGET, "") != job.names.target


def refuse_other_target(job: Job, known: dict[str, str]) -> None:
    """Raises StateError."""
    if is_other_target(job, known):
        raise StateError(
            f"this database is the target {known.get(TARGET) or ONLY!r} of the job, not {job.target!r}",
            job=job.label,
            hint="name it so in the job file: the one in [target] may stand beside [[targets]]",
        )


def _refuse_changes(job: Job, known: dict[str, str], trail_job_uuid: str) -> None:
    if known["uuid"] != trail_job_uuid:
        raise StateError(
            f"the target belongs to job {known['uuid']}, the trail to {trail_job_uuid}",
            job=job.label,
            hint="use the home this job was begun with, or remove its state (anabranch drop JOB --execute)",
        )
    refuse_other_target(job, known)
    changes = describe_change(json.loads(known["definition"]), job.config.fingerprint())
    if changes:
        raise JobChanged(
            "the job file differs from the job as last run: " + "; ".join(map(str, changes)),
            job=job.label,
            hint="anabranch plan JOB says what that means for its tables, and takes it over; or put it back",
        )


def definitions(job: Job) -> dict[TableId, TableSchema]:
    """The definitions in force in the trail, of included tables; none where all of them are parked."""
    in_force, parked = _history(job)
    found = {table: schema for table, schema in in_force.items() if job.rules.includes(table)}
    if not found and not any(map(job.rules.includes, parked)):
        raise SchemaError(
            "the rules include no table of the source",
            job=job.config.name,
            hint="look at [[rules]] include with: anabranch preflight JOB",
        )
    return found


def parked_because(job: Job, table: TableId) -> str:
    """Why capture has parked a table, as apply would say it; "" where it is not parked."""
    with TrailReader(job.trail) as trail:
        return parked_in(trail, table)


def parked_in_trail(job: Job) -> dict[TableId, str]:
    """Included tables that capture has parked, and why."""
    with TrailReader(job.trail) as trail:
        return {table: parked_in(trail, table) for table in trail.history.parked() if job.rules.includes(table)}


def parked_in(trail: TrailReader, table: TableId) -> str:
    """`parked_because` by a trail that is open."""
    entry = trail.history.parked_by(table)
    if entry is None:
        return ""
    return f"{entry.reason} (at {entry.sequence})" + (f": {entry.statement}" if entry.statement else "")


def known(job: Job) -> Known:
    """What this job has begun already, at the target and in its trail."""
    from anabranch.preflight.known import Known

    store = target_of(job).store()
    try:
        states = store.states.tables(job.config.name) if store.exists() else {}
    finally:
        store.close()
    in_force, parked = _history(job)
    job_uuid = trail_uuid(job) or begun_uuid(job.trail)
    left_out = [table for table in in_force if states and table not in states and not is_asked_for(job, table)]
    return Known(
        {**in_force, **{table: state.schema for table, state in states.items() if state.schema}},
        frozenset(table for table, state in states.items() if state.generation > 0),
        frozenset((*parked, *left_out, *(table for table, state in states.items() if state.is_parked))),
        name_at_source(job.config.name, job_uuid) if job_uuid else "",
        job_uuid or "",
    )


def _history(job: Job) -> tuple[dict[TableId, TableSchema], dict[TableId, str]]:
    """Definitions in force, and parked tables with their reason."""
    if not exists(job.trail):
        return {}, {}
    with TrailReader(job.trail) as trail:
        return trail.history.in_force(), trail.history.parked()


def settled_conflicts(job: Job, table: TableId | None, after: int, limit: int) -> list[NotedConflict]:
    """What the target has noted; none where the job has never been."""
    store = target_of(job).store()
    try:
        return store.journal.conflicts(job.config.name, table, after, limit) if store.exists() else []
    finally:
        store.close()


def forget_conflicts(job: Job, upto: int) -> int:
    store = target_of(job).store()
    try:
        return store.journal.forget_conflicts(job.config.name, upto) if store.exists() else 0
    finally:
        store.close()


def is_asked_for(job: Job, table: TableId) -> bool:
    """Has a `load --table` of it begun? Then the trail is held for it."""
    return job.names.table(table) in retention.readers(job.trail)


def preflight_report(job: Job) -> Report:
    from anabranch.preflight.run import preflight

    source = source_of(job)
    return preflight(
        job.config, job.rules, source, target_of(job), lambda: known(job), lambda: identity_now(job, source)
    )


def identity_now(job: Job, source: SourceConnector) -> str:
    """What the source says it is, whatever the trail was read from. "" where it does not say: capture cannot begin there
    either, and the checks of the source have the reason (a standby, a right that is missing)."""
    reader = source.log(log_options(job, trail_uuid(job) or str(uuid.uuid4())))
    try:
        return reader.identity()
    except SourceUnavailable:
        raise
    except SourceError:
        return ""
    finally:
        reader.close()


def spark_home(job: Job) -> Path:
    return job.target_home / "spark"


def logs_cascades(job: Job, source: SourceConnector) -> bool:
    """Does the source's log have what foreign keys change (K1)? While it is away, what capture has noted."""
    try:
        catalog = source.catalog()
        try:
            return catalog.logs_cascades()
        finally:
            catalog.close()
    except SourceUnavailable:
        found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
        if found is None or found.logs_cascades is None:
            raise
        return found.logs_cascades
