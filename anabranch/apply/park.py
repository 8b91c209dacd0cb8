"""Which tables are taken out when the target refuses a row of one (K15, K26), and how they are to come back. Pure.

Parked are the table and all that foreign keys connect it with: half of them would not be consistent. What streamed can go
on where it stands, once the target takes it; what was being loaded is loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.abc import RESUMES, TableState
from anabranch.apply.context import ApplyContext
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import component


def refused_table(refusal: TargetError, context: ApplyContext) -> TableId | None:
    """The table that is followed and that the target refuses something of; it may say its own name for it."""
    tables = context.tables.items()
    return next((t for t, f in tables if refusal.table in (str(t), str(f.table.target))), None)


def parked_with(
    table: TableId, refusal: TargetError, at: Position, states: Mapping[TableId, TableState]
) -> list[TableState]:
    """The states of the table and all that goes with it, parked at `at`."""
    schemas = {t: state.schema for t, state in states.items() if state.schema and state.state != "parked"}
    found = {t: states[t] for t in sorted(component([table], schemas))}  # one that is being loaded goes with it
    may_resume = all(state.state == "streaming" for state in found.values())
    facts = {RESUMES: str(at.sequence)} if may_resume else {}
    reason = f"{refusal.message} (at {refusal.position or at})"
    with_it = f"foreign keys connect it with {table}, which is parked: {reason}"
    return [
        replace(
            state,
            state="parked",
            low="",
            high="",
            reason=reason if name == table else with_it,
            facts={**state.facts, **facts},
        )
        for name, state in found.items()
    ]
