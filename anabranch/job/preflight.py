"""`preflight` for a job: what it has begun already, and the checks of both ends."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.config import describe_change
from anabranch.databases import TARGET
from anabranch.errors import AnabranchError, SourceError, SourceUnavailable, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.view.definitions import history, is_asked_for
from anabranch.view.identity import begun_uuid, trail_uuid
from anabranch.view.opened import end_of, source_of, store_of
from anabranch.view.options import log_options, name_at_source

ANSWER_S = 10.0  # for which a person waits before a target counts as away

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.table_life import TableState
    from anabranch.preflight.known import KnownJob
    from anabranch.preflight.report import Report
    from anabranch.view.job_view import JobView


def known(job: JobView) -> KnownJob:
    """Return what this job has begun already, at the target and in its trail."""
    from anabranch.preflight.known import KnownJob

    with store_of(job) as store:
        is_there = store.exists()
        states = store.states.tables(job.config.name) if is_there else {}
        last = store.jobs.job(job.config.name) if is_there else None
    edited, reshaped = _edited(job, last, states) if last else ((), frozenset[TableId]())
    in_force, parked = history(job)
    job_uuid = trail_uuid(job) or begun_uuid(job.trail)
    left_out = [table for table in in_force if states and table not in states and not is_asked_for(job, table)]
    return KnownJob(
        {**in_force, **{table: state.schema for table, state in states.items() if state.schema}},
        frozenset(table for table, state in states.items() if state.generation > 0),
        frozenset((*parked, *left_out, *(table for table, state in states.items() if state.is_parked))),
        name_at_source(job.config.name, job_uuid) if job_uuid else "",
        job_uuid or "",
        edited,
        reshaped,
    )


def _edited(
    job: JobView, last: Mapping[str, str], states: Mapping[TableId, TableState]
) -> tuple[tuple[str, ...], frozenset[TableId]]:
    """Return what the job file says otherwise than when the job last ran, and the tables that it gives another form; nothing
    where the state at the target is another job's, which is refused as such."""
    if last["uuid"] != (trail_uuid(job) or last["uuid"]):
        return (), frozenset()
    before = json.loads(last["definition"])
    changes = describe_change(before, job.config.fingerprint(job.target))
    if not changes:
        return (), frozenset()
    from anabranch.lifecycle.planning import reshaped

    schemas = {table: state.schema for table, state in states.items() if state.schema}
    is_everything = any(change.role == TARGET for change in changes)
    found = frozenset(schemas) if is_everything else reshaped(job, before, schemas)
    return tuple(map(str, changes)), found


def preflight_report(job: JobView, reverse: bool = False, goes_on: bool = False) -> Report:
    """Run the checks as `_report` does. Each finding has the step of `anabranch recipe` that mends it."""
    from anabranch.recipe.written import steps_by_check

    found = _report(job, reverse, goes_on)
    schemes = job.config.source.endpoint.scheme, job.config.ends[job.target].scheme
    return found.with_steps(steps_by_check(*schemes))


def asked_report(job: JobView, reverse: bool = False, workers: bool = False) -> Report:
    """Run the checks for a person who waits for them: an end that cannot be entered is a failed check, beside the other's; so
    is, soon and alone, a target that does not answer. Parts of a job wait for it, as long as the job file says. `workers`:
    also those of the Spark cluster that the job names, if it names one; they start Spark."""
    from anabranch.contracts import ReachedTarget
    from anabranch.preflight.report import Report

    target = end_of(job)
    away = target.unreached(ANSWER_S) if isinstance(target, ReachedTarget) else None
    if away is not None:
        return Report(job.config.name, (away,), TargetUnavailable.exit_code)
    found = preflight_report(job, reverse, goes_on=True)
    if not workers or not_entered(found):
        return found
    from anabranch.job.spark_checks import spark_results

    return replace(found, results=(*found.results, *spark_results(job)))


def not_entered(report: Report) -> bool:
    """Return whether an end could not be asked: what needs both is not checked then."""
    from anabranch.preflight.run import REACHED

    return any(one.check in REACHED.values() for one in report.failed)


def _report(job: JobView, reverse: bool = False, goes_on: bool = False) -> Report:
    """Run the checks of both ends, and those of the way back if the job file or the caller (`reverse`) asks for them. Errors
    say which job, and which target, they are about."""
    from anabranch.lifecycle.encrypting import note_keys
    from anabranch.preflight.run import preflight

    try:
        note_keys(job)
        source = source_of(job)
        found = preflight(
            job.config,
            job.rules,
            source,
            end_of(job),
            lambda: known(job),
            lambda: identity_now(job, source),
            goes_on,
        )
        if not_entered(found):
            return found
        if job.config.pair is not None:
            from anabranch.lifecycle.pairing import pair_results

            found = replace(found, results=(*found.results, *pair_results(job)))
        if not (reverse or job.config.reverse.enabled):
            return found
        from anabranch.lifecycle.reversing import reverse_results

        return replace(found, results=(*found.results, *reverse_results(job, reverse)))
    except AnabranchError as error:
        error.job = error.job or job.label
        raise


def identity_now(job: JobView, source: SourceConnector) -> str:
    """Return the source's own identity, whatever the trail was read from; "" where it does not tell.

    Capture cannot begin there either, and the checks of the source have the reason (a standby, a right that is
    missing).
    """
    reader = source.log(log_options(job, trail_uuid(job) or str(uuid.uuid4())))
    try:
        return reader.identity()
    except SourceUnavailable:
        raise
    except SourceError:
        return ""
    finally:
        reader.close()
