"""`ddl plan`: what would become of a statement that alters, drops or renames a table of the source, at each target. Runs
nothing.

The definition behind it is made of the statement alone, through the type map that reads the catalogue; what is decided, and the
statements of the target, are by what apply does when the log has the statement.
What does not live here: what became of statements that were run (`ddl_changes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.apply import decided
from anabranch.apply.column_steps import NotFollowed, Stops, altered_table, asks
from anabranch.capture.altered import UNTOLD_BY_ROWS, without
from anabranch.contracts import AlteringDialect, Conflict, ForeseeingCatalog, ForeseeingDialect, PlansAltering
from anabranch.errors import ConfigError, TargetError, TargetUnavailable
from anabranch.job.ddl_plan_gone import NOT_LOADED, gone, parted
from anabranch.model.column_changes import BESIDE_COLUMNS, IGNORED, Altered, ColumnChange, leaving_out
from anabranch.model.datatype import Fidelity, Fit
from anabranch.model.ddl_changes import Outcome
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.log_items import StatementKind
from anabranch.view.definitions import history
from anabranch.view.opened import catalog_of, source_of, store_of, target_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.model.altering_plan import AlteringPlan
    from anabranch.model.column_changes import TableActions, Untold
    from anabranch.model.ids import TableId
    from anabranch.model.schema import Column, TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

Known = tuple[str, "TableId", "TableSchema", bool, "TableSchema | None"]  # the first fields of a DdlPlan
UNKNOWN = "it does something else than add columns whose values in rows that are there are certain"
NOT_TOLD = "no row tells of it, and it is not followed by notes: the target's table stays as it is"
AS_IT_IS = "columns, keys and values stay as they are: so does the target's table"
GOES = (StatementKind.DROP, StatementKind.RENAME)
WORST = {Fidelity.EXACT: 0, Fidelity.WIDENED: 0, Fidelity.LOSSY: 4, Fidelity.REFUSED: 3}  # -> exit code
PARKS = 3


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column that comes: as the source has it, its name at the target, and how the target stores it."""

    column: Column
    target: str
    fit: Fit


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """The outcome that a statement would have at a target. `then`, `after`: the definitions in force and behind the statement,
    None where that is not certain; `from_trail`: `then` is the trail's, else the source's catalogue has it. `why`: of a table
    that would be parked or passed. `altering` is set where the target's table would be altered. `sequence`: of the transaction
    in the trail that has the statement, None where nobody has run it."""

    statement: str
    table: TableId
    then: TableSchema
    from_trail: bool
    after: TableSchema | None
    outcome: Outcome
    why: str = ""
    columns: tuple[PlannedColumn, ...] = ()
    altering: AlteringPlan | None = None
    sequence: int | None = None

    @property
    def exit_code(self) -> int:
        """0: as at the source; 4: carried out, and some values would be others at the target; 3: the table would be
        parked or wait for a decision, or the job would stop."""
        if self.outcome in (Outcome.PARKED, Outcome.STOPPED, Outcome.WAITING):
            return PARKS
        return min((code for one in self.columns if (code := WORST[one.fit.fidelity])), default=0)


class _Parks(Exception):
    """The table would be parked; the text says why."""


class _StopsJob(Exception):
    """The job would stop there; the text is the line of the job file."""


def plan(job: JobView, statement: str) -> DdlPlan:
    """Return what would become of the statement at this target. Raises ConfigError for a statement that is not one of ALTER,
    DROP or RENAME TABLE, for a table that the job does not have, and for a source whose statements are not read."""
    source = source_of(job)
    dialect = source.dialect
    if not isinstance(dialect, ForeseeingDialect) or not isinstance(dialect, AlteringDialect):
        with catalog_of(source) as catalog:
            if isinstance(catalog, ForeseeingCatalog):
                return _by_rows(job, catalog, statement)
        raise ConfigError("the log of this source has no statements that could be planned", job=job.config.name)
    facts = dialect.facts(statement, "")
    if facts.kind in GOES and not facts.makes_anew:
        then, from_trail = _in_force(job, facts.tables[0])
        outcome, why = gone(job, facts, then)
        return DdlPlan(dialect.shown(statement), then.id, then, from_trail, None, outcome, why)
    if facts.kind is StatementKind.PARTITION:
        then, from_trail = _in_force(job, facts.tables[0])
        outcome, why = parted(job, facts, then)
        return DdlPlan(dialect.shown(statement), then.id, then, from_trail, None, outcome, why)
    if facts.kind not in (StatementKind.COLUMNS, StatementKind.ALTER) or len(facts.tables) != 1:
        hint = 'for example "ALTER TABLE shop.orders ADD COLUMN note TEXT"'
        raise ConfigError("this is not an ALTER TABLE of one table", job=job.config.name, hint=hint)
    then, from_trail = _in_force(job, facts.tables[0])
    foreseen = dialect.foreseen(statement, then.id.schema, then)
    altered = dialect.altered(statement, then.id.schema, then, foreseen) if foreseen else None
    shown, after = dialect.shown(statement), altered.schema if altered else None
    known = (shown, then.id, then, from_trail, after)
    state = _state(job, then.id)
    if passed := _passed(state):
        return DdlPlan(*known, Outcome.PASSED, passed)
    then = then.leaving_out(state.facts.left_out if state else ())
    actions = job.config.column_actions(then.id)
    beside = sorted(altered.kinds & BESIDE_COLUMNS) if altered else [ColumnChange.INDEXES] * facts.indexes
    if facts.kind is StatementKind.ALTER and actions.followed.isdisjoint(beside):
        if not facts.beside:
            return DdlPlan(*known, Outcome.PASSED, AS_IT_IS)
        said = [*map(actions.line, beside), f"{decided.AS_IT_IS}: {', '.join(facts.beside)}"]
        return DdlPlan(*known, Outcome.IGNORED, "; ".join(said))
    return of_steps(job, known, lambda: _steps(job, then, altered), actions)


def _by_rows(job: JobView, catalog: ForeseeingCatalog, statement: str) -> DdlPlan:
    """Return what would become of a statement of which a log tells by rows and by notes. Raises ConfigError."""
    named = catalog.named(statement)
    if named is None:
        hint = 'for example "ALTER TABLE shop.orders ADD COLUMN note text"'
        raise ConfigError("this is not an ALTER TABLE of one table", job=job.config.name, hint=hint)
    then, from_trail = _in_force(job, named[0])
    found = catalog.foreseen(statement, then)
    altered = (
        without(then, found, UNTOLD_BY_ROWS - job.config.followed_everywhere) if isinstance(found, Altered) else None
    )
    known = (named[1], then.id, then, from_trail, altered.schema if altered else None)
    state = _state(job, then.id)
    if passed := _passed(state):
        return DdlPlan(*known, Outcome.PASSED, passed)
    if isinstance(found, str):
        return DdlPlan(*known, Outcome.PARKED, found)
    if altered is None or not altered.kinds:
        return DdlPlan(*known, Outcome.PASSED, NOT_TOLD if altered is not None else AS_IT_IS)
    then = then.leaving_out(state.facts.left_out if state else ())
    return of_steps(job, known, lambda: _steps(job, then, altered), job.config.column_actions(then.id))


def of_steps(
    job: JobView, known: Known, made: Callable[[], AlteredTable], actions: TableActions, stands: bool = True
) -> DdlPlan:
    """Return what would become of steps at this target. `known`: what is known of the statement; `made`: makes the steps, and
    may raise what a plan is about; `stands`: the target's table is as it is before them."""
    try:
        steps = made()
        if not stands:
            return DdlPlan(*known, *_asked(steps, actions), tuple(_columns(job, steps)))
        with closing(target_of(job).tables(value_rules(job))) as tables:
            if steps.steps and not isinstance(tables, PlansAltering):
                raise _Parks("this target's tables are not altered")
            is_any = not steps.does_nothing
            altering = tables.plan_altering(steps) if is_any and isinstance(tables, PlansAltering) else None
    except TargetUnavailable:
        raise
    except _StopsJob as line:
        return DdlPlan(*known, Outcome.STOPPED, str(line))
    except _Parks as parks:
        return DdlPlan(*known, Outcome.PARKED, str(parks))
    except (Conflict, TargetError) as refusal:
        why = refusal.what if isinstance(refusal, Conflict) else refusal.message
        return DdlPlan(*known, Outcome.PARKED, why)
    return DdlPlan(*known, *_asked(steps, actions), tuple(_columns(job, steps)), altering)


def _asked(steps: AlteredTable, actions: TableActions) -> tuple[Outcome, str]:
    if asked := asks(steps, actions):
        return Outcome.WAITING, asked
    if ColumnChange.PARTITIONS in steps.beside:
        return Outcome.IGNORED, actions.line(ColumnChange.PARTITIONS)
    return Outcome.ALTERED, f"{IGNORED}: {', '.join(steps.ignored)}" if steps.ignored else ""


def _in_force(job: JobView, named: TableId) -> tuple[TableSchema, bool]:
    """Return the table's definition that the trail has in force, else the source's own. A table that is named without its
    schema is the only one of that name. Raises ConfigError."""
    known, parked = history(job)
    from_trail = bool(known or parked)
    if not from_trail:
        with catalog_of(source_of(job)) as catalog:
            known = catalog.tables(lambda table: table.name == named.name and job.rules.includes(table))
    found = [table for table in {*known, *parked} if table == named or (not named.schema and table.name == named.name)]
    if len(found) > 1:
        places = ", ".join(map(str, sorted(found)))
        raise ConfigError(f"{named.name} is one of {places}", job=job.config.name, hint="name it with its schema")
    if not found or not job.rules.includes(found[0]):
        wanted = found[0] if found else named
        if wanted.schema and not job.rules.includes(wanted):
            raise job.rules.not_replicated(wanted)
        raise ConfigError(
            f"the job has no table {wanted.name}", job=job.config.name, hint="anabranch schema ls JOB lists them"
        )
    if found[0] not in known:
        raise ConfigError(f"{found[0]} is parked: {parked[found[0]]}", job=job.config.name)
    return known[found[0]], from_trail


def _state(job: JobView, table: TableId) -> TableState | None:
    with store_of(job) as store:
        return store.states.table(job.config.name, table) if store.exists() else None


def _passed(state: TableState | None) -> str:
    """Say why nothing would be done at this target: a load brings the definition."""
    if state is None:
        return NOT_LOADED
    return f"the table is parked: {state.reason}" if state.is_parked else ""


def _steps(job: JobView, then: TableSchema, altered: Altered | None) -> AlteredTable:
    """Return what apply would make of it. Raises _Parks."""
    if altered is None:
        raise _Parks(UNKNOWN)
    actions = job.config.column_actions(then.id)
    if left := sorted(altered.kinds - actions.followed - BESIDE_COLUMNS):
        raise _Parks(actions.line(left[0]))
    return steps_of(job, then, altered.schema, altered.untold, actions)


def steps_of(
    job: JobView, then: TableSchema, after: TableSchema, untold: Untold, actions: TableActions
) -> AlteredTable:
    """Return what apply makes of two definitions, the second one of which follows the first. Raises what `of_steps` knows."""
    try:
        after = leaving_out(then, after, untold, actions)
        tables = [(schema, job.rules.target_table(schema)) for schema in (then, after)]
        job.rules.where(after)
        job.rules.on_conflict(after)
        return altered_table(tables[0], tables[1], untold, actions, lambda type: job.types.fit(type, value_rules(job)))
    except ConfigError as error:
        raise _Parks(error.message) from error
    except Stops as line:
        raise _StopsJob(str(line)) from None
    except NotFollowed as why:
        raise _Parks(str(why)) from None


def _columns(job: JobView, altered: AlteredTable) -> list[PlannedColumn]:
    found = []
    for step in altered.steps:
        if isinstance(step, ColumnAdded):
            name = altered.target(step.name)
            fit = job.types.fit(altered.table.type_of(name), value_rules(job))
            found.append(PlannedColumn(altered.schema.column(step.name), name, fit))
    return found
