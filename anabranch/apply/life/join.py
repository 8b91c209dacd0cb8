"""Tables that join while the others stream (K15). Their part of the trail is carried out up to where the job is, in one
epoch that changes nothing else; from then on they stream with the rest.

A table joins after its own load. Tables that apply has parked together are resumed together, from where they were
parked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch import log
from anabranch.apply.altering import left_behind
from anabranch.apply.cascades.cascade import hangs_on_hidden_rows
from anabranch.apply.epoch import Applier
from anabranch.apply.feed import altering_at
from anabranch.apply.following import Following
from anabranch.apply.life.catch_up import altered_on_the_way, passed_by
from anabranch.apply.life.park import together
from anabranch.apply.progress import Progress
from anabranch.errors import ConfigError, RowRefused, StateError
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, arrive, give_up_place, park, refuse_to_resume
from anabranch.trail import retention

HIDDEN_ROWS = (
    "foreign keys change it through another table, which kept changing while this one was loaded: stop apply, load the table"
    " again, then start apply"
)
GONE = "the trail does not reach back to its place: load the table again"


def join_loaded(applier: Applier, following: Following) -> None:
    """Let every table join that has been loaded or resumed since, as soon as the trail reaches past its load. Such
    tables are found by what they hold of the trail."""
    progress = applier.progress
    directory, names = progress.trail.directory, progress.settings.names
    holds = set(filter(names.is_table, retention.readers(directory)))
    if not holds:
        return
    states = progress.store.states.tables(progress.job)
    tried, through = set[TableId](), set[TableId]()
    progress.learn(state for table, state in states.items() if table not in progress.context.tables)
    for table, state in states.items():
        if table in progress.context.tables:
            through.add(table)
        elif table not in tried and state.is_joining and state.is_loaded and following.resolver.reached(state):
            group = together(state, states) if state.facts.resumes is not None else [state]
            members = {one.source for one in group}
            tried |= members
            formers = set(_former_names(progress, group)) - states.keys()
            through |= members | formers if _let_join(applier, following, group) else set()
    through |= progress.context.tables.keys()  # also those that go on under another name by now
    for name in retention.readers(directory).keys() & set(map(names.table, through)):
        retention.unregister(directory, name)


def _former_names(progress: Progress, group: Sequence[TableState]) -> Iterator[TableId]:
    """Yield the names that tables had which a person has let be renamed: the trail may still be held by them."""
    for state in group:
        at = state.facts.resumes
        if at is not None and progress.trail.history.drops_at(at):
            every = altering_at(progress.trail, at)
            yield from (one.table for one in every if one.untold.moved == str(state.source))


def _let_join(applier: Applier, following: Following, group: Sequence[TableState]) -> bool:
    """Let a group join. Returns whether that is settled: the tables are followed now, or parked for good. A group that
    cannot be resumed yet keeps its part of the trail."""
    if group[0].facts.resumes is not None:
        return _resume(applier, following, group)
    if _comes_after(applier.progress, following, group[0]):
        return False
    _join(applier, following, group[0])
    return True


def _comes_after(progress: Progress, following: Following, state: TableState) -> bool:
    """Return whether a parent has to join first, whose foreign keys change rows of this table unseen by the log (K1)."""
    if following.settings.logs_cascades or state.schema is None:
        return False
    parents = {key.parent for key in state.schema.foreign_keys if key.changes_rows} - {state.source}
    states = progress.states
    return any(p not in progress.context.tables and states[p].is_joining for p in parents & states.keys())


def _join(applier: Applier, following: Following, state: TableState) -> None:
    progress = applier.progress
    at = progress.checkpoint.position.sequence
    joining = arrive(state)
    replayed, joined = following.joined(progress.context, [joining], at)
    low = replayed.tables[state.source].low
    bound = log.get(job=progress.job, table=str(state.source))
    parked = progress.trail.history.parked_by(state.source)
    reason = parked.reason if parked else ""
    if state.schema and progress.trail.history.altered_since(state.source, state.schema.version, at):
        reason = reason or left_behind(state.source)
    if low < at and hangs_on_hidden_rows(joined, state.source):
        reason = HIDDEN_ROWS
    if reason:
        progress.park(park(joining, reason))
        bound.warning("table_parked", reason=reason)
        return
    try:
        applier.carrier.replay([joining], replayed, joined)
    except (RowRefused, StateError) as refusal:  # StateError: rows of another definition
        if isinstance(refusal, RowRefused) and not progress.settings.parks:
            raise
        progress.back_out()
        progress.park(park(joining, refusal.message))
        bound.warning("table_parked", reason=refusal.message)
    else:
        bound.info("table_joined", low=low, at=at)


def _resume(applier: Applier, following: Following, group: Sequence[TableState]) -> bool:
    """Resume all tables of the group, or none: where the trail, the target or the job file still refuses, they are parked
    again, and where the trail does not reach back to their place, for good."""
    progress = applier.progress
    if not all(state.is_joining for state in group):
        return False  # somebody is about to resume the rest
    if progress.checkpoint.position.sequence < (group[0].facts.resumes or 0):
        return False  # the job went back
    progress.learn(group)
    history, at = progress.trail.history, progress.checkpoint.position.sequence
    why = next((e.reason for s in group if (e := history.parked_by(s.source))), "")
    why = why or next(map(left_behind, passed_by(progress, group)), "")
    is_lost = any((state.facts.resumes or 0) < progress.trail.first() - 1 for state in group)
    why = GONE if is_lost else why
    try:
        if not why:
            group = altered_on_the_way(applier, following, group)
            if not group:
                applier.altering.park_left_behind()  # one of its name may have been made meanwhile
                return True  # the last of them was dropped there
            if any(state.is_parked for state in group):
                return all(state.facts.resumes is None for state in group)
            replayed, joined = following.joined(progress.context, group, at)
            applier.carrier.replay([arrive(state) for state in group], replayed, joined)
    except (
        RowRefused,
        StateError,
        ConfigError,
    ) as refusal:  # also rows of another definition, a file that names no column
        progress.back_out()
        why = refusal.message
    bound = log.get(job=progress.job, tables=[str(state.source) for state in group])
    if why:
        now = [progress.states[state.source] for state in group]  # they may have come a part of the way
        parked = [refuse_to_resume(state, why) for state in now]
        progress.park(*(map(give_up_place, parked) if is_lost else parked))
        bound.warning("tables_not_resumed", reason=why)
    else:
        bound.info("tables_resumed", after=group[0].facts.resumes, at=at)
    return is_lost or not why
