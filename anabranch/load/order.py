"""Which tables have to be loaded after which, and which need one exact moment, because of cascades the log leaves out.

A cascade to grandchildren runs over the rows of the table between. Those rows must be known at every place of the log
that the grandchildren replay: the table between is loaded first, the whole of it, so that its window has passed where
theirs begins. Where foreign keys lead in a circle no order helps: such a table is read at one exact moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.model.schema import Action, TableSchema

UNSEEN = frozenset({Action.CASCADE, Action.SET_NULL})


@dataclass(frozen=True, slots=True)
class Demand:
    """`exact`: all rows of the table are of one moment that the log knows."""

    table: TableId
    exact: bool


def demands(tables: Mapping[TableId, TableSchema], logs_cascades: bool) -> list[list[Demand]]:
    """Levels to load one after the other; within a level in any order."""
    parents = {t: set() if logs_cascades else _unseen_parents(s, tables) for t, s in tables.items()}
    circular = {t for t in tables if t in _ancestors(t, parents)}
    levels: dict[int, list[Demand]] = {}
    for table, schema in tables.items():
        exact = not schema.primary_key or table in circular
        levels.setdefault(_level(table, parents, circular), []).append(Demand(table, exact))
    return [levels[number] for number in sorted(levels)]


def _unseen_parents(schema: TableSchema, tables: Mapping[TableId, TableSchema]) -> set[TableId]:
    return {k.parent for k in schema.foreign_keys if k.parent in tables and {k.on_delete, k.on_update} & UNSEEN}


def _ancestors(table: TableId, parents: Mapping[TableId, set[TableId]]) -> set[TableId]:
    found: set[TableId] = set()
    open_tables = list(parents[table])
    while open_tables:
        current = open_tables.pop()
        if current not in found:
            found.add(current)
            open_tables.extend(parents[current])
    return found


def _level(table: TableId, parents: Mapping[TableId, set[TableId]], circular: set[TableId]) -> int:
    """0 for tables whose unseen parents have no unseen parents themselves; circles count as one level."""
    between = [parent for parent in parents[table] if parents[parent] and parent not in circular]
    return max((1 + _level(parent, parents, circular) for parent in between), default=0)
