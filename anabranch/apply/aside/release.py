"""Release and discard of set-aside rows, on a person's request (K26). All changes that wait for a row go together, in
their order, in one target transaction that changes nothing else. Apply does this between two epochs, because nobody
else changes rows.

What does not live here: asking for it (`lifecycle/asides.py`), what may be set aside (`permitted.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch import log
from anabranch.apply.carry_out import ReleasesAside
from anabranch.apply.context import Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.progress import Progress
from anabranch.errors import ConfigError, Fenced, RowRefused, StateError, TargetError, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.rows.aside import DISCARD, AsideChange, carried_out

AGAIN = "still refused: "


def settle_wishes(applier: Applier, following: Following) -> None:
    """Carry out what was asked for. A change that the target still refuses stays set aside, with the new reason."""
    progress, carrier = applier.progress, applier.carrier
    has_some = any(state.facts.set_aside for state in progress.states.values())
    if not has_some or not isinstance(carrier, ReleasesAside) or not progress.store.asides.asked(progress.job):
        return
    rows: dict[tuple[TableId, tuple[object, ...]], list[AsideChange]] = {}
    for change in progress.store.asides.set_aside(progress.job):
        rows.setdefault((change.source, tuple(change.key.items())), []).append(change)
    for (table, _), changes in rows.items():
        wish = next((change.wish for change in changes if change.wish), "")
        state = progress.store.states.table(progress.job, table) if wish else None
        if state is not None and state.is_at_rest:
            _settle(progress, carrier, following, state, changes, wish == DISCARD)
    progress.look()


def _settle(
    progress: Progress,
    carrier: ReleasesAside,
    following: Following,
    state: TableState,
    changes: Sequence[AsideChange],
    discards: bool,
) -> None:
    numbers = [change.number for change in changes]
    bound = log.get(job=progress.job, table=str(state.source))
    try:
        followed = progress.context.tables.get(state.source) or following.tables([state])[state.source]
        if not discards:
            _require_fit(changes, followed)
        if discards:  # the target will lack them for good, and its state does not tell so
            progress.store.verifications.forget_verified(progress.job, state.source)
        carrier.release(state, [] if discards else carried_out(changes), followed, numbers, discards)
    except TargetUnavailable:
        raise
    except Fenced:  # a load, or somebody who resumes it, has changed its state meanwhile; or we were replaced
        progress.back_out()
    except (TargetError, ConfigError, StateError) as refusal:
        progress.back_out()
        reason = f"{AGAIN}{refusal.message}"
        progress.store.asides.wish(progress.job, numbers, "")
        progress.store.asides.wish(progress.job, numbers[:1], "", reason)
        bound.warning("row_not_released", numbers=numbers, reason=reason)
    else:
        bound.warning("row_discarded" if discards else "row_released", numbers=numbers)


def _require_fit(changes: Sequence[AsideChange], followed: Followed) -> None:
    """Require that the changes fit the table as the job now writes it. Raises RowRefused."""
    table = followed.table
    for change in changes:
        names = {name for image in (change.before, change.after) if image is not None for name in image}
        if change.target != table.target or set(change.key) != set(table.key) or not names <= set(table.columns):
            raise RowRefused("the job file has changed the table since: load it again", table=str(table.source))
