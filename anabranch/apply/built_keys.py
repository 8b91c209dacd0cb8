"""Foreign keys that a job of ours builds at the source while tables stream: from there on they change rows that the log does
not show, so the tables of such a key have to be at the same place (K1).

What does not live here: which statements are a job's (capture), what is done for the keys (`cascades/`).
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext, Followed
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.key_changes import acts
from anabranch.model.schema import ForeignKey
from anabranch.model.table_life import TableState
from anabranch.rows.altered import AlteredTable

NOT_THERE = "its foreign key {key}, which changes rows, refers to {parent}, {why}"


def keys_that_come(altered: AlteredTable) -> list[ForeignKey]:
    """Return the keys that act from the change on."""
    return [key for key in altered.schema.foreign_keys if acts(key) and key not in altered.former.foreign_keys]


def why_not_together(
    altered: AlteredTable, states: Mapping[TableId, TableState], context: ApplyContext, logs_cascades: bool
) -> str:
    """Return why the table cannot go on behind keys that come; "" where it can. `states`: of the tables that are at the same
    place as this one, whose changes are carried out together."""
    if logs_cascades:
        return ""
    table = altered.schema.id
    for key in keys_that_come(altered):
        parent = states.get(key.parent)
        if parent is None or not parent.is_streaming:
            return NOT_THERE.format(key=key.name, parent=key.parent, why="which is parked, or loaded or read again")
        of_parent, of_child = context.tables.get(key.parent), context.tables.get(table)
        if of_parent is None or of_child is None:
            return NOT_THERE.format(key=key.name, parent=key.parent, why="which does not stream with it")
        behind = Followed(altered.schema, altered.table, filter=of_child.filter)
        try:
            rules_of({key.parent: of_parent, table: behind})
        except StateError as error:
            return f"{error.message} ({error.hint})"
    return ""
