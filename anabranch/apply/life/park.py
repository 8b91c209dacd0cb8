"""Choice of the tables that are parked when the target refuses a row of one (K15, K26), and of how they come back.

The table is parked with all tables that foreign keys connect it with: half of them would not be consistent. Tables that
streamed can go on where they stopped, once the target takes the row; tables that were being loaded are loaded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from anabranch.apply.context import ApplyContext
from anabranch.contracts import TargetStore
from anabranch.errors import Redefined, RowRefused
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import component
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState, park
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader


def refused_table(refusal: RowRefused, context: ApplyContext) -> TableId | None:
    """Return the followed table that a refusal is about; the target may use its own name for it."""
    tables = {str(t): t for t in context.tables}
    by_target = {str(f.table.target): t for t, f in context.tables.items()}
    return tables.get(refusal.table or "") or by_target.get(refusal.table or "")


def is_told(refusal: RowRefused, context: ApplyContext, trail: TrailReader, at: Checkpoint) -> bool:
    """Return whether the trail parks the refused table further on, or brings it in again, for another target."""
    table, history = refused_table(refusal, context), trail.history
    return table is not None and bool(history.parked_by(table) or history.joined_after(table, at.position.sequence))


def together(state: TableState, states: Mapping[TableId, TableState]) -> list[TableState]:
    """Return the tables that were parked with this one: at the same place, and connected by foreign keys."""
    same = {t: s for t, s in sorted(states.items()) if s.facts.resumes == state.facts.resumes}
    schemas = {t: s.schema for t, s in same.items() if s.schema}
    return [same[t] for t in sorted(component([state.source], schemas))]


def let_go(
    job: str, store: TargetStore, trail: Path, names: retention.Names, forgotten: Iterable[TableId]
) -> dict[TableId, TableState]:
    """Release the trail for forgotten tables whose state is gone after the commit. Returns the states of the others,
    for which a load had begun before."""
    found = {table: store.states.table(job, table) for table in forgotten}
    for table in (table for table, state in found.items() if state is None):
        retention.unregister(trail, names.table(table))
    return {table: state for table, state in found.items() if state is not None}


def parked_with(
    table: TableId, refusal: RowRefused, at: Position, states: Mapping[TableId, TableState]
) -> list[TableState]:
    """Return the states of the table and of all that are parked with it, at `at`."""
    schemas = {t: state.schema for t, state in states.items() if state.schema and not state.is_parked}
    found = {t: states[t] for t in sorted(component([table], schemas))}  # one that is being loaded goes with it
    may_resume = all(state.is_streaming for state in found.values()) and not isinstance(refusal, Redefined)
    resumes = at.sequence if may_resume else None
    reason = f"{refusal.message} (at {refusal.position or at})"
    with_it = f"foreign keys connect it with {table}, which is parked: {reason}"
    return [park(state, reason if name == table else with_it, resumes) for name, state in found.items()]
