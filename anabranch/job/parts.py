"""The parts of a job, each in the process that calls it: capture, load, apply, verify.

Modules that one part alone needs are imported by it: a capture stays small, since it is there as long as the job is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anabranch import log, waits
from anabranch.capture.run import Capture
from anabranch.capture.uncommitted import MemoryLimits
from anabranch.contracts import Emptying, drift_of
from anabranch.job.signals import PREFLIGHT, SUPERVISED, Stop
from anabranch.job.standing_by import await_turn
from anabranch.job.watching import ApplyWatcher, CaptureWatcher, LoadWatcher, part
from anabranch.lifecycle.attunity import make_tables
from anabranch.lifecycle.beginning import begin_trail_if_none, carry_out, open_trail, prepare_source
from anabranch.lifecycle.compat import show_progress
from anabranch.lifecycle.pair_start import note_pairing, refuse_unlike_twin, twin_of, why_not_back
from anabranch.spark.engine import Engine, SparkEngine
from anabranch.trail.lease import is_shared
from anabranch.trail.reader import has_begun
from anabranch.view.attunity import as_asked, transactions_at_once
from anabranch.view.definitions import logs_cascades
from anabranch.view.identity import followed_identity, new_trail_uuid, trail_uuid
from anabranch.view.opened import end_of, require_rows, source_of, spark_home, store_of
from anabranch.view.options import log_options, source_limits, target_limits, value_rules
from anabranch.view.refusals import (
    TAKE_OVER,
    refuse_changed_job,
    refuse_in_hop,
    refuse_in_pair,
    refuse_load,
    refuse_switch_while_loading,
    refuse_unarmed,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.apply.settings import ApplySettings
    from anabranch.lifecycle.vouching import Vouched
    from anabranch.model.ids import TableId
    from anabranch.state.store import StateStore
    from anabranch.trail.lease import Lease
    from anabranch.verify.report import Verification
    from anabranch.verify.wanted import Wanted
    from anabranch.view.job_view import JobView

LOCK_SECONDS = 10.0  # a part that was just stopped may still hold the trail


def run_capture(job: JobView) -> None:
    refuse_in_hop(job, "capture", job.captures)
    job = as_asked(job)
    with Stop() as stop, part(job, "capture", stop.asked) as state, stop.excused(), ExitStack() as ends:
        lease = await_turn(job, state, stop.asked)  # before anything is asked of the source, or read of the trail
        if lease is not None:
            ends.callback(lease.close)
        if not (stop.asked() and is_shared(job.trail)):
            _capture(job, state, stop, lease)


def _capture(job: JobView, state: StateStore, stop: Stop, lease: Lease | None) -> None:
    job_uuid = trail_uuid(job) or new_trail_uuid(job)
    source = source_of(job)
    options = log_options(job, job_uuid)
    reader, guard = source.log(options), source.guard(options, job.rules.dropped)
    try:
        followed = followed_identity(job) or reader.identity()
        with open_trail(job, followed, job_uuid, LOCK_SECONDS, lease) as trail:
            log.get(job=job.config.name).info("capture_started", end=str(trail.end.position))
            prepare_source(job, source, options, stop.asked)
            settings = job.config.capture
            watcher = CaptureWatcher(state)
            watcher.begins(trail)
            Capture(
                source=source,
                reader=reader,
                trail=trail,
                wanted=job.rules.includes,
                stop=stop.asked,
                watcher=watcher,
                counted=watcher.counted,
                followed=followed,
                refuse_switch=partial(refuse_switch_while_loading, job),
                staging_timeout=float(settings.staging_timeout_s),
                limits=MemoryLimits(settings.memory_limit_mb << 20, float(settings.transaction_staging_timeout_s)),
                prepare=partial(carry_out, source, replace(options, leave_out=frozenset()), stop=stop.asked),
                drift=partial(drift_of, source, options, job.config.followed_changes),
                guard=guard,
                follows=job.config.followed_changes,
                ghosts=job.config.ddl.ghosts,
                tools=job.config.ddl.names_of_tools,
                shares=job.rules.shares_target,
                keeps_changes=job.config.keeps_changes,
                takes_over=job.config.load.existing == TAKE_OVER,
                retry=source_limits(job, interval=1.0),
                waits_at_start=bool(os.environ.get(SUPERVISED)) or settings.standby,
            ).run()
    finally:
        reader.close()
        if guard is not None:
            guard.close()


def run_apply(job: JobView, engine: Engine | None = None) -> None:
    """Run apply in this process until stopped. `engine`: used instead of Spark."""
    from anabranch.apply.run import ApplyRun
    from anabranch.lifecycle.encrypting import note_keys
    from anabranch.lifecycle.hopping import refuse_other_values

    refuse_in_hop(job, "apply", job.applies)
    job = as_asked(job)
    engine = engine or SparkEngine(spark_factory(job, "apply"), job.config.apply.runner)
    with Stop(ends_waits=False) as stop, part(job, "apply", stop.asked) as state:
        refuse_changed_job(job)
        refuse_other_values(job)
        note_keys(job)
        note_pairing(job)
        refuse_unlike_twin(job)
        with store_of(job) as store:
            show_progress(job, store)
        make_tables(job)
        source = source_of(job)
        ApplyRun(
            job=job.config.name,
            trail_directory=job.trail,
            spark_directory=spark_home(job) / "checkpoint",
            source=source,
            target=end_of(job),
            rules=value_rules(job),
            tables=job.rules,
            settings=_apply_settings(job, logs_cascades=logs_cascades(job, source)),
            engine=engine,
            stop=stop.asked,
            watcher=ApplyWatcher(state),
        ).run()


def _apply_settings(job: JobView, logs_cascades: bool) -> ApplySettings:
    from anabranch.apply.settings import ApplySettings
    from anabranch.preflight.run import choices_of

    apply = job.config.apply
    return ApplySettings(
        per_transaction=apply.mode == "transaction",
        appliers=apply.appliers,
        is_relaxed=apply.commit_order == "relaxed",
        truncate=Emptying(job.config.emptying(job.target)),
        lock=job.config.load.lock,
        logs_cascades=logs_cascades,
        parks=apply.on_error != "stop",
        parks_taken=job.config.pair is not None and job.config.pair.on_unique_conflict == "park",
        in_pair=job.config.pair is not None,
        twin=twin_of(job),
        ddl_from=(job.config.pair.ddl_from or "") if job.config.pair is not None else "",
        why_not_back=why_not_back(job),
        sets_aside=apply.on_error == "set_aside",
        aside_limit=apply.set_aside_limit,
        actions=job.config.column_actions,
        choices=choices_of(job.config, job.target),
        rests=bool(job.config.source.leave_out),
        stage_rows=apply.stage_rows,
        at_once=transactions_at_once(job),
        retry=target_limits(job),
        names=job.names,
    )


# Modules of both ends that a part's tasks use, by the names that connectors give them; what an end has not is left out there.
IN_TASKS = {"load": ("snapshot", "load"), "verify": ("snapshot", "verify"), "scan": ("snapshot", "trial")}
WORK = {"load": ("anabranch.load.copy",), "verify": ("anabranch.verify.compare",)}
ENCRYPTED = {"spark.io.encryption.enabled": "true", "spark.io.encryption.keySizeBits": "256"}  # what it spills


def spark_factory(job: JobView, part_name: str) -> Callable[[], SparkSession]:
    def make() -> SparkSession:
        from anabranch.spark.session import session

        spark, parallel = job.config.spark, 0 if part_name == "apply" else job.config.load.parallel
        name = f"anabranch {job.config.name} {part_name}"
        conf = ENCRYPTED | spark.conf if job.config.trail.encrypt else spark.conf
        modules = modules_of_tasks(job, part_name)
        return session(name, spark.master, conf, parallel, spark_home(job), spark.archive, modules=modules)

    return make


def modules_of_tasks(job: JobView, part_name: str) -> list[str]:
    """Return what the tasks of a part import: its work, and of both ends what reads and writes rows."""
    ends = [
        kind.__module__ for end in (source_of(job), end_of(job)) for kind in type(end).__mro__ if kind is not object
    ]
    return [*WORK.get(part_name, ()), *(f"{end}.{name}" for end in ends for name in IN_TASKS.get(part_name, ()))]


def run_load(
    job: JobView,
    tables: Sequence[TableId],
    recreate: bool,
    with_children: bool = False,
    engine: Engine | None = None,
    keep: bool = False,
) -> None:
    """Run a load in this process, of these tables; of all that are not loaded yet where there are none. `engine`: used instead
    of Spark."""
    from anabranch.job.preflight import preflight_report
    from anabranch.lifecycle.beginning_changes import begin_changes
    from anabranch.lifecycle.hopping import await_load, await_trail, note_source, refuse_other_values
    from anabranch.lifecycle.loading import Loading
    from anabranch.lifecycle.loading_one import LoadingOne

    if tables:
        require_rows(job)
        refuse_load(job)
    for table in tables:
        refuse_in_pair(job, table)
    refuse_unarmed(job)
    engine = engine or SparkEngine(spark_factory(job, "load"))
    is_asked = bool(tables)
    with Stop() as stop, part(job, "load", stop.asked, is_asked) as state, stop.excused(), waits.in_tasks():
        has_looked = os.environ.get(SUPERVISED) and not os.environ.get(PREFLIGHT)  # `run` has made the preflight
        if not tables and not has_looked:
            note_pairing(job)
            preflight_report(job).require()
        if job.captures:
            begin_trail_if_none(job, stop.asked)
            _await_trail(job, stop)
            note_source(job)
        else:
            wait = await_load if tables else await_trail  # a whole load goes with the one there
            wait(job, stop, LoadWatcher(state).waiting)
            refuse_other_values(job)
        if not stop.asked():
            if job.config.keeps_changes:
                begin_changes(job, stop.asked, LoadWatcher(state))
            elif not tables:
                loading = Loading(job, engine, stop.asked, LoadWatcher(state))
                loading.all_tables()
                if not os.environ.get(SUPERVISED) and not stop.asked():
                    loading.tell_parked()  # `run` reports them itself, and would start the part again for this code
            else:
                LoadingOne(job, engine, stop.asked, LoadWatcher(state)).these(tables, recreate, with_children, keep)
    stop.exit_if_signalled()


def run_vouching(job: JobView, table: TableId, place: str | None) -> Vouched | None:
    """Let a table stream from a place for which somebody vouches, in this process. `place`: None for the log's end of now."""
    from anabranch.lifecycle.vouching import vouch_for

    require_rows(job)
    refuse_load(job)
    refuse_in_pair(job, table)
    refuse_unarmed(job)
    with Stop() as stop, part(job, "load", stop.asked, is_asked=True), stop.excused():
        if place is None:
            begin_trail_if_none(job, stop.asked)
            _await_trail(job, stop)
        found = None if stop.asked() else vouch_for(job, table, place, stop.asked)
    stop.exit_if_signalled()
    return found


def _await_trail(job: JobView, stop: Stop) -> None:
    """Wait until the trail has begun: capture may be beginning it at this moment."""
    while not stop.asked() and not has_begun(job.trail):
        stop.wait(0.1)


def run_watch(
    job: JobView,
    patterns: Sequence[str],
    by_rows: bool,
    share: float,
    tell: Callable[[str], None],
    sample: float | None = None,
) -> None:
    """Verify a table at a time until stopped, and keep each one's last result at the target."""
    from anabranch.job.keep_verifying import Watch, alone
    from anabranch.job.verifying_elsewhere import refuse_elsewhere
    from anabranch.verify.wanted import Sample, Wanted

    refuse_in_hop(job, "rows at its target", job.applies)
    require_rows(job)  # a target without them keeps no results
    if not job.captures:
        refuse_elsewhere(job, Wanted(sample=None if sample is None else Sample(sample, 0)))
    with Stop() as stop, stop.excused(), waits.in_tasks(), alone(job):
        factory = spark_factory(job, "verify")
        engine = None if job.captures else SparkEngine(factory)
        Watch(job, factory, patterns, by_rows, share, stop, tell, sample, engine).run()


def run_verify(job: JobView, wanted: Wanted) -> Verification:
    from anabranch.job.in_rounds import verify_as_wanted
    from anabranch.job.verifying_elsewhere import verify_elsewhere

    refuse_in_hop(job, "rows at its target", job.applies)
    with waits.in_tasks():
        if not job.captures:
            return verify_elsewhere(job, SparkEngine(spark_factory(job, "verify")), wanted)
        return verify_as_wanted(job, spark_factory(job, "verify"), wanted)


def run_answers(job: JobView) -> int:
    """Answer those who verify where the trail is applied, until nobody asks any more."""
    from anabranch.job.answering import answer_all

    refuse_in_hop(job, "rows of a source to tell of", job.captures)
    with Stop() as stop, waits.in_tasks():
        return answer_all(job, SparkEngine(spark_factory(job, "verify")), stop.asked)
