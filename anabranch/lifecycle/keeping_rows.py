"""`load --table --recreate --keep-rows`: a table gets the definition that the job makes of the source's, and keeps its rows.

Nothing is copied, so this is for tables of which it is certain which rows they have: to one that streams is built what its
definition has beside columns, and one that is parked at a place which the trail still has goes on from there, and is altered
by each change behind it, whatever the job file says of such changes. Anything else is refused.

What does not live here: altering (`apply/altering.py`), coming up (`apply/life/join.py`), building (`apply/life/finish.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.apply.decided import process
from anabranch.errors import ConfigError, TrailError
from anabranch.failpoints import reach
from anabranch.lifecycle.joining_target import AtTarget
from anabranch.lifecycle.parking import DECIDE, without_the_rest
from anabranch.lifecycle.replacing import unlike
from anabranch.model.check_changes import as_at_source
from anabranch.model.ids import TableId
from anabranch.model.schema import component
from anabranch.model.table_life import TableState, build_all, hold_place, keep_rows
from anabranch.trail import requests, retention
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.alone import alone
from anabranch.view.opened import require_rows, source_of, store_of, target_of
from anabranch.view.refusals import refuse_changed_job, refuse_while_cut_over
from anabranch.view.running import CAPTURE, require_stopped

if TYPE_CHECKING:
    from anabranch.contracts import TargetStore
    from anabranch.view.job_view import JobView

RELOAD = "anabranch load JOB --table {table} --recreate loads it again"
BY_HAND = (
    "alter the target's table yourself and say at which place it has the source's rows, anabranch load JOB --table {table}"
    f" --from POSITION; or {RELOAD}"
)
OTHERWISE = f"alter the target's table to that, and say it again; or {RELOAD}"
WHOLE = "it waits for a decision about a statement that drops or renames tables, behind which there are no rows to keep"
GONE = "the trail does not reach back to its place"
NOT_READ = "capture has read none of its rows behind that: {}"


@dataclass(frozen=True, slots=True)
class Kept:
    """Tables that go on with their rows. `after`: the sequence of the trail behind which they do; None for one that streams,
    where what the target's table is without is built beside the stream."""

    states: tuple[TableState, ...]
    after: int | None

    @property
    def tables(self) -> list[TableId]:
        return [state.source for state in self.states]


def keep(job: JobView, table: TableId) -> Kept:
    """Let the table go on with its rows, and those that were parked with it; apply does it, now or when it starts. Returns
    these. Raises ConfigError where it is not certain which rows it has, StateError for one that streams while apply runs."""
    with alone(job), store_of(job) as store:
        found = _found(job, store, table)
        if found.after is None:
            require_stopped(job, but=(CAPTURE,))  # apply has the state of a table that streams in its memory
            (state,) = found.states
            assert state.schema is not None
            checks = as_at_source(state.schema).checks
            store.states.save_table(job.config.name, build_all(state, replace(state.schema, checks=checks)), state)
            return found
        _go_on(job, store, found.states, found.after)
        return found


def look(job: JobView, table: TableId) -> Kept:
    """Return which tables would go on, and from where. Raises as `keep` does, and changes nothing."""
    with store_of(job) as store:
        return _found(job, store, table)


def _found(job: JobView, store: TargetStore, table: TableId) -> Kept:
    name = job.config.name
    require_rows(job)
    refuse_while_cut_over(job)
    refuse_changed_job(job)  # rows that are there were made as the file said before
    if not job.rules.includes(table):
        raise job.rules.not_replicated(table)
    if job.config.pair is not None:
        hint = "anabranch parked resume lets it go on once the target takes its rows"
        raise ConfigError(f"{table} is a table of a pair: changes of it are no one site's", job=name, hint=hint)
    states = store.states.tables(name) if store.exists() else {}
    state = states.get(table)
    if state is not None and state.is_streaming:
        _refuse_other_columns(job, state)
        return Kept((state,), None)
    place = _place(state)
    if state is not None and state.facts.recreate:
        raise _refused(job, table, f"its rows are as the job file said before: {state.reason}", RELOAD)
    if state is None or place is None or not (state.is_parked or state.is_resuming):
        raise _refused(job, table, *_why_no_place(job, table, state))
    group = _together(state, states, place)
    if not any(one.is_parked for one in group):
        raise _refused(job, table, "it is on its way already", "start apply, which lets it go on")
    _refuse_lost(job, group, states, place)
    return Kept(tuple(group), place)


def _place(state: TableState | None) -> int | None:
    if state is None:
        return None
    return state.facts.stood if state.facts.resumes is None else state.facts.resumes


def _together(state: TableState, states: Mapping[TableId, TableState], place: int) -> list[TableState]:
    """Return the tables that were parked at this place with it, this one last: until it goes on it can be asked for again."""
    same = {t: one for t, one in states.items() if _place(one) == place and (one.is_parked or one.is_resuming)}
    schemas = {t: one.schema for t, one in same.items() if one.schema}
    found = sorted(component([state.source], schemas))
    return [same[t] for t in sorted(found, key=lambda one: one == state.source)]


def _why_no_place(job: JobView, table: TableId, state: TableState | None) -> tuple[str, str]:
    """Return why there is no place from which the table could go on, and what to do instead."""
    if state is None or state.schema is None:
        return "the target has no rows of it", "anabranch load JOB --table {table}"
    if not state.is_parked:
        return (
            "it is being loaded, or was, and does not stream yet",
            "let that end: anabranch load JOB --table {table}",
        )
    if exists(job.trail):
        with TrailReader(job.trail) as trail:
            if (parked := trail.history.parked_by(table)) is not None:
                return NOT_READ.format(parked.reason), BY_HAND
    return f"it is not known which rows it has: {state.reason}", BY_HAND


def _refuse_other_columns(job: JobView, state: TableState) -> None:
    """Refuse a table that streams and whose target has other columns than rows are written for: what rows that are there
    would have in them only a load knows."""
    assert state.schema is not None
    if lacking := AtTarget(job, source_of(job), target_of(job)).lacks(state.source, state):
        why = f"the target is without {', '.join(lacking)}, and rows that are there have values in it at the source"
        raise _refused(job, state.source, why, RELOAD)
    if other := unlike(job, state.schema):
        raise _refused(job, state.source, f"{state.target} has other columns: {'; '.join(other)}", OTHERWISE)


def _refuse_lost(job: JobView, group: Sequence[TableState], states: Mapping[TableId, TableState], place: int) -> None:
    """Refuse tables to which the trail does not lead from their place, or not to all that foreign keys connect."""
    for table in without_the_rest(group, states):
        raise _refused(
            job, table, "one that foreign keys connect it with was loaded again, or parked elsewhere", RELOAD
        )
    with TrailReader(job.trail) as trail:
        for state in group:
            if state.facts.asked is not None and trail.history.drops_at(state.facts.asked):
                raise _refused(job, state.source, WHOLE, DECIDE)
            if why := _why_lost(trail, state, place):
                raise _refused(job, state.source, why, BY_HAND)


def _why_lost(trail: TrailReader, state: TableState, place: int) -> str:
    history, table = trail.history, state.source
    asked = requests.answer(trail.directory, table)
    if asked is not None and asked.is_pending:
        return "a load of it is under way"
    if (parked := history.parked_by(table)) is not None:
        return NOT_READ.format(parked.reason)
    if state.schema is None or history.joined_after(table, place):
        return "it was loaded anew since, for another target"
    if history.leaves(table, state.schema.version, place):
        return "it was changed at the source in a way that the trail does not tell"
    return "" if place >= trail.first() - 1 else GONE


def _go_on(job: JobView, store: TargetStore, group: Sequence[TableState], place: int) -> None:
    """Hold the trail, and let the tables go on. Whoever finds some of them on the way can ask again."""
    before = retention.readers(job.trail)
    names = [job.names.table(one.source) for one in group]
    held: list[TableState] = []
    try:
        for name in names:
            retention.hold(job.trail, name, place)
        reach("load.rows.holding")
        _refuse_lost(job, group, store.states.tables(job.config.name), place)  # nobody has held it until now
        for one in group:
            now = hold_place(one) if one.is_parked and one.facts.resumes is None else one
            if now is not one:
                store.states.save_table(job.config.name, now, one)
            held.append(now)
            if now is not one:
                reach("load.rows.held")
    except BaseException as error:  # also of a user who breaks it off: no state would tell for whom the trail is held
        for name in names if not held else ():
            if name not in before:
                retention.unregister(job.trail, name)
        if isinstance(error, TrailError):
            raise _refused(job, group[-1].source, GONE, BY_HAND) from error
        raise
    for one in held:
        if one.is_parked:
            store.verifications.forget_verified(job.config.name, one.source)
            store.states.save_table(job.config.name, keep_rows(one, process()), one)
            reach("load.rows.kept")


def _refused(job: JobView, table: TableId, why: str, hint: str) -> ConfigError:
    told = f"{table} cannot keep its rows: {why}"
    return ConfigError(told, job=job.config.name, hint=hint.format(table=table.typed))
