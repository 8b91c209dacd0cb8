"""Tables that wait for a person in front of a change of a definition, with that change, as `status` shows them.

What does not live here: deciding (`lifecycle/ddl_decisions.py`), the notes themselves (`ddl_changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from anabranch.model.ddl_changes import DdlChange, Outcome
from anabranch.model.status import UndecidedStatus
from anabranch.state.store import time_text

if TYPE_CHECKING:
    from anabranch.contracts import TargetStore
    from anabranch.model.ids import TableId
    from anabranch.model.table_life import TableState


def undecided(store: TargetStore, job: str, states: Iterable[TableState]) -> dict[TableId, UndecidedStatus]:
    """Return the change in front of which each table waits; tables that wait for no decision are not in it. Where none does,
    nothing is asked."""
    waiting = [state for state in states if state.is_asked]
    notes: dict[int, DdlChange] = {}
    for state in waiting:
        if state.facts.asked is not None:
            found = store.journal.ddl_changes(job, state.source)
            notes |= {one.sequence: one for one in found if one.outcome is Outcome.WAITING}
    told = ((state.source, notes.get(_sequence(state))) for state in waiting)
    return {table: _shown(note) for table, note in told if note is not None}


def _sequence(state: TableState) -> int:
    """Return the transaction in front of which it waits: its own change, or that of a table that keys connect it with."""
    return state.facts.asked if state.facts.asked is not None else (state.facts.resumes or 0) + 1


def _shown(note: DdlChange) -> UndecidedStatus:
    return UndecidedStatus(note.number, str(note.source), note.statement, time_text(note.noted_at))
