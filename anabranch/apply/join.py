"""A table that joins while the others stream (K15): its part of the trail is carried out up to where the job is, in one
epoch that changes nothing else; from then on it streams with the rest."""

from __future__ import annotations

from dataclasses import replace

from anabranch import log
from anabranch.abc import JOINS, TableState
from anabranch.apply.cascade import hangs_on_hidden_rows
from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.window import is_joining, is_loaded
from anabranch.trail import retention

HIDDEN_ROWS = (
    "foreign keys change it over a table between, which went on while it was loaded: stop apply, load the table again, then"
    " start apply"
)


def join_loaded(applier: Applier, following: Following) -> None:
    """Let every table join that has been loaded since, as soon as the trail reaches past its load. Loads announce
    themselves by what they hold of the trail."""
    directory = applier.trail.directory
    holds = {name for name in retention.readers(directory) if name.startswith(retention.LOAD)}
    if not holds:
        return
    for table, state in applier.store.tables(applier.job).items():
        is_new = table not in applier.context.tables
        if is_new:
            applier.states[table] = state
            is_new = not (is_joining(state) and is_loaded(state) and following.resolver.reached(state))
            if not is_new:
                _join(applier, following, state)
        hold = f"{retention.LOAD}{table}"
        if not is_new and hold in holds:
            retention.unregister(directory, hold)


def _join(applier: Applier, following: Following, state: TableState) -> None:
    at = applier.checkpoint.position.sequence
    joining = replace(state, facts={name: value for name, value in state.facts.items() if name != JOINS})
    replayed, joined = following.joined(applier.context, joining, at)
    low = replayed.tables[state.source].low
    bound = log.get(job=applier.job, table=str(state.source))
    parked = applier.trail.history.parked_by(state.source)
    reason = parked.reason if parked else ""
    if low < at and hangs_on_hidden_rows(joined, state.source):
        reason = HIDDEN_ROWS
    if reason:
        applier.save(replace(joining, state="parked", low="", high="", reason=reason))
        bound.warning("table_parked", reason=reason)
    else:
        applier.join(joining, replayed, joined)
        bound.info("table_joined", low=low, at=at)
