"""Parked tables: which there are and why, what is held for them, and the two ways back that need no load: going on where they
were parked, or giving up what is held.

What does not live here: parking (apply, capture), joining (apply), loading again (`loading.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.abc import JOINS, RESUMES, TableState, TargetStore
from anabranch.errors import ConfigError
from anabranch.job import ends
from anabranch.model.ids import TableId
from anabranch.model.schema import component
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader, exists

if TYPE_CHECKING:
    from anabranch.job.job import Job

LS = "anabranch parked ls JOB lists them"


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """`resumes_after`: the sequence from which on the trail is held for it, None where it has to be loaded again; `position`
    is that place. `waiting`: row images of it that wait there; `held_bytes`: of the trail behind that place."""

    source: TableId
    target: TableId
    reason: str
    resumes_after: int | None
    position: str
    waiting: int
    held_bytes: int


def parked_tables(job: Job, table: TableId | None = None) -> list[ParkedTable]:
    """All of them, or one. Raises ConfigError for one that is not parked."""
    store = ends.target_of(job).store()
    try:
        states = store.tables(job.config.name) if store.exists() else {}
    finally:
        store.close()
    found = [state for _, state in sorted(states.items()) if state.state == "parked" and table in (None, state.source)]
    if table is not None and not found:
        raise _not_parked(job, table, states)
    if not exists(job.trail):
        return [_told(state, None) for state in found]
    with TrailReader(job.trail) as trail:
        return [_told(state, trail) for state in found]


def _told(state: TableState, trail: TrailReader | None) -> ParkedTable:
    after = resumes_after(state, trail) if trail else None
    if trail is None or after is None:
        return ParkedTable(state.source, state.target, state.reason, None, "", 0, 0)
    refs = trail.descriptors(after)
    waiting = sum(rows for ref in refs for name, rows in ref.tables if name == str(state.source))
    position, held = str(trail.position_at(after)), sum(ref.length for ref in refs)
    return ParkedTable(state.source, state.target, state.reason, after, position, waiting, held)


def resumes_after(state: TableState, trail: TrailReader) -> int | None:
    """Where a parked table can go on; None where it has to be loaded again: the source's definition changed since, or the
    trail does not reach back."""
    if RESUMES not in state.facts or trail.history.parked_by(state.source):
        return None
    after = int(state.facts[RESUMES])
    return after if after >= trail.first() - 1 else None


def resume(job: Job, table: TableId | None) -> list[TableId]:
    """Let tables that apply has parked go on where they stood: all, or one with those that were parked with it. Apply does
    it, now or when it starts. Returns which."""
    store = ends.target_of(job).store()
    try:
        states = store.tables(job.config.name) if store.exists() else {}
        groups = _groups(job, states, table)
        for state in groups:
            retention.hold(job.trail, f"{retention.LOAD}{state.source}", int(state.facts[RESUMES]))
            if state.state == "parked":
                _let_join(job, store, state)
    finally:
        store.close()
    return [state.source for state in groups]


def _groups(job: Job, states: Mapping[TableId, TableState], table: TableId | None) -> Sequence[TableState]:
    """Those that are to go on. Raises ConfigError where one of them cannot."""
    parked = [state for state in states.values() if state.state == "parked"]
    if table is None:
        wanted = {state.facts[RESUMES] for state in parked if RESUMES in state.facts}
        if not wanted:
            raise ConfigError("no table can be resumed", job=job.config.name, hint=LS)
    else:
        if table not in states or states[table].state != "parked":
            raise _not_parked(job, table, states)
        wanted = {states[table].facts.get(RESUMES, "")}
    group = [state for _, state in sorted(states.items()) if state.facts.get(RESUMES) in wanted]
    with TrailReader(job.trail) as trail:
        lost = [state.source for state in group if resumes_after(state, trail) is None]
    if not group or lost or (lost := _without_the_rest(group, states)):
        name = lost[0] if lost else table
        raise ConfigError(
            f"{name} cannot go on where it stood",
            job=job.config.name,
            hint=f"load it again: anabranch parked reload JOB {name}",
        )
    return group


def _without_the_rest(group: Sequence[TableState], states: Mapping[TableId, TableState]) -> list[TableId]:
    """Those that foreign keys connect with a table which is not among them: it was loaded again, and what its changes do to
    them in between is told by nothing."""
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    names = {state.source for state in group}
    return [name for name in sorted(names) if component([name], schemas) - names]


def _let_join(job: Job, store: TargetStore, state: TableState) -> None:
    facts = {**state.facts, JOINS: "yes", "loaded": "yes"}
    store.save_table(job.config.name, replace(state, state="loading", facts=facts), state)


def give_up(job: Job, table: TableId) -> int:
    """Hold nothing of the trail for a parked table any more, nor for those that were parked with it: only a load brings them
    back. Returns the bytes that were held."""
    (parked,) = parked_tables(job, table)
    store = ends.target_of(job).store()
    try:
        states = store.tables(job.config.name)
        after = states[table].facts.get(RESUMES, "")
        for state in [one for one in states.values() if after and one.facts.get(RESUMES) == after]:
            facts = {name: value for name, value in state.facts.items() if name != RESUMES}
            store.save_table(job.config.name, replace(state, facts=facts), state)
            retention.unregister(job.trail, f"{retention.LOAD}{state.source}")
    finally:
        store.close()
    return parked.held_bytes


def _not_parked(job: Job, table: TableId, states: Mapping[TableId, TableState]) -> ConfigError:
    what = f"{table} is {states[table].state}" if table in states else f"the job has no table {table}"
    return ConfigError(f"{what}, not parked", job=job.config.name, hint=LS)
