"""`run`: preflight, then the parts as children of this process, watched and started again when they die.

A part that ends with an error which time may heal, or that was killed or stopped by somebody else, is started again with
a growing pause, five times an hour; then `run` ends with that part's code, unless it is a part of one of several targets
and another target goes on. Targets that are away are waited for while capture goes on, except where `run` has to end when
it has caught up. When `run` itself dies, its parts see their input close and end.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from anabranch import log, pace
from anabranch.config.hops import Hop
from anabranch.errors import (
    AnabranchError,
    JobChanged,
    NotCaughtUp,
    PreflightFailed,
    StateError,
    TargetError,
    TargetUnavailable,
)
from anabranch.job.asked_checks import AskedChecks
from anabranch.job.asked_loads import AskedLoads
from anabranch.job.children import Child
from anabranch.job.display import Display
from anabranch.job.lanes import Lane, refuse_if_all_failed, worst
from anabranch.job.preflight import preflight_report
from anabranch.job.scraping import listening
from anabranch.job.signals import Stop
from anabranch.job.standing_by import is_ours
from anabranch.job.watching import part
from anabranch.lifecycle.pair_start import note_pairing
from anabranch.model.checks import CheckVerdict
from anabranch.model.condition import Waiting
from anabranch.model.metrics import PARKED, RESTARTS
from anabranch.state.store import StateStore
from anabranch.trail.claims import holder
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.attunity import as_asked, batched, noted
from anabranch.view.refusals import refuse_changed_job, refuse_unarmed
from anabranch.view.running import RUN_LOCK

if TYPE_CHECKING:
    from anabranch.preflight.report import Report
    from anabranch.view.job_view import JobView

LOCK_SECONDS = 10.0  # a run that was just stopped may still end its parts
STOP_SECONDS = 60.0  # for the running epoch; then a part is killed, which costs nothing but work


class Supervisor:
    """The process that runs a job on this machine. Only one at a time: a second one would end the first one's apply."""

    def __init__(self, job: JobView, show: IO[str] | None = None) -> None:
        """Prepare the run. `show`: where people are shown checks and progress; None: only the log tells of them."""
        self.job, self.show = job, show
        self._filed, self._noted = job, noted(job)  # what the file says, what Attunity's configuration says besides
        self.stop = Stop()
        self._streams = False
        self._asked: list[AskedLoads | AskedChecks] = []

    def run(self, *, until_caught_up: bool = False, seconds: float | None = None) -> None:
        """Run the job. Raises the error that ended it: PreflightFailed, PartFailed, NotCaughtUp, TablesParked;
        StateError for a second supervisor."""
        with (
            self.stop,
            only_one(self.job, self.stop),
            part(self.job, "run", self.stop.asked) as state,
            contextlib.ExitStack() as ends,
        ):
            state.clear_last_error()
            state.forget_gone("run")
            note_pairing(self.job)
            captures = self._captures() if self._stands_by else []
            if not self._has_trail(state) or not self._has_turn(captures, ends):
                return
            away = self._preflight(state)
            refuse_changed_job(self.job)
            refuse_unarmed(self.job)
            self.job = as_asked(self.job)
            captures = captures if self._stands_by else self._captures()
            views, is_patient = self.job.targets(), not until_caught_up and self.job.config.retry.target.is_unlimited
            lanes = [self._lane(view, state, view.target in away, is_patient) for view in views]
            try:
                with listening(self.job):
                    self._watch(captures, lanes, until_caught_up, seconds, state)
            finally:
                asked = [child for one in self._asked for child in one.children]
                self._end([*captures, *(child for lane in lanes for child in lane.children), *asked])
                for lane in lanes:
                    lane.state.forget_gone("run")  # parts that did not end in time were killed
                    lane.state.phase("stopped")
                state.forget_gone("run")
                state.phase("stopped")

    def _has_trail(self, state: StateStore) -> bool:
        """Wait for the trail of a job that another one captures for. Returns False when stopped before."""
        if not self.job.captures:
            from anabranch.lifecycle.hopping import await_trail

            await_trail(self.job, self.stop, lambda why, on: state.phase("waiting", why, Waiting.CAPTURE))
        return not self.stop.asked()

    def _has_turn(self, captures: list[Child], ends: contextlib.ExitStack) -> bool:
        """Let capture stand by while another one writes the trail that both share: nothing else of the job begins before it has
        taken over. Returns False when stopped before."""
        if not self._stands_by or holder(self.job.trail) is None:
            return True
        ends.callback(self._end, captures)
        while not self.stop.wait(pace.current.run_tick):
            for capture in captures:
                capture.poll(time.monotonic())
            if is_ours(self.job, captures):
                return True
        return False

    @property
    def _stands_by(self) -> bool:
        return self.job.config.capture.standby

    def _captures(self) -> list[Child]:
        return [self._capture()] if self.job.captures else []

    def _capture(self) -> Child:
        capture = Child("capture", [sys.executable, "-m", "anabranch", "capture", str(self.job.path)])
        capture.command += ["--standby"] * self._stands_by
        capture.restarts_per_hour = self.job.config.retry.restarts_per_hour
        return capture

    def _preflight(self, state: StateStore) -> set[str]:
        """Check every target. Returns the names of targets that cannot be reached, as long as another one can: their
        parts begin when they are back."""
        state.phase("preflight")
        away: dict[str, TargetError] = {}
        refused: list[PreflightFailed] = []
        for view in self.job.targets():
            try:
                report = preflight_report(view)
            except TargetError as unreachable:  # also one that refuses the login: the others go on
                if not (view.is_one_of_several or isinstance(unreachable, TargetUnavailable)):
                    raise
                away[view.target] = unreachable
                continue
            if report.verdict != CheckVerdict.OK:
                self._tell(view, report)
            try:
                report.require()
            except PreflightFailed as failed:
                failed.job = view.label
                refused.append(failed)
        if (first := worst(iter(refused))) is not None:
            self._refuse_if_edited()
            raise first
        if len(away) == len(self.job.targets()):
            raise next(iter(away.values()))
        for name, error in away.items():
            log.get(job=self.job.config.name, target=name).warning("target_away", error=error.message)
        state.phase("waiting", "for the parts to start", Waiting.BEGIN)
        return set(away)

    def _refuse_if_edited(self) -> None:
        """Raise JobChanged if the job file is not that of the last run: what the checks found may be about another job then.
        What keeps us from asking, a target that lets nobody in, is what they found."""
        try:
            refuse_changed_job(self.job)
        except JobChanged:
            raise
        except AnabranchError:
            return

    def _tell(self, view: JobView, report: Report) -> None:
        """Show the checks that are not ok. If nobody watches, write the warnings to the log."""
        if self.show is None:
            bound = log.get(job=view.label)
            for result in report.warnings:
                bound.warning("preflight", check=result.check, table=result.table, message=result.message)
            return
        if view.is_one_of_several:
            self.show.write(f"target {view.target}\n")
        report.write(self.show, but=CheckVerdict.OK)

    def _lane(self, view: JobView, state: StateStore, was_away: bool, is_patient: bool) -> Lane:
        """Create the lane of a target. One of several targets gets a state of its own, without what a former run left
        in it."""
        if not view.is_one_of_several:
            return Lane(view, state, is_patient=is_patient)
        state.phase("streaming")  # each target has a phase of its own
        own = StateStore(view.target_home)
        own.clear_last_error()
        own.forget_gone()
        return Lane(view, own, was_away, is_patient)

    def _watch(
        self, captures: list[Child], lanes: list[Lane], until_caught_up: bool, seconds: float | None, state: StateStore
    ) -> None:
        deadline, children = None, [*captures, *(child for lane in lanes for child in lane.children)]
        if self.job.config.hop is Hop.CAPTURE:
            self._asked = [AskedLoads(self.job, state), AskedChecks(self.job)]
        going_on: list[Lane | AskedLoads | AskedChecks] = [*lanes, *self._asked]
        with Display(lanes, self.show) as display:
            while not self.stop.wait(pace.current.run_tick):
                now = time.monotonic()
                self._renew(children)
                for capture in captures:
                    capture.poll(now)
                has_turn = not self._stands_by or is_ours(self.job, captures)
                for one in going_on:
                    if has_turn is False:  # also rows of a load are one machine's to write
                        one.pause()
                    elif has_turn and (one not in self._asked or (self._streams and not until_caught_up)):
                        one.poll(now)
                self._note_streaming(lanes, state)
                refuse_if_all_failed(lanes)
                display.refresh()
                state.count("run", {RESTARTS: sum(child.restarted for child in children)}, _parked(lanes))
                going = [lane for lane in lanes if lane.failure is None]
                if seconds is not None and deadline is None and going and all(lane.is_streaming for lane in going):
                    deadline = now + seconds
                if until_caught_up:
                    try:
                        reached = [lane.caught_up.is_reached() for lane in going]  # asks every lane for its goal
                    except NotCaughtUp as never:
                        return self._finish(lanes, never)
                    if all(reached):
                        return self._finish(lanes)
                    for lane in going:
                        lane.drain()
                if deadline is not None and now > deadline:
                    return self._timed_out(until_caught_up, seconds, going)
        if until_caught_up:
            sys.exit(128 + (self.stop.signal or signal.SIGTERM))
        return None

    def _renew(self, children: list[Child]) -> None:
        """Let parts start again where the row of Attunity's configuration says something else of them by now."""
        if not self.job.config.compat.attunity or (now := noted(self._filed)) == self._noted:
            return
        before, job = self._noted, as_asked(self._filed)
        self._noted = now
        if job.config == self.job.config and batched(now) == batched(before):
            return
        self.job = job
        for child in children:
            child.renew(self.job.config.retry.restarts_per_hour)
        log.get(job=self.job.config.name).info("parts_renewed", why="cdc.xdbcdc_config says something else of them")

    def _note_streaming(self, lanes: list[Lane], state: StateStore) -> None:
        """Say that a job streams once its load is through, where it has no apply that says so."""
        if (
            not self.job.applies
            and not self._streams
            and all(child.ended_well for one in lanes for child in one.children)
        ):
            self._streams = True
            state.phase("streaming")

    def _timed_out(self, until_caught_up: bool, seconds: float | None, going: list[Lane]) -> None:
        if until_caught_up:
            late = [lane.job.target for lane in going if not lane.caught_up.is_reached()]
            who = f": {', '.join(late)}" if len(self.job.config.ends) > 1 else ""
            raise NotCaughtUp(
                f"not caught up within {seconds:g} seconds of streaming{who}",
                job=self.job.config.name,
                hint="start again with more time: it goes on from where it is",
            )

    def _finish(self, lanes: list[Lane], *errors: NotCaughtUp) -> None:
        """Raise the error with the lowest exit code, if any target has one; also for tables that are parked."""
        said = worst(iter([*errors, *(error for lane in lanes for error in (lane.failure, lane.parked()))]))
        if said is not None:
            raise said

    def _end(self, children: list[Child]) -> None:
        """Stop the children, apply first, so that nothing it needs goes away before it ends. A second signal ends
        everything at once."""
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(children):
            child.stop()
        for child in reversed(children):
            child.end(deadline)


def _parked(lanes: list[Lane]) -> dict[str, int]:
    """Return how many tables are parked; nothing as long as a target has not told."""
    is_known = all(lane.progress.states for lane in lanes)
    return {PARKED: sum(len(lane.progress.parked()) for lane in lanes)} if is_known else {}


@contextlib.contextmanager
def only_one(job: JobView, stop: Stop) -> Iterator[None]:
    """Lock the job's home against a second `run`, before anything starts."""
    try:
        job.config.home.mkdir(parents=True, exist_ok=True)
        lock = OsLock(job.config.home / RUN_LOCK, LOCK_SECONDS, stop.asked)
    except LockHeld as held:
        raise StateError(f"the job is being run by {held}", job=job.config.name, hint="stop that one first") from None
    except OSError as error:
        message = f"the home {job.config.home} cannot be used: {error.strerror}"
        raise StateError(message, job=job.config.name, hint="ANABRANCH_HOME says where jobs have their home") from None
    try:
        yield
    finally:
        lock.close()
