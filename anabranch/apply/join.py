"""A table that joins while the others stream (K15): its part of the trail is carried out up to where the job is, in one
epoch that changes nothing else; from then on it streams with the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch import log
from anabranch.abc import TableState, TargetStore
from anabranch.apply.cascade import rules_of
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.window import WindowResolver, is_followed
from anabranch.trail import retention

Follow = Callable[[TableState, tuple[int, int]], Followed]  # a table's state and window -> how it is followed


def join_loaded(
    applier: Applier, store: TargetStore, resolver: WindowResolver, follow: Follow, *, logs_cascades: bool
) -> None:
    """Let every table join that has been loaded since, as soon as the trail reaches past its load. Loads announce
    themselves by what they hold of the trail."""
    directory = applier.trail.directory
    holds = {name for name in retention.readers(directory) if name.startswith(retention.LOAD)}
    if not holds:
        return
    for table, state in store.tables(applier.job).items():
        if table in applier.context.tables:
            continue
        applier.states[table] = state
        if state.state == "loading" and is_followed(state) and state.schema and resolver.reached(state):
            followed = follow(state, resolver.window(state))
            _join(applier, state, followed, logs_cascades)
            log.get(job=applier.job).info("table_joined", table=str(table), low=followed.low, high=followed.high)
            retention.unregister(directory, f"{retention.LOAD}{table}")


def _join(applier: Applier, state: TableState, followed: Followed, logs_cascades: bool) -> None:
    at = applier.checkpoint.position.sequence
    others = {t: f for t, f in applier.context.tables.items() if t != state.source}
    joined = {**others, state.source: followed}
    replayed = {**{t: replace(f, low=at, high=at) for t, f in others.items()}, state.source: followed}
    applier.join(
        state,
        ApplyContext(replayed, () if logs_cascades else rules_of(replayed), applier.context.truncate),
        ApplyContext(joined, () if logs_cascades else rules_of(joined), applier.context.truncate),
    )
