"""`ddl plan --from-log`: what would become of the statements of the trail that a target has not come to. Runs nothing.

What does not live here: what becomes of a single one (`ddl_plan.py`), what became of others (`ddl_changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anabranch.apply.decided import BEHIND
from anabranch.apply.feed import altering_at
from anabranch.errors import ConfigError
from anabranch.job.ddl_plan import DdlPlan, of_steps, steps_of
from anabranch.model.column_changes import APPLY, ASK, PARK, STOP, ColumnChange, leaving_out
from anabranch.model.ddl_changes import Outcome
from anabranch.model.table_facts import KEEP_ROWS
from anabranch.model.table_life import Life
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.lifecycle.keeping_rows import Kept
    from anabranch.model.column_changes import TableActions
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.rows.chunk import Barrier
    from anabranch.trail.history import Entry
    from anabranch.view.job_view import JobView

NOT_YET = "nothing of this job has been loaded at the target yet: a load brings the definitions of then"
LATER = "; how the target takes it is known once the changes before it are made"
PARKED_BY_THEN = "the table is parked by then"
ENDS = (Outcome.PARKED, Outcome.DROPPED, Outcome.KEPT, Outcome.RENAMED)
WHOLE = {ColumnChange.CREATE: Outcome.CREATED, ColumnChange.RENAME_TABLE: Outcome.RENAMED}


def plan_backlog(job: JobView) -> list[DdlPlan]:
    """Return a plan for each of these statements, in the order of the log. Raises ConfigError where nothing is loaded."""
    with store_of(job) as store:
        checkpoint = store.jobs.checkpoint(job.config.name) if store.exists() else None
        states = store.states.tables(job.config.name) if checkpoint is not None else {}
    if checkpoint is None or not exists(job.trail):
        raise ConfigError(NOT_YET, job=job.config.name, hint="anabranch run JOB, or anabranch load JOB")
    with TrailReader(job.trail, name="ddl plan") as trail:
        return list(_Backlog(job, trail, checkpoint.position.sequence, states).plans())


def plan_keeping(job: JobView, kept: Kept) -> list[DdlPlan]:
    """Return a plan for each change that these tables come by if they keep their rows, in the order of the log."""
    with store_of(job) as store:
        checkpoint = store.jobs.checkpoint(job.config.name)
        states = store.states.tables(job.config.name)
    if checkpoint is None or kept.after is None:
        return []
    for one in kept.states:
        facts = replace(one.facts, asked=kept.after + 1, decided=(KEEP_ROWS, ""))
        states[one.source] = replace(one, state=Life.LOADING, facts=facts)
    with TrailReader(job.trail, name="ddl plan") as trail:
        found = _Backlog(job, trail, checkpoint.position.sequence, states).plans()
        return [one for one in found if one.table in kept.tables]


@dataclass
class _Backlog:
    """The way in front of a target: from its place on, with the states of its tables."""

    job: JobView
    trail: TrailReader
    at: int
    states: Mapping[TableId, TableState]
    planned: dict[TableId, DdlPlan] = field(default_factory=dict)  # the last one of a table

    def plans(self) -> Iterator[DdlPlan]:
        history, end = self.trail.history, self.trail.end().position.sequence
        asked = [state.facts.asked for state in self.states.values() if state.facts.asked is not None]
        first = min([self.at, *(sequence - 1 for sequence in asked)])
        parked: dict[int, list[Entry]] = {}
        for entry in history.entries:
            if entry.kind == "park" and self.at < entry.sequence <= end and entry.table in self.states:
                parked.setdefault(entry.sequence, []).append(entry)
        for sequence in sorted({*history.altered_between(first, end), *parked}):
            is_altered = sequence in history.altered_between(sequence - 1, sequence)
            for barrier in altering_at(self.trail, sequence) if is_altered else ():
                if self._is_ahead(barrier, sequence):
                    yield self._kept(replace(self._plan(barrier, sequence), sequence=sequence))
            for entry in parked.get(sequence, ()):
                if (one := self._parked(entry)) is not None:
                    yield self._kept(replace(one, sequence=sequence))

    def _kept(self, one: DdlPlan) -> DdlPlan:
        self.planned[one.table] = one
        return one

    def _is_ahead(self, barrier: Barrier, sequence: int) -> bool:
        """Return whether this target has to come to it. A table that was loaded behind it has the columns."""
        state = self.states.get(barrier.table)
        if state is None or state.schema is None:
            return sequence > self.at
        asked = state.facts.asked
        is_before = sequence <= self.at and (asked is None or sequence < asked)
        return not is_before and bool(barrier.schema and state.schema.version < barrier.schema.version)

    def _then(self, table: TableId) -> TableSchema | None:
        """Return the definition by which the target has the table then."""
        if (before := self.planned.get(table)) is not None:
            return before.after or before.then
        state = self.states.get(table)
        return state.schema if state is not None else None

    def _plan(self, barrier: Barrier, sequence: int) -> DdlPlan:
        table, after, untold = barrier.table, barrier.schema, barrier.untold
        assert after is not None
        actions, state = self.job.config.column_actions(table), self.states.get(table)
        then, former = self._then(table) or after, self.planned.get(table)
        known = (barrier.statement, table, then, True, after)
        if untold.created:
            return DdlPlan(*known, *_whole(ColumnChange.CREATE, actions))
        if state is None:
            return DdlPlan(*known, Outcome.PASSED, "the table is not loaded yet")
        if former is not None and former.outcome in ENDS:
            return DdlPlan(*known, Outcome.PASSED, PARKED_BY_THEN)
        if former is not None and former.outcome is Outcome.WAITING:
            return DdlPlan(*known, Outcome.WAITING, BEHIND)
        if state.is_parked and state.facts.asked is None:
            return DdlPlan(*known, Outcome.PASSED, f"the table is parked: {state.reason}")
        if untold.dropped:
            kind = ColumnChange.RENAME_TABLE if untold.moved else ColumnChange.DROP_TABLE
            return DdlPlan(*known, *_whole(kind, actions))
        if decided := state.facts.decision(sequence):
            actions = actions.answered(decided[0])
        after = leaving_out(then, after, untold, actions)
        known = (barrier.statement, table, then, True, after)
        found = of_steps(
            self.job, known, lambda: steps_of(self.job, then, after, untold, actions), actions, former is None
        )
        return found if former is None else replace(found, why=(found.why + LATER).removeprefix("; "))

    def _parked(self, entry: Entry) -> DdlPlan | None:
        """Return the plan of a table that capture has parked; None where the target has none of it."""
        assert entry.table is not None
        then, state = self._then(entry.table), self.states[entry.table]
        if then is None or self.trail.history.joined_after(entry.table, entry.sequence):
            return None
        known = (entry.statement, entry.table, then, True, None)
        if state.is_parked:
            return DdlPlan(*known, Outcome.PASSED, f"the table is parked: {state.reason}")
        return DdlPlan(*known, Outcome.PARKED, entry.reason)


def _whole(kind: ColumnChange, actions: TableActions) -> tuple[Outcome, str]:
    """Return what becomes of a whole table, as far as the job file tells, and its line."""
    action = actions.of(kind)
    told = {PARK: Outcome.PARKED, STOP: Outcome.STOPPED, ASK: Outcome.WAITING}
    if kind is ColumnChange.DROP_TABLE and action == APPLY:
        return Outcome.DROPPED, actions.line(kind)
    return told.get(action, WHOLE.get(kind, Outcome.KEPT)), actions.line(kind)
