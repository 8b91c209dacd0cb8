"""Tables that resume, and whose definition was changed behind their place: they come up to each change by the trail, are
altered there, and go on by the next definition, while the others stream.

Each part of the way is an epoch that notes how far they have come. What does not live here: what becomes of a change
(`altering.py`), the last part of the way, behind which they join (`join.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.progress import Progress
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, catch_up


def passed_by(progress: Progress, group: Sequence[TableState]) -> list[TableId]:
    """Return tables whose change nobody will come to any more: it is in front of their place, or left out."""
    left_out = set(progress.skipped)
    return [
        state.source
        for state in group
        if any(one in left_out or one <= (state.facts.resumes or 0) for one in _changes(progress, state))
    ]


def altered_on_the_way(applier: Applier, following: Following, group: Sequence[TableState]) -> Sequence[TableState]:
    """Bring tables that resume behind the last change of their definitions. Returns their states: parked ones where they have
    to stay in front of a change. Raises RowRefused, StateError as a replay does, TargetUnavailable, Fenced."""
    progress = applier.progress
    while (found := min((one for state in group for one in _changes(progress, state)), default=None)) is not None:
        group = _brought(applier, following, group, found - 1)
        if not any(state.is_parked for state in group):
            group = applier.carry_out_behind(found, group)
        if any(state.is_parked for state in group):
            break
        reach("apply.caught.up")
    return group


def _changes(progress: Progress, state: TableState) -> Iterator[int]:
    if state.schema is not None:
        at = progress.checkpoint.position.sequence
        yield from (one.sequence for one in progress.trail.history.alterations(state.source, state.schema.version, at))


def _brought(applier: Applier, following: Following, group: Sequence[TableState], upto: int) -> Sequence[TableState]:
    """Carry out the tables' part of the trail up to a transaction."""
    progress = applier.progress
    if upto <= (group[0].facts.resumes or 0):
        return group
    replayed, _ = following.joined(progress.context, group, progress.checkpoint.position.sequence)
    states = [catch_up(state, upto) for state in group]
    applier.carrier.replay(states, replayed, progress.context, upto)
    return [progress.states[state.source] for state in group]
