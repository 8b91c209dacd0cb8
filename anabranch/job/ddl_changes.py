"""Changes of definitions of the source, and what became of them, as the target has noted it.

What does not live here: the versions of definitions, which the trail has (`view/schema_history.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError
from anabranch.model.ddl_changes import Outcome
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.model.ids import TableId
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

LEFT = "nobody has decided: the table was loaded again, or parked for another reason"


def ddl_changes(job: JobView, table: TableId | None) -> list[DdlChange]:
    """Return what the target has noted, of one source table or of all; [] where the job has never been. Raises ConfigError for
    a table that it knows nothing of."""
    name = job.config.name
    with store_of(job) as store:
        is_there = store.exists()
        found = store.journal.ddl_changes(name, table) if is_there else []
        known = store.states.tables(name, whole=False) if is_there else {}
    if table is not None and not found and table not in known:
        raise ConfigError(
            f"the target has no table {table} of the job", job=name, hint="anabranch status JOB lists them"
        )
    return [_as_of_now(one, known.get(one.source)) for one in found]


def _as_of_now(one: DdlChange, state: TableState | None) -> DdlChange:
    """Return the note; of a table that has left the place where it waited, without coming by the change, with that."""
    waits = state is not None and state.facts.resumes is not None and state.facts.resumes < one.sequence
    if one.outcome is not Outcome.WAITING or waits:
        return one
    return replace(one, outcome=Outcome.PASSED, why=LEFT)
