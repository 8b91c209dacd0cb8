"""Rows that a load cannot bring over, by `[apply] on_error` (K26): which of them are set aside, and which tables are
parked for one.

What does not live here: setting them aside (load/asides.py), the load itself (loading.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.apply.aside.aside_values import Known, links
from anabranch.errors import RowRefused, ValueRefused
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema, component
from anabranch.model.table_life import TableState, park

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def may_lack(job: JobView, schema: TableSchema, schemas: Mapping[TableId, TableSchema]) -> frozenset[str]:
    """Return source columns without which a row may be set aside. `schemas`: of the job's tables.

    The row has a key then, and every row that has to do with it is found by other columns.
    """
    table = job.rules.target_table(schema)
    if job.config.apply.on_error != "set_aside" or not table.key or job.rules.where(schema) is not None:
        return frozenset()
    every = {**schemas, schema.id: schema}
    found = links(schema.id, {one: Known(known, job.rules.target_table(known)) for one, known in every.items()})
    if any(link.why for link in found):
        return frozenset()
    linked = {name for link in found for name in link.own}
    pairs = zip(table.source_columns, table.columns, strict=True)
    return frozenset(source for source, target in pairs if target not in linked)


def parked_for(
    job: JobView, refusal: ValueRefused | RowRefused, states: Mapping[TableId, TableState]
) -> list[tuple[TableState, TableState]]:
    """Return the states of the table of a row that cannot be loaded, and of those that foreign keys connect it with: as
    they are, and parked.

    [] where the job is to stop: it says so, or some of them are loaded already.
    """
    names = {str(table): table for table in states}  # by source names: a target name may be another source's, too
    table = names.get(refusal.table or "")
    if job.config.apply.on_error == "stop" or table is None:
        return []
    schemas = {one: state.schema for one, state in states.items() if state.schema}
    found = [states[one] for one in sorted(component([table], schemas) | {table}) if not states[one].is_parked]
    if not all(state.is_open for state in found):
        return []
    with_it = f"foreign keys connect it with {table}, which is parked: {refusal.message}"
    parked = []
    for state in found:
        reason = refusal.message if state.source == table else with_it
        log.get(job=job.config.name, table=str(state.source)).warning("table_parked", reason=reason)
        parked.append((state, park(state, reason)))
    return parked
