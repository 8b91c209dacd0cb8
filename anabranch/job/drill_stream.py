"""The stream of a drill's own job into the shadow: waiting for its load and for changes, and what keeps it from working.

What does not live here: running the job (drill_child.py), the comparison behind it (drill_looks.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.job.drill_report import DrilledTable
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

TICK = 0.2  # seconds between two looks at states


def streamed(
    made: JobView, ended: Callable[[], str], tables: int, seconds: float, tell: Callable[[str], None]
) -> CheckResult | None:
    """Wait for the load, then until every table had a change or the time is over. Returns what ended it."""
    began = 0.0
    while True:
        states = states_of(made)
        if why := ended():
            hint = "mend it at the source or the target, or leave the table out ([reverse] exclude)"
            return finding("drill.job", f"the job of the way back ended: {why}", hint)
        if (found := parked(made)) is not None:
            return found
        if states and all(state.is_streaming for state in states.values()) and len(states) == tables:
            began = began or time.monotonic()
            changed = sum(state.changes_applied > 0 for state in states.values())
            tell(f"streaming: changes of {changed} of {len(states)} tables have come back")
            if changed == len(states) or time.monotonic() - began > seconds:
                return None
        else:
            loaded = sum(state.is_loaded for state in states.values())
            tell(f"loading the shadow from the target: {loaded} of {tables} tables")
        time.sleep(TICK)


def states_of(job: JobView) -> Mapping[TableId, TableState]:
    """Return the states of a job's tables; none before it has any."""
    with store_of(job) as store:
        return store.states.tables(job.config.name) if store.exists() else {}


def parked(made: JobView) -> CheckResult | None:
    """Find a table that the job could not go on with."""
    for table, state in sorted(states_of(made).items()):
        if state.is_parked:
            hint = "mend what the reason names, at the source or by another type; or [reverse] exclude"
            return finding("drill.parked", f"it does not come back: {state.reason}", hint, str(table))
    return None


def unmoved(tables: Sequence[DrilledTable]) -> Iterator[CheckResult]:
    """Warn of tables of which the stream has shown nothing."""
    for table in tables:
        if not table.changes:
            text = "no change came back in this time: only its load was seen"
            yield CheckResult("drill.changes", CheckVerdict.WARNING, text, "drill for longer (--for 10m)", table.source)


def finding(check: str, message: str, hint: str, table: str = "") -> CheckResult:
    """Return what keeps the way back from working."""
    return CheckResult(check, CheckVerdict.FAILED, message, hint, table)
