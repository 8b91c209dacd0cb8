"""`Job.cutover` and what belongs to it: the machine (cutover/) with the job's own settings, and verification from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING

from anabranch import waits
from anabranch.cutover import acting
from anabranch.cutover.fence import gaps_of
from anabranch.cutover.machine import CutOver, alarmed
from anabranch.cutover.report import CutoverReport, report_of
from anabranch.cutover.terms import Comparing, Terms, Verified, WayBack, opened
from anabranch.errors import AnabranchError, ConfigError, StateError, TargetUnavailable
from anabranch.job.way_back import J, read_like, way_back_of, way_forth
from anabranch.model.cutover import Cutover, Step, Verifies
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.opened import store_of
from anabranch.view.refusals import TAKE_OVER, refuse_beside_trail, refuse_changed_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.contracts import TargetStore
    from anabranch.job.at_fence import AtFence
    from anabranch.preflight.report import Report
    from anabranch.view.job_view import JobView

LOCK = "cutover.lock"  # beside what is kept for the target
NO_NOTES = (
    "the notes that say who writes are kept there: a cut-over goes on, or is taken back, when it is back. Where the source has "
    "to take writes before, its fence is lifted by hand: docs/howto/what-the-fence-does.md"
)
LOOK_SECONDS = 3.0  # for each question whether the fence stands, where only the notes were asked for

UNCOMPARED = ("cutover.load", "cutover.state")  # there is nothing to compare yet, or any more
BY_ITS_JOB = "anabranch failback FILE, with the file of the job that it is the way back of"


def cut_over(
    job: JobView,
    verifies: bool | str,
    allows_parked: bool,
    wait: float,
    tell: Callable[[str], None],
    other: WayBack | None = None,
    spark: Callable[[], SparkSession] | None = None,
) -> CutoverReport:
    """Cut over, or go on with it. `verifies`: a word of Verifies, True for all rows; more may have been asked when it began.
    `other`: the job that goes the other way, if it is not the job's way back. `spark`: who compares, if not the job's own."""
    _refuse_way_back(job, other)
    made = terms(
        job,
        wait,
        _Comparing(job, spark, tell, other or way_back_of(job)),
        Verifies.of(verifies),
        allows_parked,
        tell,
        other,
    )
    with _alone(job), _machine(job, made) as machine:
        report = machine.run()
    if (error := alarmed(report)) is not None:
        raise error
    return report


def plan(
    job: JobView, allows_parked: bool, wait: float, other: WayBack | None = None, verifies: bool | str = False
) -> Report:
    """Say what keeps it from being begun; and how each table would be compared, where that depends on the table."""
    _refuse_way_back(job, other)
    asked = Verifies.of(verifies)
    with _machine(job, terms(job, wait, _Unasked(), asked, allows_parked, lambda _: None, other)) as machine:
        report = machine.plan()
    if asked is not Verifies.SINCE_WATCH or any(one.check in UNCOMPARED for one in report.failed):
        return report
    from anabranch.job import at_fence

    return report.with_(at_fence.plan(job, (other or way_back_of(job)).strays))


def abort(
    job: JobView, is_flip_undone: bool, tell: Callable[[str], None], other: WayBack | None = None
) -> CutoverReport:
    _refuse_way_back(job, other)
    made = terms(job, 0.0, _Unasked(), Verifies.NOT, False, tell, other)
    with _alone(job), _machine(job, made, is_same_file=False) as machine:
        machine.abort(is_flip_undone)
    return told(job)


def turned(job: J) -> tuple[J, WayBack]:
    """Return the way back of a job, to be cut over in its turn, and the job as what goes on then. Raises ConfigError."""
    if job.config.load.existing == TAKE_OVER:
        raise ConfigError("this is the file of a way back itself", job=job.label, hint=BY_ITS_JOB)
    found = way_back_of(job)
    if not found.file.exists():
        hint = f"anabranch reverse {quote(str(job.path))} -o {quote(str(found.file))} writes it"
        raise ConfigError(f"the job has no way back: there is no {found.file}", job=job.label, hint=hint)
    back = read_like(job, found.file)
    return back, way_forth(back, job)


def _refuse_way_back(job: JobView, other: WayBack | None) -> None:
    """Refuse a way back by itself: the job that it belongs to has to go on; and a job with a trail at an end."""
    refuse_beside_trail(job, "a cut-over")
    if job.config.load.existing == TAKE_OVER and other is None:
        raise ConfigError("a way back is cut over by another command", job=job.label, hint=BY_ITS_JOB)


def told(job: JobView, looks: bool = False) -> CutoverReport:
    """Return what the notes tell, and whether a fence that was raised still stands. `looks`: and, where no cut-over is under
    way or through, what does not act at the target as at the source."""
    with _notes_wanted(), store_of(job) as store:
        cutover = Cutover.of(store.cutovers.cutover_notes(job.config.name) if store.exists() else [])
        gaps = _gaps(job, store, cutover) if cutover.is_fenced and cutover.is_done(Step.FENCE) else []
        is_quiet = not cutover.notes or cutover.is_aborted
        looked = _acting(job, store) if looks and is_quiet and store.exists() else None
    return report_of(job.label, cutover, gaps, looked)


def _acting(job: JobView, store: TargetStore) -> list[acting.Told]:
    """Look at both ends; one that cannot be asked is told."""
    try:
        ends = opened(job, store, needs_trail=False, at_most=LOOK_SECONDS)
        with closing(ends.fence):
            return list(acting.told(acting.look(ends)))
    except AnabranchError as error:
        said = f"it could not be looked at what acts on rows: {error.message}"
        return [acting.Told("acting", "", said, error.hint)]


def _gaps(job: JobView, store: TargetStore, cutover: Cutover) -> list[str]:
    """Ask the source; one that cannot be asked keeps nobody from reading the notes, and nobody waiting for long."""
    try:
        with closing(opened(job, store, needs_trail=False, at_most=LOOK_SECONDS).fence) as fence:
            return gaps_of(fence, cutover)
    except AnabranchError as error:
        return [f"nobody could look within {LOOK_SECONDS:g} s: {error.message}"]


def terms(
    job: JobView,
    wait: float,
    comparing: Comparing,
    verifies: Verifies,
    allows_parked: bool,
    tell: Callable[[str], None],
    other: WayBack | None,
) -> Terms:
    settings = job.config.cutover
    return Terms(
        settings.flip,
        settings.sequence_margin,
        settings.max_lag,
        settings.grace,
        wait,
        comparing,
        verifies,
        allows_parked,
        other or way_back_of(job),
        other is not None,
        tell,
        settings.verified_within_hours,
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
    with store_of(job) as store:
        with _notes_wanted():
            machine = CutOver(opened(job, store, is_same_file), terms)
        with closing(machine):
            yield machine


@contextmanager
def _notes_wanted() -> Iterator[None]:
    """Say what a target that is away means here."""
    try:
        yield
    except TargetUnavailable as away:
        away.hint = f"{away.hint}; {NO_NOTES}"
        raise


class _Unasked:
    """Compares nothing: nobody asks."""

    def before(self, verifies: Verifies) -> str:
        raise StateError("nobody asked for a verification")

    def at_fence(self, verifies: Verifies) -> Verified:
        raise StateError("nobody asked for a verification")


class _Comparing:
    """Comparing of a job; the engine that compares is imported when it is first asked."""

    def __init__(
        self, job: JobView, spark: Callable[[], SparkSession] | None, tell: Callable[[str], None], other: WayBack
    ) -> None:
        self._job, self._spark, self._tell, self._other = job, spark, tell, other

    def before(self, verifies: Verifies) -> str:
        with waits.in_tasks():
            return self._engine.before(verifies)

    def at_fence(self, verifies: Verifies) -> Verified:
        with waits.in_tasks():
            return self._engine.at_fence(verifies)

    @cached_property
    def _engine(self) -> AtFence:
        from anabranch.job.at_fence import AtFence
        from anabranch.job.parts import spark_factory

        return AtFence(self._job, self._spark or spark_factory(self._job, "verify"), self._tell, self._other.strays)
