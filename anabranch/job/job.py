"""`Job`: what users do with a job file."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anabranch.config import load_job
from anabranch.job.definitions import DefinitionsJob
from anabranch.model.ids import TableId
from anabranch.view.job_view import check_filter

if TYPE_CHECKING:
    from anabranch.cutover.report import CutoverReport
    from anabranch.job.bundle.archive import Bundle
    from anabranch.job.drill_plan import DrillPlan
    from anabranch.job.drill_report import DrillReport
    from anabranch.job.drop import Leftovers
    from anabranch.job.one_transaction import TransactionTrace
    from anabranch.job.printing import Script
    from anabranch.job.pruning import Pruned
    from anabranch.lifecycle.arming import Armed
    from anabranch.lifecycle.moving_rules import ImportedRules
    from anabranch.lifecycle.parking import ParkedTable
    from anabranch.lifecycle.planning import Plan
    from anabranch.lifecycle.reversing import Reversed
    from anabranch.lifecycle.rewinding import Rewound
    from anabranch.lifecycle.vouching import Vouched
    from anabranch.model.state import Skipped
    from anabranch.preflight.report import Report
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import NotedConflict
    from anabranch.rules.decided import Decided
    from anabranch.scan.certificate import Certificate
    from anabranch.scan.report import ScanReport
    from anabranch.verify.report import Verification
    from anabranch.view.chosen_tables import Choice
    from anabranch.view.schema_history import TableVersion


class Job(DefinitionsJob):
    """One job. Methods block until they are done and raise subclasses of AnabranchError. Of a job with several targets,
    `on` returns the job as one of them sees it: ask there for what concerns one target."""

    @classmethod
    def from_file(cls, path: str | Path, environment: Mapping[str, str] = os.environ) -> Job:
        """Read a job file, with variables of `environment`. Raises ConfigError with every problem of the file."""
        return cls(load_job(str(path), environment, check_filter), Path(path))

    def run(self, until_caught_up: bool = False, seconds: float | None = None, show: IO[str] | None = None) -> None:
        """Run the whole job: preflight, load if needed, capture and apply together. It ends when it is stopped, has
        caught up (`until_caught_up`), or `seconds` are over. `show`: where people see checks and progress (sys.stderr);
        None: only the log tells of them."""
        with self._named():
            from anabranch.job.supervisor import Supervisor

            Supervisor(self, show).run(until_caught_up=until_caught_up, seconds=seconds)

    def capture(self) -> None:
        """Copy the source's log into the trail, until stopped."""
        with self._named():
            from anabranch.job.parts import run_capture

            run_capture(self)

    def load(
        self,
        table: str | Sequence[str] | None = None,
        recreate: bool = False,
        with_children: bool = False,
        keep: bool = False,
    ) -> None:
        """Copy the tables that are not loaded yet, or one table or some, new or again. `with_children`: also the tables that
        foreign keys change together with them. `keep`: rows that their target tables already have stay."""
        names = [table] if isinstance(table, str) else list(table or ())
        told = ", ".join(names) or None
        with self._named(
            "load", changes=bool(names), table=told, recreate=recreate, with_children=with_children, keep=keep
        ):
            from anabranch.job.parts import run_load

            run_load(self, [*map(TableId.parse, names)], recreate, with_children, keep=keep)

    def vouch_for(self, table: str, place: str | None = None) -> Vouched | None:
        """Let a table stream, without a load, from a place at which its target table has the source's rows: a position of the
        trail, or a place of the source's log; None for the log's end of now. Returns None when it was stopped."""
        with self._named("load", table=table, begins=place or "now"):
            from anabranch.job.parts import run_vouching

            return run_vouching(self, TableId.parse(table), place)

    def apply(self) -> None:
        """Apply the trail to the target, until stopped."""
        with self._named():
            from anabranch.job.parts import run_apply

            run_apply(self)

    def preflight(self, reverse: bool = False, workers: bool = False) -> Report:
        """Check both ends and the rules. `reverse`: also the way back, which `[reverse] enabled` does by itself. `workers`:
        also those of a Spark cluster."""
        with self._named():
            from anabranch.job.preflight import asked_report

            return asked_report(self, reverse, workers)

    def scan(
        self,
        tables: Sequence[str] = (),
        sample: float | None = None,
        seed: int | None = None,
        show: IO[str] | None = None,
    ) -> ScanReport:
        """Try the rows of the source at the target, where none stays: which a load would refuse, which values would change.
        `tables`: patterns on the source's tables, none for all. `sample` and `seed`: as of `verify`. `show`: where people see
        how far it is, if that is a terminal. Raises nothing for what it finds: look at the result. For one target (`on`)."""
        with self._named():
            from anabranch.job.scanning import scan
            from anabranch.verify.wanted import SEEDS, Sample

            drawn = random.randrange(SEEDS) if seed is None else seed
            return scan(self, tuple(tables), None if sample is None else Sample(sample, drawn), show)

    def types_tried(self, values: int = 100, seed: int | None = None, every: bool = False) -> Certificate:
        """Have `values` values drawn at random, and the edges, of each type of the job make the round trip on both servers, of
        which nothing stays; what is seen stands beside what is declared. Raises nothing for a type that fares worse: look at
        the result. `every`: of each type that the source knows edges of, whatever tables there are. For one target (`on`)."""
        with self._named():
            from anabranch.job.certifying import certificate
            from anabranch.verify.wanted import SEEDS

            return certificate(self, values, random.randrange(SEEDS) if seed is None else seed, every)

    def reverse(self) -> Reversed:
        """Return the job file of the way back. Raises PreflightFailed with all that cannot go back."""
        with self._named():
            from anabranch.lifecycle.reversing import reversed_job

            return reversed_job(self)

    def arm(self) -> Armed:
        """Let a job begin whose tables stand at the target already, at the source's present position. May be repeated."""
        with self._named("arm"):
            from anabranch.job.preflight import preflight_report
            from anabranch.lifecycle.arming import arm
            from anabranch.lifecycle.pair_start import note_pairing

            note_pairing(self)
            preflight_report(self).require()
            return arm(self)

    def drill(
        self,
        tables: Sequence[str] = (),
        seconds: float = 60.0,
        tell: Callable[[str], None] = lambda line: None,
        logged: bool = False,
    ) -> DrillReport:
        """Show that the way back would work, beside the running job: a shadow of the source's tables, or of those that one of
        the patterns `tables` fits, is loaded from the target, takes its stream and is compared; then all is removed. `seconds`:
        in which every table may get a change. `tell` is given a line now and then. `logged`: what is written to the shadow may
        stand in the source's log where it cannot be kept out of it. Raises nothing for what it finds: look at the result."""
        with self._named("drill", tables=" ".join(tables)):
            from anabranch.job.drill_child import running
            from anabranch.job.drilling import Drill, Wish

            return Drill(self, type(self).from_file, running, tell).run(Wish(tuple(tables), seconds, admits_log=logged))

    def plan_drill(self, tables: Sequence[str] = (), logged: bool = False) -> DrillPlan:
        """Return what `drill` would make with these arguments, and what it finds before. Makes nothing."""
        with self._named("drill", plan=True):
            from anabranch.job.drill_child import running
            from anabranch.job.drilling import Drill, Wish

            drill = Drill(self, type(self).from_file, running, lambda line: None)
            return drill.plan(Wish(tuple(tables), admits_log=logged))

    def clean_drill(self) -> list[str]:
        """Remove what a drill left that was killed. Returns what was removed."""
        with self._named("drill", clean=True):
            from anabranch.job.drill_child import running
            from anabranch.job.drilling import Drill

            return Drill(self, type(self).from_file, running, lambda line: None).clean()

    def setup(self, execute: bool = False, remove: bool = False) -> list[str]:
        """Return the statements that prepare the source for capture, or that remove this again. Runs them if `execute`.
        The list is empty where nothing has to be done."""
        with self._named("setup", changes=execute, execute=execute, remove=remove):
            from anabranch.job.setting_up import setup

            return setup(self, execute, remove)

    def schema_script(self, table: str | None = None) -> Script:
        """Return the statements that a load into an empty target would run, for all tables or one. Asks the source only."""
        with self._named():
            from anabranch.job.printing import script

            return script(self, TableId.parse(table) if table else None)

    def chosen_tables(self) -> Choice:
        """Return which of the source's tables the rules choose, and what decides about each. Asks the source only."""
        with self._named():
            from anabranch.view.chosen_tables import chosen_tables

            return chosen_tables(self)

    def explain_table(self, table: str) -> Decided:
        """Return which rule decides about a table (`schema.table`). Asks neither end."""
        with self._named():
            from anabranch.rules.decided import decided

            return decided(self.config, TableId.parse(table))

    def export_rules(self) -> str:
        """Return the job's rules as a file of their own, for `import_rules` of another job. Asks neither end."""
        with self._named():
            from anabranch.lifecycle.moving_rules import exported_rules

            return exported_rules(self.config.file or self.path)

    @staticmethod
    def import_rules(
        rules: str | Path, job: str | Path, check: bool = False, offline: bool = False, sections: Sequence[str] = ()
    ) -> ImportedRules:
        """Put rules that were exported, or some of their `sections` ("rules", "tables", "types", "ddl"), in place of those of
        the job file `job`. Returns the differences, and what they mean. `check`: write nothing. `offline`: ask no end."""
        from anabranch.config.rule_text import SECTIONS
        from anabranch.lifecycle.moving_rules import import_rules

        return import_rules(Path(rules), Path(job), check, offline, tuple(sections) or SECTIONS)

    def schema_versions(self, table: str | None = None) -> list[TableVersion]:
        """Return every version of the tables' definitions that the trail has, by table, the oldest first. Asks neither end."""
        with self._named():
            from anabranch.view.schema_history import versions

            return versions(self, TableId.parse(table) if table else None)

    def export_schema_history(self) -> str:
        """Return the trail's schema history as a text to keep elsewhere. Asks neither end; the job may run."""
        with self._named():
            from anabranch.lifecycle.restoring_history import exported_history

            return exported_history(self)

    def import_schema_history(self, file: str | Path | None) -> bool:
        """Put a history back that was exported from this trail, whose own is lost or damaged; None: make it of what the targets
        know. Returns False where it is whole. Raises TrailError or StateError where it is not certain that it is all of it."""
        with self._named("schema", restored=str(file or "of what the targets know")):
            from anabranch.lifecycle.restoring_history import rebuild_history, restore_history

            return restore_history(self, Path(file)) if file is not None else rebuild_history(self)

    def status(self) -> dict[str, Any]:
        """Return the job's state in the shape of `status --json`."""
        with self._named():
            from anabranch.job.status import status
            from anabranch.model.status import as_json

            found: dict[str, Any] = as_json(status(self))
            return found

    def metrics(self) -> str:
        """Return the job's metrics in Prometheus' text form; what depends on an end that is away is left out."""
        with self._named():
            from anabranch.job.measuring import metrics_text

            return metrics_text(self)

    def bundle(self, file: str | Path | None = None, hours: float = 24.0, offline: bool = False) -> Bundle:
        """Write one archive for whoever helps with the job, without secrets and values of rows. `hours`: of the trace;
        `offline`: ask neither end. Raises nothing for what cannot be gathered: look at `left_out`."""
        with self._named():
            from anabranch.job.bundle.archive import bundle

            return bundle(self, Path(file) if file is not None else None, hours, offline)

    def reset_counters(self) -> None:
        """Reset the counters that `status` shows "since the last reset". The job may run meanwhile."""
        with self._named("status", reset_counters=True):
            from anabranch.job.counters import reset

            reset(self)

    def trace(self, since: datetime | None = None, at_target: bool = False) -> list[dict[str, Any]]:
        """Return what happened to the job, the oldest entry first, as its home or a target has it (docs/reference/trace.md)."""
        with self._named():
            from anabranch.job.shipping import entries

            return entries(self, since, at_target)

    def trace_transaction(self, position: str = "", xid: str = "") -> TransactionTrace:
        """Follow one transaction through all stages, by its position, its sequence or its place in the source's log; or by the
        source's own name of it (`xid`, a GTID). Raises ConfigError for one that the trail does not have under such a name."""
        with self._named():
            from anabranch.job.one_transaction import transaction_trace

            return transaction_trace(self, position, xid)

    def record(self, level: str) -> None:
        """Set which lines the trace takes from now on. "info" is the usual level; "debug" adds statements without their
        values, chunks and epochs. Running processes follow within seconds, later ones when they start."""
        with self._named("trace", record=level):
            from anabranch.job.tracing import switch

            switch(self, level)

    def show_log(self, level: str) -> None:
        """Set which lines the job's processes write to their stderr from now on: those of "debug", "info", "warning" or "error"
        and above; "" for what each was told when it started. Running ones follow within seconds, as of `record`."""
        with self._named("trace", log=level or "usual"):
            from anabranch.job.tracing import switch_log

            switch_log(self, level)

    def recorded(self) -> str:
        """Return the level of the lines that the trace takes at present."""
        from anabranch.state.trace import recorded

        return recorded(self.config.home)

    def verify(
        self,
        repair: bool = False,
        by_rows: bool = False,
        tables: Sequence[str] = (),
        budget: float | None = None,
        since: str = "",
        show: IO[str] | None = None,
        sample: float | None = None,
        seed: int | None = None,
        max_pause: float = 0.0,
        resume: bool = False,
    ) -> Verification:
        """Compare every loaded table, or those that one of the patterns `tables` fits. With `repair`, put right what differs
        and compare again. `by_rows`: read all rows, even where servers can sum up their own. `budget`: seconds after which
        what is not decided is pending. `since`: only rows that changed behind this position of the trail, beside a running
        job. `show`: where people see how far it is, if that is a terminal. `sample`: the share of each table that is compared,
        above 0, at most 1, by ranges of keys which `seed` draws (None: another number each time). `max_pause`:
        seconds for which apply may be held, so that both ends are read at one position. `resume`: leave out tables that the
        verification before found equal, if it did not end. Raises nothing for differences: look at the result."""
        with self._named("verify", changes=repair, repair=repair, by_rows=by_rows, tables=" ".join(tables)):
            from anabranch.job.parts import run_verify
            from anabranch.verify.wanted import SEEDS, Sample, Wanted

            seconds = math.inf if budget is None else budget
            part = None if sample is None else Sample(sample, random.randrange(SEEDS) if seed is None else seed)
            return run_verify(
                self, Wanted(repair, by_rows, tuple(tables), seconds, since, show, part, max_pause, resume)
            )

    def answer_questions(self) -> int:
        """Answer those who verify where the trail of this job, which captures into it, is applied, until nobody asks any
        more; return how many answers there were. `run` does so by itself."""
        with self._named("verify"):
            from anabranch.job.parts import run_answers

            return run_answers(self)

    def keep_verifying(
        self,
        tables: Sequence[str] = (),
        by_rows: bool = False,
        share: float = 0.1,
        tell: Callable[[str], None] = lambda line: None,
        sample: float | None = None,
    ) -> None:
        """Verify beside the running job until stopped by SIGINT or SIGTERM, a table at a time, the one first that was looked at
        longest ago. Reading takes at most `share` of the time. The last result of each table stands in `status`; `tell` is
        given a line for each. `sample`: the share of a table that is compared at each of its turns, by other ranges each time.
        Of a job with several targets, for one (`on`)."""
        with self._named():
            from anabranch.job.parts import run_watch

            run_watch(self, tables, by_rows, share, tell, sample)

    def cutover(
        self,
        verify: bool | str = False,
        allow_parked: bool = False,
        wait: float = 60.0,
        tell: Callable[[str], None] = lambda line: None,
    ) -> CutoverReport:
        """Cut over, or go on with it: fence the source, bring the target to the fence, flip, watch the source for the grace
        time, while the job runs. `verify`: at the fence, True all rows, "since-watch" what changed since `verify --watch` found
        tables equal. `wait`: seconds for older transactions, and for the target. An error before the flip opens the source."""
        with self._named("cutover", verify=verify, allow_parked=allow_parked):
            from anabranch.job.cutting_over import cut_over

            return cut_over(self, verify, allow_parked, wait, tell)

    def plan_cutover(self, allow_parked: bool = False, verify: bool | str = False) -> Report:
        """Return what keeps a cut-over from being begun. Changes nothing."""
        with self._named():
            from anabranch.job.cutting_over import plan

            return plan(self, allow_parked, 0.0, None, verify)

    def abort_cutover(
        self, flip_undone: bool = False, tell: Callable[[str], None] = lambda line: None
    ) -> CutoverReport:
        """Take a cut-over back that has not flipped: the source takes writes again, the target follows. `flip_undone`: the
        flip command was started, and somebody has seen that it did nothing or has been undone. Raises StateError."""
        with self._named("cutover", abort=True, flip_undone=flip_undone):
            from anabranch.job.cutting_over import abort

            return abort(self, flip_undone, tell)

    def cutover_status(self, looks: bool = False) -> CutoverReport:
        """Return how far the latest cut-over is, and who writes now. `looks`: and what does not act at the target."""
        with self._named():
            from anabranch.job.cutting_over import told

            return told(self, looks)

    def failback(
        self,
        verify: bool | str = False,
        allow_parked: bool = False,
        wait: float = 60.0,
        tell: Callable[[str], None] = lambda line: None,
    ) -> CutoverReport:
        """Return to the source by the job's way back, which has to run: as `cutover`, the other way. The job goes on behind."""
        with self._named("failback", verify=verify, allow_parked=allow_parked):
            from anabranch.job.cutting_over import cut_over, turned

            back, other = turned(self)
            return cut_over(back, verify, allow_parked, wait, tell, other)

    def plan_failback(self, allow_parked: bool = False, verify: bool | str = False) -> Report:
        """Return what keeps a return from being begun. Changes nothing."""
        with self._named():
            from anabranch.job.cutting_over import plan, turned

            back, other = turned(self)
            return plan(back, allow_parked, 0.0, other, verify)

    def abort_failback(
        self, flip_undone: bool = False, tell: Callable[[str], None] = lambda line: None
    ) -> CutoverReport:
        """Take a return back that has not flipped, as `abort_cutover`: the target takes writes again."""
        with self._named("failback", abort=True, flip_undone=flip_undone):
            from anabranch.job.cutting_over import abort, turned

            back, other = turned(self)
            return abort(back, flip_undone, tell, other)

    def failback_status(self) -> CutoverReport:
        """Return how far the latest return is, and who writes now."""
        with self._named():
            from anabranch.job.cutting_over import told, turned

            return told(turned(self)[0])

    def conflicts(self, table: str | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        """Return settled conflicts in their order, of one table or of all, numbered above `after`, at most `limit` (0: all)."""
        with self._named():
            from anabranch.job.conflicts import settled_conflicts

            return settled_conflicts(self, TableId.parse(table) if table else None, after, limit)

    def forget_conflicts(self, upto: int) -> int:
        """Remove the noted conflicts up to a number. Returns how many there were."""
        with self._named("conflicts", forget=upto):
            from anabranch.job.conflicts import forget_conflicts

            return forget_conflicts(self, upto)

    def parked(self, table: str | None = None) -> list[ParkedTable]:
        """Return the parked tables, all or one."""
        with self._named():
            from anabranch.lifecycle.parking import parked_tables

            return parked_tables(self, TableId.parse(table) if table else None)

    def resume(self, table: str | None = None) -> list[TableId]:
        """Let tables that apply has parked continue where they stopped: all, or one with those parked together with it."""
        with self._named("parked", resume=table or "all"):
            from anabranch.lifecycle.parking import resume

            return resume(self, TableId.parse(table) if table else None)

    def give_up(self, table: str) -> int:
        """Stop holding the trail for a parked table: only a load brings it back then. Returns how many bytes were held."""
        with self._named("parked", give_up=table):
            from anabranch.lifecycle.parking import give_up

            return give_up(self, TableId.parse(table))

    def set_aside(self, table: str | None = None, discarded: bool = False) -> list[AsideChange]:
        """Return the row changes that are set aside (`discarded`: that were), in their order, of one source table or all."""
        with self._named():
            from anabranch.lifecycle.asides import set_aside

            return set_aside(self, TableId.parse(table) if table else None, discarded)

    def settle_aside(
        self, table: str, wish: str, key: Mapping[str, str] | None = None, number: int | None = None
    ) -> list[AsideChange]:
        """Ask apply to "release" or to "discard" rows of a table that are set aside: the row with this key, the row
        that change `number` belongs to, or all. Returns the changes that this concerns."""
        with self._named("parked", wish=wish, table=table, number=number):
            from anabranch.lifecycle.asides import ask

            return ask(self, TableId.parse(table), wish, key or {}, number)

    def skip(self, position: str, execute: bool = False) -> Skipped:
        """Return what a source transaction contains. With `execute`, leave it out from the next start of apply on."""
        with self._named("skip", changes=execute, add=position):
            from anabranch.lifecycle.skipping import skip

            return skip(self, position, execute)

    def skipped(self) -> list[Skipped]:
        """Return the transactions that are left out."""
        with self._named():
            from anabranch.lifecycle.skipping import skipped

            return skipped(self)

    def unskip(self, position: str) -> int:
        """Take back a `skip`, as long as apply has not reached the transaction. Returns its sequence."""
        with self._named("skip", remove=position):
            from anabranch.lifecycle.skipping import unskip

            return unskip(self, position)

    def rewind(self, position: str, execute: bool = False) -> Rewound:
        """Return what going back to an earlier place of the trail would mean. With `execute`, go back."""
        with self._named("rewind", changes=execute, position=position, execute=execute):
            from anabranch.lifecycle.rewinding import rewind

            return rewind(self, position, execute)

    def plan(self, execute: bool = False) -> Plan | None:
        """Return how the job file differs from the job as it last ran; None if it has never run. `execute`: take it over."""
        with self._named("plan", changes=execute, execute=execute):
            from anabranch.lifecycle.planning import plan

            return plan(self, execute)

    def targets_left_out(self, execute: bool = False) -> list[str]:
        """Return targets that the job file no longer names while the trail is held for them. `execute`: stop holding it."""
        with self._named():
            from anabranch.lifecycle.planning import left_out

            return left_out(self, execute)

    def prune(
        self,
        hours: float | None = None,
        megabytes: int | None = None,
        segments: int | None = None,
        execute: bool = False,
    ) -> Pruned:
        """Return the trail segments that every reader has passed and that no limit keeps. The limits are the arguments,
        or the job's own where None. With `execute`, remove these segments."""
        with self._named("trail prune", changes=execute, hours=hours, megabytes=megabytes, segments=segments):
            from anabranch.job.pruning import prune

            return prune(self, hours, megabytes, segments, execute)

    def prune_by_force(self, upto: int) -> tuple[list[str], list[str]]:
        """Remove trail segments that end at `upto` or before, whoever needs them. Returns them, and readers left behind."""
        with self._named("trail prune", force=True, upto=upto):
            from anabranch.job.pruning import prune_by_force

            return prune_by_force(self, upto)

    def drop(self, execute: bool = False, lifts_fence: bool | None = None) -> Leftovers:
        """Return what the job left behind at source, target and home. With `execute`, remove it. `lifts_fence`: whether the
        source of a job that was cut over takes writes again, or stays shut. Raises nothing for an end that is away, look at
        the result; StateError where a fence stands and nothing is said of it, SourceError where it cannot be lifted."""
        with self._named():
            from anabranch.job.drop import drop

            return drop(self, execute, lifts_fence=lifts_fence)
