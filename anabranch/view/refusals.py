"""Refuses what would mix up jobs: a changed job file, another target's database, another server amid a load (K32)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch.config import ONLY, describe_change
from anabranch.config.hops import Hop
from anabranch.errors import AnabranchError, ConfigError, JobChanged, SourceError, StateError
from anabranch.model.cutover import Cutover
from anabranch.model.parked_reasons import BEGUN_ANEW
from anabranch.trail import identity, retention
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.storage import LocalStorage
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import of_each, source_of, store_of

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

TAKE_OVER = "take_over"  # [load] existing: the tables stand, and nothing is ever loaded
TARGET = "target"  # among a job's facts at a target that has a name: which one it is


def told(job: JobView, error: AnabranchError) -> str:
    """Return an error's message, with the job in it."""
    error.job = error.job or job.label
    return str(error)


def refuse_changed_job(job: JobView) -> None:
    """Raise JobChanged if the job file says otherwise than when the job last ran. Call it before anything runs by it."""
    if lost := targets_left_out(job):
        raise JobChanged(
            f"the trail is held for {', '.join(lost)}, which the job file has no more",
            job=job.config.name,
            hint="anabranch plan JOB --execute lets it go; or put it back into the job file",
        )
    of_each(job, _refuse_changed)


def _refuse_changed(job: JobView) -> None:
    with store_of(job) as store:
        known = store.jobs.job(job.config.name) if store.exists() else None
    if known is not None:
        refuse_changes(job, known, trail_uuid(job) or known["uuid"])


def refuse_changes(job: JobView, known: dict[str, str], trail_job_uuid: str) -> None:
    if known["uuid"] != trail_job_uuid:
        raise StateError(
            f"the target belongs to job {known['uuid']}, the trail to {trail_job_uuid}",
            job=job.label,
            hint="use the home this job was begun with, or remove its state (anabranch drop JOB --execute)",
        )
    refuse_other_target(job, known)
    changes = describe_change(json.loads(known["definition"]), job.config.fingerprint(job.target))
    if changes:
        raise JobChanged(
            "the job file differs from the job as last run: " + "; ".join(map(str, changes)),
            job=job.label,
            hint="anabranch plan JOB says what that means for its tables, and takes it over; or put it back",
        )


def refuse_unarmed(job: JobView) -> None:
    """Raise StateError for a job that takes its tables over and has no place to begin at: nothing may be loaded instead."""
    if job.config.load.existing != TAKE_OVER:
        return
    for one in job.targets():
        with store_of(one) as store:
            checkpoint = store.jobs.checkpoint(job.config.name) if store.exists() else None
        if checkpoint is None:
            raise StateError(
                "the job is not armed: it never loads, and has no place of the source's log to begin at",
                job=one.label,
                hint="anabranch arm JOB, before anybody writes at the source what is to come over; what was written there"
                " before does not, so compare both ends then (anabranch verify JOB)",
            )


def refuse_load(job: JobView) -> None:
    """Raise ConfigError for a load that is asked for where the job never loads: it would empty tables of the old source."""
    if job.config.load.existing == TAKE_OVER:
        raise ConfigError(
            'the job takes its tables over as they stand ([load] existing = "take_over") and never loads them',
            job=job.config.name,
            hint="anabranch parked resume lets a parked table go on, anabranch verify --repair puts right rows that differ;"
            f" {BEGUN_ANEW}",
        )


def refuse_in_hop(job: JobView, what: str, can: bool) -> None:
    """Raise ConfigError for a part that a job with a trail at an end does not have."""
    if can:
        return
    is_capture = job.config.hop is Hop.CAPTURE
    end = "[target] url" if is_capture else "[source] url"
    raise ConfigError(
        f"the job has no {what}: its {end} is a trail ({job.trail})",
        job=job.config.name,
        hint="another job applies the trail: run it there"
        if is_capture
        else "another job captures into it: run it there",
    )


def refuse_beside_trail(job: JobView, what: str) -> None:
    """Raise ConfigError where a job with a trail at an end is asked for what needs both databases."""
    if job.config.hop is not None:
        end = "[target]" if job.config.hop is Hop.CAPTURE else "[source]"
        raise ConfigError(
            f"{what} needs both databases, and the job's {end} url is a trail",
            job=job.config.name,
            hint="use a job from database to database for it, where both can be reached",
        )


def refuse_others_trail(job: JobView) -> None:
    """Raise StateError where the directory that a capture is to write has the trail of another job, with other tables."""
    found = identity.load(LocalStorage(job.trail)) if job.config.hop is Hop.CAPTURE else None
    if found is not None and found.job != job.config.name:
        raise StateError(
            f"the trail {job.trail} is that of the job {found.job}",
            job=job.config.name,
            hint="one trail for each job that captures: give this one a directory of its own",
        )


def refuse_in_pair(job: JobView, table: TableId) -> None:
    """Raise ConfigError for a load of one table of a pair: it would empty the table at the other site, and what users have
    written there since with it."""
    if job.config.pair is not None:
        raise ConfigError(
            f"{table} is a table of a pair: to load it again would remove what users have written at {job.config.pair.other}",
            job=job.config.name,
            hint="anabranch parked resume lets a parked table go on. To load it all the same: let nobody write to it at"
            " either site, take [pair] out of both job files, load it, put [pair] back",
        )


def refuse_unaged(job: JobView, what: str) -> None:
    """Raise ConfigError for what would write rows of a pair without asking which of two is the newer one."""
    if job.config.pair is not None:
        raise ConfigError(
            f"{what} would write over rows that are newer at {job.config.pair.other}: the job has [pair]",
            job=job.config.name,
            hint="write the row once more at the site that is right, with a greater column: it then goes to the other one",
        )


def targets_left_out(job: JobView) -> dict[str, list[str]]:
    """Return targets that the job file does not have, and what of the trail is held for them."""
    found: dict[str, list[str]] = {}
    if job.config.hop:  # readers of a trail between jobs are other jobs, too
        return found
    for name in retention.readers(job.trail) if exists(job.trail) else ():
        whose = retention.Names.of(name)
        target = whose.target or ONLY
        if whose.has(name) and target not in job.config.ends:
            found.setdefault(target, []).append(name)
    return found


def refuse_while_cut_over(job: JobView, also_finished: bool = True) -> None:
    """Raise StateError while a cut-over is under way, or, unless it does not matter, is through: the rows at the target are,
    or will be, those of its users."""
    for one in job.targets():
        with store_of(one) as store:
            cutover = Cutover.of(store.cutovers.cutover_notes(job.config.name) if store.exists() else [])
        if (cutover.is_under_way and cutover.is_fenced) or (also_finished and cutover.is_finished):
            what = f"the job is being cut over, or was: {cutover.who_writes()}"
            raise StateError(what, job=one.label, hint="anabranch cutover JOB --status tells what goes on from there")


def is_other_target(job: JobView, known: dict[str, str]) -> bool:
    """Return whether a database keeps the state of another target of the job, by whatever name it is reached."""
    return known.get(TARGET, "") != job.names.target


def refuse_other_target(job: JobView, known: dict[str, str]) -> None:
    """Raise StateError if the database is another target of the job."""
    if is_other_target(job, known):
        end = "server" if job.is_server else "database"
        raise StateError(
            f"this {end} is the target {known.get(TARGET) or ONLY!r} of the job, not {job.target!r}",
            job=job.label,
            hint="name it so in the job file: the one in [target] may stand beside [[targets]]",
        )


def refuse_switch_while_loading(job: JobView, followed: str, now: str) -> None:
    """Refuse another server while a table is loading: its log has other positions, and the marks of a load would mean
    nothing in it.
    """
    loading = [str(table) for one in job.whole.targets() for table in _loading(one)]
    if job.config.hop is Hop.CAPTURE:
        loading += map(str, _behind_manifests(job))
    if loading:
        raise SourceError(
            f"this server is {now}, the trail follows {followed}, and {', '.join(loading[:5])} have not finished loading",
            job=job.config.name,
            hint="connect to the former server until every table streams, or drop the job and load again",
        )


def _loading(job: JobView) -> list[TableId]:
    return [table for table, state in _states(job).items() if state.is_before_stream]


def _states(job: JobView) -> dict[TableId, TableState]:
    with store_of(job) as store:
        return store.states.tables(job.config.name) if store.exists() else {}


def _behind_manifests(job: JobView) -> list[TableId]:
    """Return tables whose rows stand in the trail with places of the log that the trail has not come to: their load is through
    there, and the other server may lack what they have."""
    from anabranch.model.position import LogMark
    from anabranch.trail_end import manifests

    with TrailReader(job.trail) as trail:
        found = trail.end()
    order, end = source_of(job).order, LogMark(found.position.native, found.resume)

    def is_behind(high: str) -> bool:  # a mark of a server before this one was reached when that one was left
        mark = order.mark(high)
        return order.server(mark) == order.server(end) and not order.includes(end, mark.native, None)

    rows = {table: manifests.load(job.trail, table) for table, one in _states(job).items() if not one.is_before_stream}
    highs = {table: {chunk.high for chunk in one.chunks} for table, one in rows.items() if one is not None}
    return [table for table, some in highs.items() if any(map(is_behind, some))]
