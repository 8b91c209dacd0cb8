"""`drill`: shows that the way back would work, beside the job and its users.

A shadow at the source, empty copies of its tables, is loaded from the real target and takes its stream, the job's own changes
among them. Then each table is compared with its shadow by the server that has both. A row that differs may be on its way: it
counts once all that was committed before the comparison has gone to the target and come back, and neither version of it is
another one than before. What does not live here: decisions about the way back (rules/way_back.py), the comparison (connectors).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.config import raw_job
from anabranch.config.patterns import Pattern
from anabranch.contracts import Shadow, ShadowedSource, UnlikeRow
from anabranch.cutover.following import Following
from anabranch.errors import AnabranchError, ConfigError, SourceUnavailable, StateError
from anabranch.job.drill_report import DrilledRow, DrilledTable, DrillReport
from anabranch.job.drop import DRILL, drop
from anabranch.job.preflight import preflight_report
from anabranch.lifecycle.reversing import reverse_results, reversed_job
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.rules.reverse_file import drill_file, drill_name_of
from anabranch.rules.way_back import TableBack, WayBack
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.trail.reader import TrailReader
from anabranch.version import __version__
from anabranch.view.opened import catalog_of, source_of, store_of

if TYPE_CHECKING:
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

FILE, LOCK = DRILL, "drill.lock"  # in the job's home
PREFIX = "anabranch_drill_"
ROWS = 1_000  # of a table that differ, which are looked at again
TICK, REST = 0.2, 1.0  # seconds between two looks at states, at rows on their way
CLEAN = "anabranch drill JOB --clean removes what it left"

Running = Callable[["JobView"], AbstractContextManager[Callable[[], str]]]
"""Run a job until the block ends; what it gives says why the job has ended by itself, "" while it runs."""


@dataclass(frozen=True)
class Wish:
    """`tables`: patterns of source tables, all where there are none. `stream`: seconds in which every table may get a change;
    `settle`: seconds for what both jobs have to carry at each wait, and for rows on their way at the end."""

    tables: tuple[str, ...] = ()
    stream: float = 60.0
    settle: float = 120.0


@dataclass
class Drill:
    """One drill of `job`. `read`: reads a job file. `running`: runs the drill's own job. `tell` is given lines."""

    job: JobView
    read: Callable[[Path], JobView]
    running: Running
    tell: Callable[[str], None]
    _lasting: set[str] = field(default_factory=set)

    def run(self, wish: Wish) -> DrillReport:
        """Drill, and remove everything that was made. Raises StateError, NotCaughtUp where the job itself does not follow."""
        with _alone(self.job), closing(self._shadow()) as shadow:
            _require_ours(self.job, shadow)
            findings = list(reverse_results(self.job, is_asked=True))
            if _failed(findings):
                return DrillReport(self.job.label, _told(findings))
            back = self._chosen(reversed_job(self.job).back, wish.tables)
            with ExitStack() as opened:
                forward = opened.enter_context(_following(self.job))
                self.tell("waiting until the job has reached its source's end")
                self._passed(forward, wish.settle)
                self._clean(shadow)
                try:
                    report = self._drilled(forward, shadow, back, findings, wish)
                finally:
                    self.tell("removing the shadow and what its job left")
                    removed = self._clean(shadow)
            return replace(report, removed=tuple(removed))

    def clean(self) -> list[str]:
        """Remove what a drill left that was killed."""
        with _alone(self.job), closing(self._shadow()) as shadow:
            _require_ours(self.job, shadow)
            return self._clean(shadow)

    # --- what is made, and its removal ---------------------------------------------------------------------------------

    def _shadow(self) -> Shadow:
        source = source_of(self.job)
        if not isinstance(source, ShadowedSource):
            name = self.job.config.source.endpoint.scheme
            hint = "anabranch preflight JOB --reverse checks its way back without one"
            raise ConfigError(f"a {name} source cannot be drilled yet", job=self.job.label, hint=hint)
        return source.shadow(shadow_of(self.job.config.name), self.job.config.name)

    def _clean(self, shadow: Shadow) -> list[str]:
        """Remove the drill's job, then the shadow: while that stands, it says whose all this is."""
        file, removed = self.job.config.home / FILE, list[str]()
        if not file.exists() and shadow.owner() is not None:
            said = (
                f"schema {shadow_of(self.job.config.name)} at the source is of a drill that this home knows nothing of"
            )
            hint = (
                "run drill --clean where that drill was started; where its home is gone: drop the schema at the source,"
            )
            hint += f" and slot and publication of {drill_name_of(self.job.config.name)} at the target"
            raise StateError(said, job=self.job.label, hint=hint)
        if file.exists():
            left = drop(self.read(file), execute=True, needs_all=True)
            left.require()
            removed += left.lines
        if shadow.owner() is not None:
            removed += shadow.remove()
        file.unlink(missing_ok=True)
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

    def _make(self, shadow: Shadow, back: WayBack) -> JobView:
        into = {table.written: self._into(table.written) for table in back.tables}
        file = self.job.config.home / FILE
        turned = replace(back, tables=tuple(replace(t, written=into[t.written]) for t in back.tables), left_out={})
        raw = raw_job(self.job.config.file or self.job.path)
        if (home := self.job.config.home.with_name(drill_name_of(self.job.config.name))).exists():
            said = f"{home} is there already, of a job that this drill would take for its own"
            raise StateError(said, job=self.job.label, hint="give that job another name, or remove it: anabranch drop")
        file.write_text(drill_file(raw, turned, f"written by anabranch {__version__}"), "utf-8")
        file.chmod(0o600)
        shadow.make(into)
        return self.read(file)

    def _into(self, table: TableId) -> TableId:
        return TableId(shadow_of(self.job.config.name), table.name)

    # --- the drill -----------------------------------------------------------------------------------------------------

    def _drilled(
        self, forward: Following, shadow: Shadow, back: WayBack, findings: list[CheckResult], wish: Wish
    ) -> DrillReport:
        label = self.job.label
        self.tell(f"making a shadow of {len(back.tables)} tables at the source")
        try:
            made = self._make(shadow, back)
            findings += [_named(one) for one in preflight_report(made).results if one.verdict is not CheckVerdict.OK]
        except SourceUnavailable:
            raise
        except AnabranchError as error:
            findings.append(_finding("drill.make", str(error.message), error.hint or ""))
        if _failed(findings):
            return DrillReport(label, _told(findings))
        with self.running(made) as ended:
            if (why := self._stream(made, ended, back, wish)) is not None:
                return DrillReport(label, _told([*findings, why]))
            with _following(made) as behind:
                tables, position = self._compared(forward, behind, shadow, back, wish.settle)
            changes = {source: state.changes_applied for source, state in _states(made).items()}
            parked = _parked(made)
        tables = [replace(table, changes=changes.get(TableId.parse(table.target), 0)) for table in tables]
        findings += _unmoved(tables)
        findings += [parked] if parked else []
        return DrillReport(label, _told(findings), tuple(tables), position)

    def _stream(self, made: JobView, ended: Callable[[], str], back: WayBack, wish: Wish) -> CheckResult | None:
        """Wait for the load, then until every table had a change or the time is over. Returns what ended it."""
        began = 0.0
        while True:
            states = _states(made)
            if why := ended():
                hint = "mend it at the source or the target, or leave the table out ([reverse] exclude)"
                return _finding("drill.job", f"the job of the way back ended: {why}", hint)
            if parked := _parked(made):
                return parked
            if states and all(state.is_streaming for state in states.values()) and len(states) == len(back.tables):
                began = began or time.monotonic()
                changed = sum(state.changes_applied > 0 for state in states.values())
                self.tell(f"streaming: changes of {changed} of {len(states)} tables have come back")
                if changed == len(states) or time.monotonic() - began > wish.stream:
                    return None
            else:
                loaded = sum(state.is_loaded for state in states.values())
                self.tell(f"loading the shadow from the target: {loaded} of {len(back.tables)} tables")
            time.sleep(TICK)

    def _compared(
        self, forward: Following, behind: Following, shadow: Shadow, back: WayBack, seconds: float
    ) -> tuple[list[DrilledTable], str]:
        """Compare all tables until each row is decided or the time is over."""
        until = time.monotonic() + seconds
        open_ = {table.written: _Compared(table, self.job, shadow, self._into(table.written)) for table in back.tables}
        position, results = self._round_trip(forward, behind, seconds), dict[TableId, DrilledTable]()
        while True:
            for name, one in open_.items():
                results[name] = one.look()
            if not (left := {name for name, found in results.items() if found.pending}):
                break
            self.tell(f"comparing: rows of {len(left)} tables are on their way")
            if time.monotonic() > until:
                break
            time.sleep(REST)
            position = self._round_trip(forward, behind, seconds)
            open_ = {name: one for name, one in open_.items() if name in left}
        return [results[table.written] for table in back.tables], position

    def _round_trip(self, forward: Following, behind: Following, seconds: float) -> str:
        """Wait until all that is committed at the source now has gone to the target and come back."""
        position = self._passed(forward, seconds)
        self._passed(behind, seconds)
        return position

    def _passed(self, one: Following, seconds: float) -> str:
        with catalog_of(source_of(one.job)) as catalog:
            mark = catalog.mark()
        one.reached(mark, seconds)
        return mark.native


@dataclass
class _Compared:
    """A table whose rows are compared with its shadow's, again and again. `_before`: rows that differed the last time."""

    table: TableBack
    job: JobView
    shadow: Shadow
    into: TableId
    _before: set[tuple[tuple[str, ...], tuple[str, str]]] = field(default_factory=set)

    def look(self) -> DrilledTable:
        """Judge its rows. What differed the last time, and is what it was then, does not come back any more."""
        key, columns = self._names()
        found = self.shadow.unlike(self.table.written, self.into, key, columns, ROWS)
        stayed = [row for row in found.sample if (row.key, row.versions) in self._before]
        self._before = {(row.key, row.versions) for row in found.sample}
        return DrilledTable(
            str(self.table.written),
            str(self.table.read),
            found.rows,
            different=len(stayed),
            pending=found.count - len(stayed),
            sample=tuple(_row(key, row) for row in stayed[:100]),
        )

    def _names(self) -> tuple[list[str], list[str]]:
        with catalog_of(source_of(self.job)) as catalog:
            wanted = self.table.written
            schema = catalog.tables(lambda table: table == wanted, whole=False)[wanted]
        form = self.job.rules.target_table(schema)
        names = dict(zip(form.source_columns, form.columns, strict=True)) | dict(form.computed)
        return list(schema.primary_key), [name for name, there in names.items() if there not in self.table.drop]


def shadow_of(job: str) -> str:
    """Return the name of the schema for a job's drill."""
    digest = hashlib.sha256(job.encode()).hexdigest()[:8]
    return f"{PREFIX}{re.sub('[^a-z0-9]+', '_', job.lower())[:30].strip('_')}_{digest}"


def _row(key: Sequence[str], row: UnlikeRow) -> DrilledRow:
    return DrilledRow(row.kind, dict(zip(key, row.key, strict=True)), row.columns)


def _pattern(text: str) -> Pattern:
    try:
        return Pattern.parse(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is no pattern of tables: {error}") from None


def _states(job: JobView) -> Mapping[TableId, TableState]:
    with store_of(job) as store:
        return store.states.tables(job.config.name) if store.exists() else {}


def _parked(made: JobView) -> CheckResult | None:
    for table, state in sorted(_states(made).items()):
        if state.is_parked:
            hint = "mend what the reason names, at the source or by another type; or [reverse] exclude"
            return _finding("drill.parked", f"it does not come back: {state.reason}", hint, str(table))
    return None


def _unmoved(tables: Sequence[DrilledTable]) -> Iterator[CheckResult]:
    for table in tables:
        if not table.changes:
            text = "no change came back in this time: only its load was seen"
            yield CheckResult("drill.changes", CheckVerdict.WARNING, text, "drill for longer (--for 10m)", table.source)


def _finding(check: str, message: str, hint: str, table: str = "") -> CheckResult:
    return CheckResult(check, CheckVerdict.FAILED, message, hint, table)


def _named(result: CheckResult) -> CheckResult:
    return replace(result, check=f"drill.{result.check}")


def _failed(findings: Sequence[CheckResult]) -> bool:
    return any(one.verdict is CheckVerdict.FAILED for one in findings)


def _told(findings: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    return tuple(one for one in findings if one.verdict is not CheckVerdict.OK)


def _require_ours(job: JobView, shadow: Shadow) -> None:
    owner = shadow.owner()
    if owner not in (None, job.config.name):
        name = shadow_of(job.config.name)
        raise StateError(f"schema {name} at the source is not this job's", job=job.label, hint="drop or rename it")


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
