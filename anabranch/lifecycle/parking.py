"""Parked tables: why they are parked, what is held of the trail for them, and the two ways out that need no load: to
resume where they were parked, or to give up what is held.

What does not live here: parking (apply, capture), joining (apply), loading again (`loading.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.apply.life.park import together
from anabranch.errors import ConfigError
from anabranch.model.ids import TableId
from anabranch.model.load_groups import group_of, load_command
from anabranch.model.parked_reasons import BEGUN_ANEW, tells_altered, tells_dropped
from anabranch.model.schema import component
from anabranch.model.table_life import TableState, give_up_place
from anabranch.model.table_life import resume as to_resume
from anabranch.trail import requests, retention
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.opened import require_rows, store_of
from anabranch.view.refusals import TAKE_OVER

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LS = "anabranch parked ls JOB lists them"
DECIDE = "anabranch ddl ls JOB has its number N, anabranch ddl approve JOB N lets it go on"


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """A parked table. `resumes_after`: the sequence from which on the trail is held for it, None where it has to be
    loaded again; `position` is that place. `waiting`: its row images behind that place. `held_bytes`: the bytes of the
    trail behind it. `back_by`: the command that brings it back; "" where none does."""

    source: TableId
    target: TableId
    reason: str
    resumes_after: int | None
    position: str
    waiting: int
    held_bytes: int
    back_by: str = ""


def parked_tables(job: JobView, table: TableId | None = None) -> list[ParkedTable]:
    """Return all parked tables, or one. Raises ConfigError for one that is not parked."""
    with store_of(job) as store:
        states = store.states.tables(job.config.name) if store.exists() else {}
    found = [state for _, state in sorted(states.items()) if state.is_parked and table in (None, state.source)]
    if table is not None and not found:
        raise _not_parked(job, table, states)
    if not exists(job.trail):
        return [_told(job, state, states, None) for state in found]
    with TrailReader(job.trail) as trail:
        return [_told(job, state, states, trail) for state in found]


def _told(
    job: JobView, state: TableState, states: Mapping[TableId, TableState], trail: TrailReader | None
) -> ParkedTable:
    hold = retention.readers(trail.directory).get(job.names.table(state.source)) if trail else None
    after, position, waiting, size = None, "", 0, 0
    if trail is not None and hold is not None:
        after = resumes_after(state, states, trail)
        refs = trail.descriptors(max(hold.sequence, trail.first() - 1))
        waiting = sum(rows for ref in refs for name, rows in ref.tables if name == str(state.source))
        position = str(trail.position_at(after)) if after is not None else ""
        size = sum(ref.length for ref in refs)
    resumed_by = f"anabranch parked resume JOB {state.source.typed}"
    back_by = resumed_by if after is not None else _loaded_by(job, state, states, trail)
    return ParkedTable(state.source, state.target, state.reason, after, position, waiting, size, back_by)


def _loaded_by(job: JobView, state: TableState, states: Mapping[TableId, TableState], trail: TrailReader | None) -> str:
    """Return the command that loads the table again, with all that has to be loaded with it; "" for one that is gone, where the
    target keeps changes, which no load brings, and of a job that never loads.

    That a definition changed since is known of what was parked for it; of others the command says so, and how it goes on.
    """
    if tells_dropped(state.reason) or job.config.keeps_changes or job.config.load.existing == TAKE_OVER:
        return ""
    schemas = {one: it.schema for one, it in states.items() if it.schema}
    away = [one for one, it in states.items() if not it.is_on_its_way]
    unseen = trail is not None and not trail.identity.logs_cascades
    group = group_of(state.source, schemas, away) if unseen else [state.source]
    found = [states[one] for one in group if one in states]
    return load_command(group, any(it.facts.recreate or tells_altered(it.reason) for it in found))


def resumes_after(state: TableState, states: Mapping[TableId, TableState], trail: TrailReader) -> int | None:
    """Return the sequence after which a parked table can go on; None where it has to be loaded again.

    It has to be where the source's definition changed since, other than by changes behind its place with which it goes on, or
    the trail does not reach back.
    """
    if state.facts.resumes is None or _is_asked(state, states) or trail.history.parked_by(state.source):
        return None
    after, latest = state.facts.resumes, trail.history.latest(state.source)
    asked = requests.answer(trail.directory, state.source)
    is_other = (
        latest is not None
        and state.schema is not None
        and (latest.version < state.schema.version or trail.history.leaves(state.source, state.schema.version, after))
    )
    if is_other or trail.history.joined_after(state.source, after) or (asked is not None and asked.is_pending):
        return None  # a load has begun, or is asked for
    return after if after >= trail.first() - 1 else None


def _is_asked(state: TableState, states: Mapping[TableId, TableState]) -> bool:
    """Return whether it waits for a decision that somebody can make. One whose table for which the job file asks has left,
    to be loaded or with the job, waits for none."""
    return state.is_asked and any(one.facts.asked is not None for one in together(state, states))


def resume(job: JobView, table: TableId | None) -> list[TableId]:
    """Let tables that apply has parked continue where they stopped: all, or one with those that were parked together
    with it. Apply does it, now or when it starts. Returns these tables."""
    require_rows(job)  # readers of changes would miss what comes behind a place that they have read
    with store_of(job) as store:
        states = store.states.tables(job.config.name) if store.exists() else {}
        groups = _groups(job, states, table)
        for state in groups:
            assert state.facts.resumes is not None, "so it was chosen"
            retention.hold(job.trail, job.names.table(state.source), state.facts.resumes)
            if state.is_parked:
                store.verifications.forget_verified(job.config.name, state.source)
                store.states.save_table(job.config.name, to_resume(state), state)
    return [state.source for state in groups]


def _groups(job: JobView, states: Mapping[TableId, TableState], table: TableId | None) -> Sequence[TableState]:
    """Return the tables that are to go on. Raises ConfigError where none of them can."""
    parked = [state for state in states.values() if state.is_parked]
    if table is None:
        wanted = {state.facts.resumes for state in parked} - {None}
        if not wanted:
            raise ConfigError("no table can be resumed", job=job.config.name, hint=LS)
    else:
        if table not in states or not states[table].is_parked:
            raise _not_parked(job, table, states)
        if any(state.facts.asked is not None for state in together(states[table], states)):
            raise ConfigError(f"{table} waits for a decision", job=job.config.name, hint=DECIDE)
        wanted = {states[table].facts.resumes} - {None}
    groups = _by_knot([state for _, state in sorted(states.items()) if state.facts.resumes in wanted], states)
    if table is not None:
        groups = [group for group in groups if table in [state.source for state in group]]
    with TrailReader(job.trail) as trail:
        lost = [name for group in groups for name in _lost(group, states, trail)]
        # One that has no place any more is in no group.
        stuck = lost[0] if lost else table
        command = _loaded_by(job, states[stuck], states, trail) if stuck else LS
        found = [state for group in groups if not _lost(group, states, trail) for state in group]
    if not found:
        other = BEGUN_ANEW if job.config.load.existing == TAKE_OVER else LS
        hint = f"load it again: {command}" if command else other
        raise ConfigError(f"{stuck} cannot go on where it stood", job=job.config.name, hint=hint)
    for name in lost:
        log.get(job=job.config.name, table=str(name)).warning("table_not_resumed", why="it has to be loaded again")
    return found


def _by_knot(tables: Sequence[TableState], states: Mapping[TableId, TableState]) -> list[list[TableState]]:
    """Group the tables that were parked together, each table once."""
    groups: list[list[TableState]] = []
    for state in tables:
        if not any(state in group for group in groups):
            groups.append(together(state, states))
    return groups


def _lost(group: Sequence[TableState], states: Mapping[TableId, TableState], trail: TrailReader) -> list[TableId]:
    """Return, of tables that were parked together, the ones that keep the others from going on."""
    lost = [state.source for state in group if resumes_after(state, states, trail) is None]
    return lost or without_the_rest(group, states)


def without_the_rest(group: Sequence[TableState], states: Mapping[TableId, TableState]) -> list[TableId]:
    """Return the tables that foreign keys connect with one which is not among them.

    That one was loaded again, and nothing tells what its changes did to these in between.
    """
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    names = {state.source for state in group}
    return [name for name in sorted(names) if component([name], schemas) - names]


def give_up(job: JobView, table: TableId) -> int:
    """Stop holding the trail for a parked table and for those that were parked with it: after this only a load brings
    them back. Returns the bytes that were held."""
    (parked,) = parked_tables(job, table)
    if (asked := requests.answer(job.trail, table)) is not None and asked.is_pending:
        raise ConfigError(
            f"a load of {table} is under way",
            job=job.config.name,
            hint="that load needs the held part of the trail: wait until it ends",
        )
    with store_of(job) as store:
        states = store.states.tables(job.config.name)
        mine = states[table]
        for state in together(mine, states) if mine.facts.resumes is not None else [mine]:
            store.states.save_table(job.config.name, give_up_place(state), state)
            retention.unregister(job.trail, job.names.table(state.source))
    return parked.held_bytes


def _not_parked(job: JobView, table: TableId, states: Mapping[TableId, TableState]) -> ConfigError:
    what = f"{table} is {states[table].state}" if table in states else f"the job has no table {table}"
    return ConfigError(f"{what}, not parked", job=job.config.name, hint=LS)
