"""Questions to the source about the labels that its types have now. A row may hold a label that the target's type
lacks, since no log tells of ALTER TYPE. What does not live here: how the target gets them (the connector's
`labels.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from anabranch.contracts import Needed, SourceConnector
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState


def needed_now(source: SourceConnector, states: Callable[[], Mapping[TableId, TableState]]) -> Needed:
    """Return the function that asks the source for the types a table needs. For a table that never needed one it asks
    nothing."""

    def needed(table: TableId) -> tuple[TableSchema, TableSchema] | None:
        state = states().get(table)
        if state is None or state.schema is None or not state.schema.needs:
            return None
        with closing(source.catalog()) as catalog:
            found = catalog.tables(lambda one: one == table).get(table)
        return (state.schema, found) if found is not None else None

    return needed
