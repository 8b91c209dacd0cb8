"""`drop`: what a job left at source, target and home, and its removal (K32). Replicated tables always stay.

An end that cannot be reached is said, and the rest goes on: after a move the source is often gone for good.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.config.hops import Hop
from anabranch.contracts import remains_of
from anabranch.cutover.leaving import leave
from anabranch.errors import AnabranchError, SourceError, StateError, TargetError, TrailCorrupt
from anabranch.trail import load_readers, retention
from anabranch.trail.load_keeping import READER
from anabranch.trail.reader import exists
from anabranch.trail.staging import waiting
from anabranch.view.identity import begun_uuid, trail_uuid
from anabranch.view.opened import source_of, store_of
from anabranch.view.options import name_at_source
from anabranch.view.refusals import is_other_target, refuse_other_target, refuse_while_cut_over
from anabranch.view.running import CAPTURE, require_stopped

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

DRILL = "drill.toml"  # in the home: the job file of a drill
NOT_BACK = "the note of a key that a load took off and that nobody puts back now; put it back by hand"
LEFT = "what the job left there stays: anabranch drop JOB again when it can be reached, unless it is gone for good"
UNKNOWN = "; nor is it known whether a fence of a cut-over keeps the source's users from writing, which is noted there"


@dataclass(frozen=True)
class Leftovers:
    """The things that a job left behind. `lines`: one per thing. `errors`: ends that could not be asked; what they have
    stays."""

    lines: tuple[str, ...]
    errors: tuple[AnabranchError, ...] = ()

    def require(self) -> None:
        """Raise the error of an end that could not be asked: of several the one with the lowest exit code, with the
        others as notes."""
        for first, *others in [sorted(self.errors, key=lambda error: error.exit_code)] if self.errors else []:
            for other in others:
                first.add_note(str(other))
            raise first


def drop(job: JobView, execute: bool, needs_all: bool = False, lifts_fence: bool | None = None) -> Leftovers:
    """Remove what the job left. Refuses while a part runs. For one of several targets only its own: the others may go
    on with capture. `needs_all`: where an end cannot be asked the home stays, by which it is found later. `lifts_fence`: of
    a cut-over that is through; one that says nothing is refused, before anything is removed.
    """
    is_alone = not job.is_one_of_several
    if execute and is_alone and (job.config.home / DRILL).exists():
        hint = "anabranch drill JOB --clean removes what it left, at both ends"
        raise StateError("a drill of the job was not removed", job=job.label, hint=hint)
    if execute:
        _refuse_if_read(job)
        require_stopped(job, but=() if is_alone else (CAPTURE,))
    lines: list[str] = []
    with suppress(TargetError):  # one that is away is told of below
        if execute:
            refuse_while_cut_over(job, also_finished=False)
        lines += leave(job, execute, lifts_fence)
    errors: list[AnabranchError] = []
    if is_alone:
        _try(job, _source, execute, lines, errors)
    for one in job.targets():
        if not is_alone:
            _try(one, _refuse_other, execute, lines, errors)
        _try(one, _target, execute, lines, errors)
    if needs_all and errors:
        return Leftovers(tuple(lines), tuple(errors))
    _try(job, _home if is_alone and job.captures else _beside_the_trail, execute, lines, errors)
    return Leftovers(tuple(lines), tuple(errors))


def _try(
    job: JobView,
    part: Callable[[JobView, bool], list[str]],
    execute: bool,
    lines: list[str],
    errors: list[AnabranchError],
) -> None:
    try:
        lines += part(job, execute)
    except (SourceError, TargetError) as error:
        more = _named(job) if isinstance(error, SourceError) else UNKNOWN
        error.job, error.hint = job.label, LEFT + more
        errors.append(error)


def _named(job: JobView) -> str:
    """Say how the job is called at its source: the name goes with the home, and whoever looks for it later has to know it."""
    job_uuid = trail_uuid(job) or begun_uuid(job.trail)
    name = name_at_source(job.config.name, job_uuid) if job_uuid else ""
    return f"; what a source keeps for the job (a slot, a publication) is called {name} there" if name else ""


def _source(job: JobView, execute: bool) -> list[str]:
    job_uuid = trail_uuid(job) or begun_uuid(job.trail)
    name = name_at_source(job.config.name, job_uuid) if job_uuid else ""
    return [f"source: {line}" for line in remains_of(source_of(job), name, execute)]


def _refuse_other(job: JobView, _: bool) -> list[str]:
    """Raise StateError if the database of a target that was named on the command line belongs to another target of the
    job."""
    with store_of(job) as store:
        known = store.jobs.job(job.config.name) if store.exists() else None
        if known is not None:
            refuse_other_target(job, known)
    return []


def _target(job: JobView, execute: bool) -> list[str]:
    with store_of(job) as store:
        known = store.jobs.job(job.config.name) if store.exists() else None
        if known is None:
            return []
        if is_other_target(job, known):
            return []
        tables, keys = store.states.tables(job.config.name), store.jobs.taken_off(job.config.name)
        if execute:
            store.jobs.drop(job.config.name)
        where = f"target {job.target}" if job.is_one_of_several else "target"
        room = "database" if job.is_server else "schema"
        lines = [f"{where}: state of job {job.config.name} in {room} anabranch ({len(tables)} tables; their rows stay)"]
        return [*lines, *(f"{where}: {NOT_BACK}: {statement}" for statement in keys)]


def _beside_the_trail(job: JobView, execute: bool) -> list[str]:
    """Remove what is kept beside the trail for one of several targets."""
    held = [name for name in retention.readers(job.trail) if job.names.has(name)] if exists(job.trail) else []
    if execute:
        for name in held:
            retention.unregister(job.trail, name)
        load_readers.forget(job.trail, job.names.apply)
        shutil.rmtree(job.target_home, ignore_errors=True)
        shutil.rmtree(job.names.repairs(job.trail), ignore_errors=True)
    return [f"what is held of the trail for target {job.target}"] if held else []


def _home(job: JobView, execute: bool) -> list[str]:
    places = [place for place in (job.config.home, job.trail) if place.exists()]
    waiting, outside = _waiting(job), job.trail if job.config.hop else None
    if execute:
        for place in places:
            shutil.rmtree(place, ignore_errors=place == job.trail)
    lines = [f"home {job.config.home}: trail{waiting}, state.db, logs, Spark's checkpoint"] * (
        job.config.home in places
    )
    return [*lines, *([f"trail {outside}, with the rows of its load"] * (outside in places))]


def _refuse_if_read(job: JobView) -> None:
    """Raise StateError while other jobs read the trail that this one captures: with it they would lose what they lack."""
    if job.config.hop is Hop.CAPTURE and exists(job.trail):
        names = sorted(name for name in retention.readers(job.trail) if not job.names.has(name) and name != READER)
        if names:
            hint = "drop the jobs that apply it first; what is left of a job that is gone: remove its file in readers/"
            raise StateError(f"the trail is read by others: {', '.join(names)}", job=job.label, hint=hint)


def _waiting(job: JobView) -> str:
    """Say how many prepared transactions are still open at the source; a trail that is damaged is removed all the same."""
    try:
        count = len(waiting(job.trail))
    except TrailCorrupt:
        return ""
    return f" (with the rows of {count} prepared transactions)" if count else ""
