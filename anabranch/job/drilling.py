"""`drill`: shows that the way back would work, beside the job and its users.

A shadow at the source, empty copies of its tables, is loaded from the real target and takes its stream, the job's own changes
among them. Then each table is compared with its shadow by the server that has both. What does not live here: decisions about
the way back (rules/way_back.py), the comparison (drill_looks.py, connectors), results for people (drill_report.py).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.config import raw_job
from anabranch.config.patterns import Pattern
from anabranch.contracts import Outlook, Shadow, ShadowedSource
from anabranch.cutover.following import Following
from anabranch.errors import AnabranchError, ConfigError, SourceUnavailable, StateError
from anabranch.job.drill_looks import Looks, passed
from anabranch.job.drill_plan import DrillPlan, room_of
from anabranch.job.drill_report import DrillReport
from anabranch.job.drill_stream import TICK, finding, parked, states_of, streamed, unmoved
from anabranch.job.drill_writes import let_go
from anabranch.job.drop import DRILL, drop
from anabranch.job.preflight import preflight_report
from anabranch.lifecycle.reversing import reverse_results, reversed_job
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.rules.reverse_file import drill_file, drill_name_of
from anabranch.rules.way_back import WayBack
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.trail.reader import TrailReader
from anabranch.version import __version__
from anabranch.view.opened import source_of, store_of
from anabranch.view.refusals import refuse_beside_trail
from anabranch.view.running import running as parts_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

FILE, LOCK = DRILL, "drill.lock"  # in the job's home
PREFIX = "anabranch_drill_"
END_SECONDS = 90.0  # for the job of a drill that was killed: it ends when it sees that
CLEAN = "anabranch drill JOB --clean removes what it left"

Running = Callable[["JobView"], AbstractContextManager[Callable[[], str]]]
"""Run a job until the block ends; what it gives says why the job has ended by itself, "" while it runs."""


@dataclass(frozen=True)
class Wish:
    """`tables`: patterns of source tables, all where there are none. `stream`: seconds in which every table may get a change;
    `settle`: seconds for what both jobs have to carry at each wait, and for rows on their way at the end. `admits_log`: what is
    written to the shadow may stand in the source's log where it cannot be kept out of it."""

    tables: tuple[str, ...] = ()
    stream: float = 60.0
    settle: float = 120.0
    admits_log: bool = False


@dataclass(frozen=True)
class _Foreseen:
    """Facts that are known before anything is made; with a finding that failed perhaps no more than that."""

    findings: tuple[CheckResult, ...]
    back: WayBack = field(default_factory=lambda: WayBack((), {}, ()))
    outlook: Outlook = field(default_factory=lambda: Outlook(0))


@dataclass
class Drill:
    """One drill of `job`. `read`: reads a job file. `running`: runs the drill's own job. `tell` is given lines."""

    job: JobView
    read: Callable[[Path], JobView]
    running: Running
    tell: Callable[[str], None]

    def run(self, wish: Wish) -> DrillReport:
        """Drill, and remove everything that was made. Raises StateError, NotCaughtUp where the job itself does not follow."""
        refuse_beside_trail(self.job, "a drill")
        with _alone(self.job), closing(self._shadow()) as shadow:
            self._require_ours(shadow)
            found = self._foreseen(shadow, wish)
            if _failed(found.findings):
                return DrillReport(self.job.label, _told(found.findings))
            with ExitStack() as opened:
                forward = opened.enter_context(_following(self.job))
                self.tell("waiting until the job has reached its source's end")
                passed(forward, wish.settle)
                self._clean(shadow)
                self.tell(f"the shadow takes about {room_of(found.outlook.room)} at the source, as its tables do")
                try:
                    report = self._drilled(forward, shadow, found, wish)
                finally:
                    self.tell("removing the shadow and what its job left")
                    removed = self._removed(shadow)
            return replace(report, removed=tuple(removed))

    def plan(self, wish: Wish) -> DrillPlan:
        """Return what a drill would make, and what is found before. Makes nothing."""
        with _alone(self.job), closing(self._shadow()) as shadow:
            self._require_ours(shadow)
            found = self._foreseen(shadow, wish)
            tables = tuple((str(one.written), str(self._into(one.written))) for one in found.back.tables)
            name, room = shadow_of(self.job.config.name), found.outlook.room
            return DrillPlan(self.job.label, name, tables, room, _told(found.findings))

    def clean(self) -> list[str]:
        """Remove what a drill left that was killed."""
        with _alone(self.job), closing(self._shadow()) as shadow:
            self._require_ours(shadow)
            return self._clean(shadow)

    def _foreseen(self, shadow: Shadow, wish: Wish) -> _Foreseen:
        """Look at the way back, and at what the shadow takes: as far as nothing keeps it from working."""
        findings = list(reverse_results(self.job, is_asked=True))
        if _failed(findings):
            return _Foreseen(tuple(findings))
        back = self._chosen(reversed_job(self.job).back, wish.tables)
        outlook = shadow.outlook([table.written for table in back.tables], wish.admits_log)
        return _Foreseen((*findings, *outlook.findings), back, outlook)

    # --- what is made, and its removal ---------------------------------------------------------------------------------

    def _shadow(self) -> Shadow:
        source = source_of(self.job)
        if not isinstance(source, ShadowedSource):
            name = self.job.config.source.endpoint.scheme
            hint = "anabranch preflight JOB --reverse checks its way back without one"
            raise ConfigError(f"a {name} source cannot be drilled", job=self.job.label, hint=hint)
        return source.shadow(shadow_of(self.job.config.name), self.job.config.name)

    def _removed(self, shadow: Shadow) -> list[str]:
        """Remove everything. The error of what could not be removed says how that is done later."""
        try:
            return self._clean(shadow)
        except AnabranchError as error:
            error.hint = f"{error.hint}; {CLEAN}" if error.hint else CLEAN
            raise

    def _clean(self, shadow: Shadow) -> list[str]:
        """Remove the drill's job, then the shadow: while that stands, it says whose all this is."""
        shadow.close()  # a comparison that was called away from would keep it
        file, removed = self.job.config.home / FILE, list[str]()
        if not file.exists() and shadow.owner() is not None:
            said = f"{shadow_of(self.job.config.name)} at the source is of a drill that this home knows nothing of"
            hint = (
                "run drill --clean where that drill was started; where its home is gone: drop the schema at the source,"
            )
            hint += f" and slot and publication of {drill_name_of(self.job.config.name)} at the target"
            raise StateError(said, job=self.job.label, hint=hint)
        if file.exists():
            let_go(self.job)
            made = self.read(file)
            _wait_for_its_end(made)
            left = drop(made, execute=True, needs_all=True)
            left.require()
            removed += left.lines
        if shadow.owner() is not None:
            removed += shadow.remove()
        for one in (file, _part(file)):
            one.unlink(missing_ok=True)
        return removed

    def _chosen(self, back: WayBack, wanted: Sequence[str]) -> WayBack:
        """Keep tables that were asked for, each to be written into the shadow."""
        patterns = [_pattern(text) for text in wanted]
        kept = [t for t in back.tables if not patterns or any(one.matches(t.written) for one in patterns)]
        if not kept:
            raise ConfigError(f"no table that goes back fits {', '.join(wanted)}", job=self.job.label)
        names = [table.written.name for table in kept]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            hint = "drill them one after the other: --tables 'schema.*'"
            raise ConfigError(f"several tables are called {', '.join(twice)}", job=self.job.label, hint=hint)
        schema = shadow_of(self.job.config.name)
        if taken := [one for table in kept if self.job.rules.includes(one := TableId(schema, table.written.name))]:
            hint = f'leave the shadow out: [[rules]] exclude = ["{schema}.*"]'
            raise ConfigError(f"the job's own rules take in {taken[0]}", job=self.job.label, hint=hint)
        return replace(back, tables=tuple(kept))

    def _require_ours(self, shadow: Shadow) -> None:
        """Refuse a schema of the drill's name that none of this job has made."""
        owner = shadow.owner()
        was_begun = owner == "" and (self.job.config.home / FILE).exists() and shadow.is_begun()
        if owner not in (None, self.job.config.name) and not was_begun:
            said = f"{shadow_of(self.job.config.name)} at the source is not this job's"
            raise StateError(said, job=self.job.label, hint="drop or rename it")

    def _make(self, shadow: Shadow, found: _Foreseen) -> JobView:
        back = found.back
        into = {table.written: self._into(table.written) for table in back.tables}
        file = self.job.config.home / FILE
        turned = replace(back, tables=tuple(replace(t, written=into[t.written]) for t in back.tables), left_out={})
        raw = raw_job(self.job.config.file or self.job.path)
        if (home := self.job.config.home.with_name(drill_name_of(self.job.config.name))).exists():
            said = f"{home} is there already, of a job that this drill would take for its own"
            raise StateError(said, job=self.job.label, hint="give that job another name, or remove it: anabranch drop")
        text = drill_file(raw, turned, f"written by anabranch {__version__}", found.outlook.options)
        _write(file, text)
        shadow.make(into)
        return self.read(file)

    def _into(self, table: TableId) -> TableId:
        return TableId(shadow_of(self.job.config.name), table.name)

    # --- the drill -----------------------------------------------------------------------------------------------------

    def _drilled(self, forward: Following, shadow: Shadow, found: _Foreseen, wish: Wish) -> DrillReport:
        label, back, findings = self.job.label, found.back, list(found.findings)
        self.tell(f"making a shadow of {len(back.tables)} tables at the source")
        try:
            made = self._make(shadow, found)
            findings += [_named(one) for one in preflight_report(made).results if one.verdict is not CheckVerdict.OK]
        except SourceUnavailable:
            raise
        except AnabranchError as error:
            findings.append(finding("drill.make", str(error.message), error.hint or ""))
        if _failed(findings):
            return DrillReport(label, _told(findings))
        with self.running(made) as ended:
            if (why := streamed(made, ended, len(back.tables), wish.stream, self.tell)) is not None:
                return DrillReport(label, _told([*findings, why]))
            with _following(made) as behind:
                looks = Looks(self.job, forward, behind, shadow, wish.settle, self.tell)
                tables, position = looks.compared(back, self._into)
            changes = {source: state.changes_applied for source, state in states_of(made).items()}
            stopped = parked(made)
        tables = [replace(table, changes=changes.get(TableId.parse(table.target), 0)) for table in tables]
        findings += unmoved(tables)
        findings += [stopped] if stopped else []
        return DrillReport(label, _told(findings), tuple(tables), position)


def shadow_of(job: str) -> str:
    """Return the name of the schema for a job's drill."""
    digest = hashlib.sha256(job.encode()).hexdigest()[:8]
    return f"{PREFIX}{re.sub('[^a-z0-9]+', '_', job.lower())[:30].strip('_')}_{digest}"


def _pattern(text: str) -> Pattern:
    try:
        return Pattern.parse(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is no pattern of tables: {error}") from None


def _named(result: CheckResult) -> CheckResult:
    return replace(result, check=f"drill.{result.check}")


def _failed(findings: Sequence[CheckResult]) -> bool:
    return any(one.verdict is CheckVerdict.FAILED for one in findings)


def _told(findings: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    return tuple(one for one in findings if one.verdict is not CheckVerdict.OK)


def _wait_for_its_end(made: JobView) -> None:
    """Wait for the job of a drill that was killed; what is left of it then is refused by name."""
    until = time.monotonic() + END_SECONDS
    while made.config.home.exists() and any(parts_of(made)) and time.monotonic() < until:
        time.sleep(TICK)


def _part(file: Path) -> Path:
    return file.with_suffix(".part")


def _write(file: Path, text: str) -> None:
    """Write the drill's job file whole: what is in it is removed by it."""
    part = _part(file)
    part.touch(0o600)
    part.write_text(text, "utf-8")
    part.replace(file)


@contextmanager
def _following(job: JobView) -> Iterator[Following]:
    with store_of(job) as store, TrailReader(job.trail) as trail:
        yield Following(job, store, trail, source_of(job).order)


@contextmanager
def _alone(job: JobView) -> Iterator[None]:
    """Let one process of this home drill. Raises StateError."""
    if len(job.config.ends) > 1:
        raise ConfigError("the job has several targets: it has no one way back", job=job.config.name)
    job.config.home.mkdir(parents=True, exist_ok=True)
    try:
        lock = OsLock(job.config.home / LOCK)
    except LockHeld as held:
        raise StateError(f"the job is being drilled by {held}", job=job.label, hint="wait for its end") from None
    try:
        yield
    finally:
        lock.close()
