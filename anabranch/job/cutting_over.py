"""`Job.cutover` and what belongs to it: the machine (cutover/) with the job's own settings, and verification from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.cutover.machine import CutOver, alarmed
from anabranch.cutover.report import CutoverReport, report_of
from anabranch.cutover.terms import Terms, Verified, opened
from anabranch.errors import StateError
from anabranch.model.cutover import Cutover
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.opened import store_of
from anabranch.view.refusals import refuse_changed_job

if TYPE_CHECKING:
    from anabranch.preflight.report import Report
    from anabranch.verify.report import Verification
    from anabranch.view.job_view import JobView

LOCK = "cutover.lock"  # beside what is kept for the target


def cut_over(
    job: JobView,
    verify: Callable[[], Verification],
    is_verified: bool,
    allows_parked: bool,
    wait: float,
    tell: Callable[[str], None],
) -> CutoverReport:
    """Cut over, or go on with it. `verify`: compares both ends, where that is asked for, or was when it began."""
    made = terms(job, wait, partial(_verified, verify), is_verified, allows_parked, tell)
    with _alone(job), _machine(job, made) as machine:
        report = machine.run()
    if (error := alarmed(report)) is not None:
        raise error
    return report


def plan(job: JobView, allows_parked: bool, wait: float) -> Report:
    with _machine(job, terms(job, wait, _unasked, False, allows_parked, lambda _: None)) as machine:
        return machine.plan()


def abort(job: JobView, is_flip_undone: bool, tell: Callable[[str], None]) -> CutoverReport:
    made = terms(job, 0.0, _unasked, False, False, tell)
    with _alone(job), _machine(job, made, is_same_file=False) as machine:
        machine.abort(is_flip_undone)
    return told(job)


def told(job: JobView) -> CutoverReport:
    """Return what the notes tell. Asks the target only."""
    with store_of(job) as store:
        notes = store.cutovers.cutover_notes(job.config.name) if store.exists() else []
    return report_of(job.label, Cutover.of(notes))


def terms(
    job: JobView,
    wait: float,
    verify: Callable[[], Verified],
    is_verified: bool,
    allows_parked: bool,
    tell: Callable[[str], None],
) -> Terms:
    settings = job.config.cutover
    return Terms(
        settings.flip,
        settings.sequence_margin,
        settings.max_lag,
        settings.grace,
        wait,
        verify,
        is_verified,
        allows_parked,
        tell,
    )


@contextmanager
def _alone(job: JobView) -> Iterator[None]:
    """Let one process of this home be at the cut-over. Raises StateError, which says who is."""
    job.target_home.mkdir(parents=True, exist_ok=True)
    try:
        lock = OsLock(job.target_home / LOCK)
    except LockHeld as held:
        hint = "wait for its end, or end it: Ctrl-C takes it back"
        raise StateError(
            f"the job is being cut over, or that is taken back, by {held}", job=job.label, hint=hint
        ) from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def _machine(job: JobView, terms: Terms, is_same_file: bool = True) -> Iterator[CutOver]:
    if is_same_file:
        refuse_changed_job(job)
    with store_of(job) as store, closing(CutOver(opened(job, store), terms)) as machine:
        yield machine


def _unasked() -> Verified:
    raise StateError("nobody asked for a verification")


def _verified(verify: Callable[[], Verification]) -> Verified:
    found = verify()
    facts: Mapping[str, Any] = found.to_json()
    tables = [{name: one[name] for name in ("source", "rows_source", "rows_target")} for one in facts["tables"]]
    return bool(found.identical), {"tables": tables}
