"""The job that goes the other way, as a cut-over lets it begin or go on: the way back of a job, by the file that `anabranch
reverse` has written beside the job's own; for the way back itself the job that it belongs to.

What does not live here: when each of this is done (`cutover/`), arming (`lifecycle/arming.py`), the file of a way back
(`lifecycle/reversing.py`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.config import load_job
from anabranch.contracts import PassingTarget
from anabranch.cutover.fence import gaps_of
from anabranch.cutover.following import Following
from anabranch.cutover.terms import opened
from anabranch.errors import AnabranchError, NotCaughtUp, TrailError
from anabranch.job.drop import drop
from anabranch.job.preflight import preflight_report
from anabranch.lifecycle.arming import arm
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.cutover import Cutover, CutoverNote, Phase, Step
from anabranch.model.ids import TableId
from anabranch.model.way_back_names import name_of
from anabranch.rules.rule_set import check_filter
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from anabranch.view.opened import catalog_of, source_of, store_of, target_of
from anabranch.view.refusals import TAKE_OVER
from anabranch.view.running import running

if TYPE_CHECKING:
    from anabranch.contracts import TargetStore
    from anabranch.view.job_view import JobView

J = TypeVar("J", bound="JobView")
CHECK = "cutover.reverse"
FAILED, OK = CheckVerdict.FAILED, CheckVerdict.OK


@dataclass(frozen=True)
class OtherWay:
    """WayBack of a cut-over of the job `of`. `name`, `file`: of the job that goes the other way. `is_asked`: it has to be
    there. `is_way_back`: it takes its tables as they stand, and is armed; the other one has gone this way before."""

    of: JobView
    name: str
    file: Path
    is_asked: bool
    is_way_back: bool = True

    @property
    def is_wanted(self) -> bool:
        return self.is_asked or self.is_held()

    def checks(self) -> list[CheckResult]:
        """Check the file, then what that job's own preflight says."""
        try:
            if found := list(self._mistakes()):
                return found
            results = [one for one in preflight_report(self._job()).results if one.verdict is not OK]
            results += [*self._passes(), *self._strays(), *self._gaps()]
        except AnabranchError as error:
            return [CheckResult(CHECK, FAILED, f"{self.name}: {error.message}", error.hint)]
        if not any(one.verdict is FAILED for one in results):
            does = "goes on behind the flip" if self.is_held() else "is armed before the flip"
            results.append(CheckResult(CHECK, OK, f"{self.name} {does}"))
        return results

    def arm(self) -> Mapping[str, Any]:
        if self.is_held():
            return {"job": self.name, "file": str(self.file), "said": f"{self.name} goes on behind the flip"}
        armed = arm(self._job())
        said = f"{self.name} is armed at {armed.position}; from the flip on, run it: anabranch run {self.typed}"
        return {"job": self.name, "file": str(self.file), "position": str(armed.position), "said": said}

    def disarm(self) -> list[str]:
        if not self.is_way_back:
            return []
        try:
            errors = () if self.is_held() else drop(self._job(), execute=True).errors
        except AnabranchError as error:
            errors = (error,)
        return [f"the job {self.name} (anabranch drop {self.typed} --execute): {one.message}" for one in errors]

    # --- one that was cut over before ----------------------------------------------------------------------------------

    def is_held(self) -> bool:
        if not self.file.exists():
            return False
        with store_of(self._job()) as store:
            return self._cutover(store).is_finished

    def strays(self, patience: float) -> Collection[TableId] | None:
        if not self.is_held():
            return frozenset()
        job = self._job()
        source = source_of(job)
        with store_of(self.of) as own:
            targets = {state.target for state in own.states.tables(self.of.config.name).values()}
        with store_of(job) as store, catalog_of(source) as catalog:
            held = int(self._cutover(store).facts(Step.HOLD)["sequence"])
            try:
                with closing(TrailReader(job.trail)) as trail:
                    Following(job, store, trail, source.order).read(catalog.mark(), patience)
                    if trail.first() - 1 > held:
                        return None
                    found = {row.table for row in show(trail, after=held) if row.position.sequence > held}
                    found |= targets - trail.history.in_force().keys()  # the trail has no rows of these
            except (NotCaughtUp, TrailError):
                return None
        from anabranch.job.verifying import beside_of  # the engine that compares

        parents = beside_of(job).parents  # what a foreign key takes along is in no log
        return found | {table for table, acting in parents.items() if not found.isdisjoint(acting)}

    def open(self) -> None:
        job = self._job()
        with store_of(job) as store, closing(opened(job, store, needs_trail=False).fence) as fence:
            noted = self._cutover(store).facts(Step.FENCE, Phase.BEGINS)
            fence.lift([TableId.parse(text) for text in noted["tables"]], noted["before"])

    def shut(self) -> list[str]:
        job = self._job()
        with store_of(job) as store, closing(opened(job, store, needs_trail=False).fence) as fence:
            noted = self._cutover(store).facts(Step.FENCE, Phase.BEGINS)
            tables = [TableId.parse(text) for text in noted["tables"]]
            if inside := fence.deny(tables, noted["before"]):
                return inside
            fence.admit(tables, noted["before"], self.of.config.name)
        return []

    def release(self) -> None:
        with store_of(self._job()) as store:
            cutover = self._cutover(store)
            if not cutover.is_finished:
                return
            facts = {"by": self.of.config.name}
            for number, phase in enumerate((Phase.BEGINS, Phase.DONE), cutover.last + 1):
                note = CutoverNote(number, Step.ABORT, phase, time.time_ns() // 1000, facts)
                store.cutovers.note_cutover(self.name, note)

    def _cutover(self, store: TargetStore) -> Cutover:
        """Return its own cut-over; an empty one where that was taken back, or there is none."""
        found = Cutover.of(store.cutovers.cutover_notes(self.name)) if store.exists() else Cutover()
        return Cutover() if found.is_aborted else found

    @property
    def typed(self) -> str:
        """Return its file as a person types it in a command."""
        return quote(str(self.file))

    # --- its file --------------------------------------------------------------------------------------------------------

    def _job(self) -> JobView:
        return read_like(self.of, self.file)

    def _mistakes(self) -> Iterator[CheckResult]:
        """Yield what keeps the file from being that of the job, and whether a way back has begun already."""
        write = "name the job's own file"
        if self.is_way_back:
            write = f"anabranch reverse {quote(str(self.of.path))} -o {self.typed}"
        if not self.file.exists():
            yield CheckResult(CHECK, FAILED, f"the job asks for a way back, and there is no {self.file}", write)
            return
        back, of = self._job(), self.of
        ends = back.config.source.endpoint.place, back.endpoint.place
        is_other = back.config.name != self.name or ends != (of.endpoint.place, of.config.source.endpoint.place)
        if is_other or (self.is_way_back and back.config.load.existing != TAKE_OVER):
            said = f"{self.file} is not the job that goes the other way than {of.config.name}"
            yield CheckResult(CHECK, FAILED, said, f"{write} --force" if self.is_way_back else write)
        elif not self.is_held():
            yield from self._begun(back)

    def _passes(self) -> list[CheckResult]:
        """Ask as its own user, which may be another one, whether it may write where everybody else is kept out."""
        target = target_of(self._job())
        return target.passes_fence() if isinstance(target, PassingTarget) else []

    def _strays(self) -> Iterator[CheckResult]:
        """Yield what its source took behind its fence, if somebody has noticed: when it goes on, that is applied."""
        with store_of(self._job()) as store:
            cutover = self._cutover(store)
        if rows := [note.facts for note in cutover.notes if note.phase == Phase.ALARM]:
            said = (
                f"the source of {self.name} took {len(rows)} writes behind its fence, which are applied when it goes on"
            )
            hint = f"anabranch skip {self.typed} leaves transactions out; anabranch verify compares behind the return"
            yield CheckResult(CHECK, CheckVerdict.WARNING, said, hint)

    def _gaps(self) -> Iterator[CheckResult]:
        """Yield what is open in the fence at its source, behind which somebody may write to both ends."""
        job = self._job()
        with store_of(job) as store:
            cutover = self._cutover(store)
            if not cutover.is_finished:
                return
            with closing(opened(job, store, needs_trail=False).fence) as fence:
                gaps = gaps_of(fence, cutover)
        if gaps:
            said = f"the source of {self.name}, which was cut over, is not shut any more: {'; '.join(gaps)}"
            hint = (
                "shut it again; what somebody has written there is applied when it goes on: anabranch verify compares"
            )
            yield CheckResult(CHECK, CheckVerdict.WARNING, said, hint)

    def _begun(self, back: JobView) -> Iterator[CheckResult]:
        if not self.is_way_back:
            said = f"{self.name} was not cut over, or has taken that back: there is nothing to return from"
            yield CheckResult(CHECK, FAILED, said, "anabranch cutover JOB --status")
        elif parts := list(running(back)):
            said = f"{self.name} is running: {', '.join(map(str, parts))}"
            yield CheckResult(
                CHECK, FAILED, said, "stop it: the cut-over arms it, behind all that comes from the source"
            )
        elif _is_armed(back):
            hint = f"anabranch drop {self.typed} --execute: the cut-over arms it anew"
            yield CheckResult(CHECK, FAILED, f"{self.name} is armed already, before the cut-over", hint)


def read_like(job: J, file: Path) -> J:
    """Read the file of a job of the same kind. Raises ConfigError."""
    return type(job)(load_job(str(file), check_filter=check_filter), file)


def way_back_of(job: JobView) -> OtherWay:
    """Return the way back of a job: its file stands beside the job's own."""
    name = name_of(job.config.name)
    return OtherWay(job, name, (job.config.file or job.path).with_name(f"{name}.toml"), job.config.reverse.enabled)


def way_forth(back: JobView, job: JobView) -> OtherWay:
    """Return, for the way back `back` of a job, that job."""
    return OtherWay(back, job.config.name, job.config.file or job.path, is_asked=True, is_way_back=False)


def _is_armed(back: JobView) -> bool:
    with store_of(back) as store:
        return store.exists() and store.jobs.checkpoint(back.config.name) is not None
