"""Tables that join while the others stream (K15): their part of the trail is carried out up to where the job is, in one
epoch that changes nothing else; from then on they stream with the rest. A table joins behind its own load; those that apply
has parked together are resumed together, where they were parked.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch import log
from anabranch.apply.cascades.cascade import hangs_on_hidden_rows
from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.life.park import together
from anabranch.errors import RowRefused, StateError
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, arrive, park, refuse_to_resume
from anabranch.trail import retention

HIDDEN_ROWS = (
    "foreign keys change it over a table between, which went on while it was loaded: stop apply, load the table again, then"
    " start apply"
)


def join_loaded(applier: Applier, following: Following) -> None:
    """Let every table join that has been loaded or resumed since, as soon as the trail reaches past its load. They
    announce themselves by what they hold of the trail."""
    directory = applier.trail.directory
    holds = set(filter(applier.names.is_table, retention.readers(directory)))
    if not holds:
        return
    states = applier.store.states.tables(applier.job)
    tried, through = set[TableId](), set[TableId]()
    applier.states |= {table: state for table, state in states.items() if table not in applier.context.tables}
    for table, state in states.items():
        if table in applier.context.tables:
            through.add(table)
        elif table not in tried and state.is_joining and state.is_loaded and following.resolver.reached(state):
            group = together(state, states) if state.facts.resumes is not None else [state]
            names = {one.source for one in group}
            tried |= names
            through |= names if _let_join(applier, following, group) else set()
    for name in map(applier.names.table, through):
        if name in holds:
            retention.unregister(directory, name)


def _let_join(applier: Applier, following: Following, group: Sequence[TableState]) -> bool:
    """Are they through: followed now, or parked for good? What cannot be resumed yet keeps its part of the trail."""
    if group[0].facts.resumes is not None:
        return _resume(applier, following, group)
    if _comes_after(applier, following, group[0]):
        return False
    _join(applier, following, group[0])
    return True


def _comes_after(applier: Applier, following: Following, state: TableState) -> bool:
    """Is a table to join first, of which foreign keys change rows of this one with its own, unseen by the log (K1)?"""
    if following.logs_cascades or state.schema is None:
        return False
    parents = {key.parent for key in state.schema.foreign_keys if key.changes_rows} - {state.source}
    return any(
        p not in applier.context.tables and applier.states[p].is_joining for p in parents & applier.states.keys()
    )


def _join(applier: Applier, following: Following, state: TableState) -> None:
    at = applier.checkpoint.position.sequence
    joining = arrive(state)
    replayed, joined = following.joined(applier.context, [joining], at)
    low = replayed.tables[state.source].low
    bound = log.get(job=applier.job, table=str(state.source))
    parked = applier.trail.history.parked_by(state.source)
    reason = parked.reason if parked else ""
    if low < at and hangs_on_hidden_rows(joined, state.source):
        reason = HIDDEN_ROWS
    if reason:
        applier.park([park(joining, reason)])
        bound.warning("table_parked", reason=reason)
        return
    try:
        applier.join([joining], replayed, joined)
    except (RowRefused, StateError) as refusal:  # StateError: rows of another definition
        if isinstance(refusal, RowRefused) and not applier.parks:
            raise
        _back_out(applier)
        applier.park([park(joining, refusal.message)])
        bound.warning("table_parked", reason=refusal.message)
    else:
        bound.info("table_joined", low=low, at=at)


def _back_out(applier: Applier) -> None:
    applier.writer.rollback()
    applier.look()


def _resume(applier: Applier, following: Following, group: Sequence[TableState]) -> bool:
    """All of them, or none: where the trail or the target still refuses, they are parked again."""
    if not all(state.is_joining for state in group):
        return False  # somebody is about to resume the rest
    if applier.checkpoint.position.sequence < (group[0].facts.resumes or 0):
        return False  # the job went back
    for state in group:
        applier.states[state.source] = state
    why = next((e.reason for s in group if (e := applier.trail.history.parked_by(s.source))), "")
    at = applier.checkpoint.position.sequence
    try:
        if not why:
            replayed, joined = following.joined(applier.context, group, at)
            applier.join([arrive(state) for state in group], replayed, joined)
    except (RowRefused, StateError) as refusal:  # also rows of another definition
        _back_out(applier)
        why = refusal.message
    bound = log.get(job=applier.job, tables=[str(state.source) for state in group])
    if why:
        applier.park([refuse_to_resume(state, why) for state in group])
        bound.warning("tables_not_resumed", reason=why)
    else:
        bound.info("tables_resumed", after=group[0].facts.resumes, at=at)
    return not why
