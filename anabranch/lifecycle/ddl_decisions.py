"""Decisions about changes of definitions for which the job file asks: a table that waits in front of one goes on, with the
change or without it.

What does not live here: waiting, and carrying it out (`apply/altering.py`), the notes of changes (`job/ddl_changes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.apply.decided import process
from anabranch.apply.life.park import together
from anabranch.errors import ConfigError
from anabranch.failpoints import reach
from anabranch.lifecycle import replacing
from anabranch.lifecycle.parking import without_the_rest
from anabranch.model.column_changes import (
    APPLY,
    ASK,
    DECISIONS,
    IGNORES,
    REPLACE,
    SKIP,
    Untold,
    kinds_between,
    leaving_out,
)
from anabranch.model.ddl_changes import Outcome
from anabranch.model.table_life import decide as decided
from anabranch.trail import requests, retention
from anabranch.trail.reader import TrailReader
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.contracts import TargetStore
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

LS = "anabranch ddl ls JOB lists them"
RELOAD = "load the table again: anabranch load JOB --table {} --recreate"


def decide(job: JobView, number: int, decision: str, statements: Sequence[str] = ()) -> list[TableId]:
    """Let the table that waits in front of change `number` go on, with those that wait with it; apply does it, now or when it
    starts. `decision`: APPLY, SKIP or REPLACE, where `statements` are run at the target before its table is looked at. Returns
    these tables. Raises ConfigError for a change in front of which nothing waits, and for one that cannot be decided so."""
    assert decision in DECISIONS, decision
    name = job.config.name
    with store_of(job) as store:
        found = store.journal.ddl_changes(name) if store.exists() else []
        change = next((one for one in found if one.number == number), None)
        if change is None:
            raise ConfigError(f"there is no change {number}", job=name, hint=LS)
        states = store.states.tables(name)
        state = states.get(change.source)
        if state is None or not state.is_asked or state.facts.asked != change.sequence:
            raise ConfigError(f"nothing waits in front of change {number}{_instead(change)}", job=name, hint=LS)
        group = together(state, states)
        _refuse_lost(job, change, group, states)
        if decision == SKIP:
            _refuse_skip(job, change)
        if decision == APPLY:
            _refuse_approve(job, change)
        if decision == REPLACE:
            behind = _behind(job, change, state)
            replacing.run(job, statements)
            reach("ddl.replaced")
            replacing.refuse_unlike(job, behind)
        group.sort(key=lambda one: one.facts.asked is not None)
        _save(job, store, group, decision, [process(), *statements])
    return [one.source for one in group]


def _save(job: JobView, store: TargetStore, group: list[TableState], decision: str, by: Sequence[str]) -> None:
    """Let the tables go on, in this order. The one that is asked for is the last: until it goes on the others wait for it, and
    the decision can be made again by whoever finds them so."""
    for one in group:
        assert one.facts.resumes is not None, "it waits at a place"
        retention.hold(job.trail, job.names.table(one.source), one.facts.resumes)
        if one.is_parked:
            store.verifications.forget_verified(job.config.name, one.source)
            store.states.save_table(job.config.name, decided(one, decision, by), one)
            reach("ddl.decided")


def _instead(change: DdlChange) -> str:
    if change.outcome is Outcome.WAITING:
        return f": {change.why}" if change.why else ""
    return f", which is {change.outcome}"


def _refuse_lost(
    job: JobView, change: DdlChange, group: list[TableState], states: Mapping[TableId, TableState]
) -> None:
    """Raise ConfigError where the trail does not lead on from their place, or not for all that foreign keys connect."""
    name = job.config.name
    for table in without_the_rest(group, states):
        why = "one that foreign keys connect it with was loaded again, or parked for another reason"
        told = f"{table} cannot go on from change {change.number}: {why}"
        raise ConfigError(told, job=name, hint=RELOAD.format(table.typed))
    with TrailReader(job.trail) as trail:
        for state in group:
            table, after = state.source, state.facts.resumes or 0
            asked = requests.answer(trail.directory, table)
            if asked is not None and asked.is_pending:
                raise ConfigError(f"a load of {table} is under way", job=name, hint="it brings the definition with it")
            why = ""
            if (parked := trail.history.parked_by(table)) is not None:
                why = f"the source has changed it once more behind that: {parked.reason}"
            elif trail.history.joined_after(table, after):
                why = "it was loaded anew behind that, for another target"
            elif after < trail.first() - 1:
                why = "the trail does not reach back to its place"
            if why:
                told = f"{table} cannot go on from change {change.number}: {why}"
                raise ConfigError(told, job=name, hint=RELOAD.format(table.typed))


def _behind(job: JobView, change: DdlChange, state: TableState) -> TableSchema:
    """Return the definition behind the change, as the target would have it. Raises ConfigError where a table is dropped."""
    assert state.schema is not None
    with TrailReader(job.trail) as trail:
        history = trail.history
        entries = history.alterations(change.source, state.schema.version, change.sequence)
        schema = next((one.schema for one in entries if one.sequence == change.sequence), None)
        if schema is None or history.was_dropped(schema):
            hint = f"anabranch ddl approve JOB {change.number}, or skip"
            raise ConfigError("only a change of columns can be replaced", job=job.config.name, hint=hint)
        untold = Untold(renamed=tuple(history.renamed(schema).items()))
    return leaving_out(state.schema, schema, untold, job.config.column_actions(change.source).answered(REPLACE))


def _refuse_approve(job: JobView, change: DdlChange) -> None:
    """Raise ConfigError where rows went with a partition: nobody but a person can say which of the target's those are."""
    with TrailReader(job.trail) as trail:
        entries = trail.history.alterations(change.source, 0, change.sequence)
    if any(one.rows_went and one.sequence == change.sequence for one in entries):
        number = change.number
        hint = f"anabranch ddl skip JOB {number} keeps them there; anabranch ddl replace JOB {number} --sql 'DELETE …'"
        raise ConfigError(
            "which of the target's rows went with the partition is in no log",
            job=job.config.name,
            hint=f"{hint} goes on without those that you delete",
        )


def _refuse_skip(job: JobView, change: DdlChange) -> None:
    """Raise ConfigError where the job file asks for a kind of change that a target cannot leave out."""
    with TrailReader(job.trail) as trail:
        history = trail.history
        entries = history.alterations(change.source, 0, change.sequence)
        schema = next((one.schema for one in entries if one.sequence == change.sequence), None)
        former = history.before(schema) if schema is not None else None
        kinds = kinds_between(former, schema, history.renamed(schema)) if former and schema else []
        is_renamed = any(one.created and one.sequence == change.sequence for one in history.entries)
    if is_renamed:
        raise ConfigError(
            "a table that has another name at the source cannot go on by its former one",
            job=job.config.name,
            hint=f"anabranch ddl approve JOB {change.number} renames it there, too",
        )
    actions = job.config.column_actions(change.source)
    if left := [kind for kind in kinds if actions.of(kind) == ASK and kind not in IGNORES]:
        raise ConfigError(
            f"a change of the kind {left[0]} cannot be skipped: rows behind it would not fit the target's table",
            job=job.config.name,
            hint=f"anabranch ddl approve JOB {change.number} makes it there, too",
        )
