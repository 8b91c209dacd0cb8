"""`ddl plan` of a statement that drops or renames a table: what the job file and the table's state say of it, by what apply
asks as well. What the target refuses for what depends on its table shows only when the statement is run.

What does not live here: statements that alter a table (`ddl_plan.py`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from anabranch.apply.dropping import kept_suffix, not_ours_alone, tied
from anabranch.errors import ConfigError
from anabranch.model.column_changes import APPLY, ASK, KEEP, PARK, RENAME, STOP, ColumnChange
from anabranch.model.ddl_changes import Outcome
from anabranch.model.ids import TableId
from anabranch.rows.log_items import StatementFacts, StatementKind
from anabranch.view.definitions import history
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.model.column_changes import TableActions
    from anabranch.model.schema import TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

NOT_LOADED = "the table is not loaded yet"
CAME_OR_WENT = "rows may come with the partition, of which the log has none"


def gone(job: JobView, facts: StatementFacts, then: TableSchema) -> tuple[Outcome, str]:
    """Return what would become of a table that a statement drops or renames, and why. Raises ConfigError for a statement that
    names several."""
    is_rename = facts.kind == StatementKind.RENAME
    if len(facts.renames if is_rename else facts.tables) != 1:
        raise ConfigError("this is not about one table alone", job=job.config.name, hint="ask for one table at a time")
    with store_of(job) as store:
        is_there, name = store.exists(), job.config.name
        states = store.states.tables(name) if is_there else {}
        others = store.states.others(name) if is_there else frozenset()
    state, actions = states.get(then.id), job.config.column_actions(then.id)
    if state is None or state.is_parked:
        return Outcome.PASSED, NOT_LOADED if state is None else f"the table is parked: {state.reason}"
    kinds = [ColumnChange.RENAME_TABLE] if is_rename else []
    to = TableId(facts.renames[0][1].schema or then.id.schema, facts.renames[0][1].name) if is_rename else None
    goes_on = to is not None and job.rules.includes(to)
    for kind in kinds if goes_on else [*kinds, ColumnChange.DROP_TABLE]:
        if actions.of(kind) in (PARK, STOP):
            return Outcome.STOPPED if actions.of(kind) == STOP else Outcome.PARKED, actions.line(kind)
    if state.facts.set_aside:
        return Outcome.PARKED, f"{state.facts.set_aside} changes of it are set aside"
    if to is not None and goes_on:
        return _renamed(job, then, to, actions)
    return _dropped(job, actions.of(ColumnChange.DROP_TABLE), states, others, state)


def parted(job: JobView, facts: StatementFacts, then: TableSchema) -> tuple[Outcome, str]:
    """Return what would become of a table of which rows go, or come, with a partition, and why."""
    with store_of(job) as store:
        state = store.states.table(job.config.name, then.id) if store.exists() else None
    if state is None or state.is_parked:
        return Outcome.PASSED, NOT_LOADED if state is None else f"the table is parked: {state.reason}"
    if not facts.rows_go:
        return Outcome.PARKED, CAME_OR_WENT
    actions = job.config.column_actions(then.id)
    told = {PARK: Outcome.PARKED, STOP: Outcome.STOPPED, ASK: Outcome.WAITING}
    kind = ColumnChange.PARTITIONS
    return told.get(actions.of(kind), Outcome.IGNORED), actions.line(kind)


def _renamed(job: JobView, then: TableSchema, to: TableId, actions: TableActions) -> tuple[Outcome, str]:
    in_force, parked = history(job)
    if to in in_force or to in parked:
        return Outcome.PARKED, f"the job knows a table {to} already"
    related = [s for s in in_force.values() if any(then.id in (s.id, key.parent) for key in s.foreign_keys)]
    if related:
        return Outcome.PARKED, f"foreign keys connect {then.id} with other tables"
    if actions.of(ColumnChange.RENAME_TABLE) == ASK:
        return Outcome.WAITING, actions.line(ColumnChange.RENAME_TABLE)
    return Outcome.RENAMED, f"it is {job.rules.target_of(to)} at the target then, where no table has this name"


def _dropped(
    job: JobView,
    action: str,
    states: Mapping[TableId, TableState],
    others: Collection[TableId],
    state: TableState,
) -> tuple[Outcome, str]:
    if why := tied(states, state.source, action):
        return Outcome.PARKED, why
    if action == KEEP:
        return Outcome.KEPT, f"{state.target} stays as it is, and is not replicated any more"
    if why := not_ours_alone(job.rules, states, others, state):
        return Outcome.PARKED, why
    if action == ASK:
        return Outcome.WAITING, job.config.column_actions(state.source).line(ColumnChange.DROP_TABLE)
    if action == RENAME:
        return Outcome.KEPT, f"{state.target} is called {state.target.name}{kept_suffix(time.time_ns() // 1000)} then"
    assert action == APPLY
    return Outcome.DROPPED, f"{state.target} is dropped, where nothing there depends on it"
