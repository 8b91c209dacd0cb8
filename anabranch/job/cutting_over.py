"""`Job.cutover` and what belongs to it: the machine (cutover/) with the job's own settings, and verification from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.cutover.machine import CutOver, alarmed
from anabranch.cutover.report import CutoverReport, report_of
from anabranch.cutover.terms import Terms, Verified, opened
from anabranch.model.cutover import Cutover
from anabranch.view.opened import store_of
from anabranch.view.refusals import refuse_changed_job

if TYPE_CHECKING:
    from anabranch.preflight.report import Report
    from anabranch.verify.report import Verification
    from anabranch.view.job_view import JobView


def cut_over(
    job: JobView,
    verify: Callable[[], Verification] | None,
    allows_parked: bool,
    wait: float,
    tell: Callable[[str], None],
) -> CutoverReport:
    """Cut over, or go on with it. `verify`: compares both ends; None: nobody asked for it."""
    compare = None if verify is None else partial(_verified, verify)
    with _machine(job, terms(job, wait, compare, allows_parked, tell)) as machine:
        report = machine.run()
    if (error := alarmed(report)) is not None:
        raise error
    return report


def plan(job: JobView, allows_parked: bool, wait: float) -> Report:
    with _machine(job, terms(job, wait, None, allows_parked, lambda _: None)) as machine:
        return machine.plan()


def abort(job: JobView, is_flip_undone: bool, tell: Callable[[str], None]) -> CutoverReport:
    with _machine(job, terms(job, 0.0, None, False, tell)) as machine:
        machine.abort(is_flip_undone)
    return told(job)


def told(job: JobView) -> CutoverReport:
    """Return what the notes tell. Asks the target only."""
    with store_of(job) as store:
        notes = store.cutovers.cutover_notes(job.config.name) if store.exists() else []
    return report_of(job.label, Cutover.of(notes))


def terms(
    job: JobView, wait: float, verify: Callable[[], Verified] | None, allows_parked: bool, tell: Callable[[str], None]
) -> Terms:
    settings = job.config.cutover
    return Terms(
        settings.flip, settings.sequence_margin, settings.max_lag, settings.grace, wait, verify, allows_parked, tell
    )


@contextmanager
def _machine(job: JobView, terms: Terms) -> Iterator[CutOver]:
    refuse_changed_job(job)
    with store_of(job) as store, closing(CutOver(opened(job, store), terms)) as machine:
        yield machine


def _verified(verify: Callable[[], Verification]) -> Verified:
    found = verify()
    facts: Mapping[str, Any] = found.to_json()
    tables = [{name: one[name] for name in ("source", "rows_source", "rows_target")} for one in facts["tables"]]
    return bool(found.identical), {"tables": tables}
