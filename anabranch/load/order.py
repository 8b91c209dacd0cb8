"""The order of a load: tables that come after others, and tables that need one exact moment, because of cascades the
log leaves out.

A cascade to grandchildren runs over the rows of the table between. Those rows must be known at every place of the log
that the grandchildren replay: so the table between is loaded first, the whole of it, and its window has passed where
theirs begins.

- The order follows what cascades do, not where keys lead: two tables with keys to each other need it too, if only one
  of them can lie between.
- Where both can, no order helps: they are read at the same moment, and loaded as one.
- Tables in a circle of keys are read at one exact moment each.
- So are tables whose rows move along with a parent's changed key, where a replay may move them wrongly (apply's
  takeovers) and reading the row again by its key would not be enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey, TableSchema

UNSEEN = frozenset({Action.CASCADE, Action.SET_NULL})
REMOVED: frozenset[str] = frozenset()
_Change = tuple[TableId, frozenset[str]]
"""Rows of a table change: these columns of theirs, or they are REMOVED."""
_Children = Mapping[TableId, Sequence[tuple[TableId, ForeignKey]]]


@dataclass(frozen=True, slots=True)
class Demand:
    """`exact`: all rows of the table are of one moment that the log knows. `changed_with`: tables above it, whose changes
    change its rows unseen. `together`: itself and others, which have to be of the same moment."""

    table: TableId
    exact: bool
    changed_with: frozenset[TableId] = frozenset()
    together: frozenset[TableId] = frozenset()


def demands(
    tables: Mapping[TableId, TableSchema], logs_cascades: bool, logs_whole_rows: bool = True
) -> list[list[Demand]]:
    """Return the levels to load one after the other; within a level the order does not matter."""
    parents = {t: set() if logs_cascades else _unseen_parents(s, tables) for t, s in tables.items()}
    above = {t: frozenset(_ancestors(t, parents)) for t in tables}
    circular = {t for t in tables if t in above[t]}
    children = _children(tables)
    between = {} if logs_cascades else _between(tables, children)
    levels: dict[int, list[Demand]] = {}
    for table, schema in tables.items():
        exact = not schema.primary_key or table in circular
        exact = exact or (not logs_cascades and _loses_its_rows(schema, tables, children, logs_whole_rows))
        together = _together(table, between)
        demand = Demand(table, exact, above[table], together if len(together) > 1 else frozenset())
        levels.setdefault(_level(table, between), []).append(demand)
    return [levels[number] for number in sorted(levels)]


def _loses_its_rows(
    schema: TableSchema, tables: Mapping[TableId, TableSchema], children: _Children, logs_whole_rows: bool
) -> bool:
    """Return whether a replay could move a row to a wrong parent, and reading the row again would not repair
    everything.

    It would not where the row's key moves with it, where the parent is changed unseen itself, or where the change goes
    on to the row's children. Where the log leaves columns out, any row that comes too late for its change waits to be
    read again, and its children may or may not be taken along.
    """
    keys = [k for k in schema.foreign_keys if k.parent in tables]
    following = [k for k in keys if k.on_update is Action.CASCADE]
    unseen = [REMOVED] if any(k.on_delete is Action.CASCADE for k in keys) else []
    unseen += [frozenset(k.columns) for k in keys if k.on_update in UNSEEN or k.on_delete is Action.SET_NULL]
    takes_along = any(True for columns in unseen for _ in _caused((schema.id, columns), children))
    return (takes_along and not logs_whole_rows) or any(
        takes_along or set(k.columns) & set(schema.primary_key) or _changes_unseen(tables[k.parent], k, tables)
        for k in following
    )


def _changes_unseen(parent: TableSchema, key: ForeignKey, tables: Mapping[TableId, TableSchema]) -> bool:
    """Return whether cascades from above remove the parent's rows, or change what `key` refers to."""
    unseen = [k for k in parent.foreign_keys if k.parent in tables]
    removes = any(k.on_delete is Action.CASCADE for k in unseen)
    touched = {c for k in unseen if k.on_update in UNSEEN or k.on_delete is Action.SET_NULL for c in k.columns}
    return removes or bool(touched & set(key.parent_columns))


def _unseen_parents(schema: TableSchema, tables: Mapping[TableId, TableSchema]) -> set[TableId]:
    return {k.parent for k in schema.foreign_keys if k.parent in tables and {k.on_delete, k.on_update} & UNSEEN}


def _children(tables: Mapping[TableId, TableSchema]) -> _Children:
    """Return the foreign keys that lead to each table."""
    found: dict[TableId, list[tuple[TableId, ForeignKey]]] = {}
    for table, schema in tables.items():
        for key in schema.foreign_keys:
            found.setdefault(key.parent, []).append((table, key))
    return found


def _between(tables: Mapping[TableId, TableSchema], children: _Children) -> dict[TableId, set[TableId]]:
    """Return for each table the tables over whose unseen changes further ones come to it."""
    logged = [(t, what) for t, s in tables.items() for what in (REMOVED, frozenset(c.name for c in s.columns))]
    reached, open_changes = set[_Change](), [one for change in logged for one in _caused(change, children)]
    found: dict[TableId, set[TableId]] = {table: set() for table in tables}
    while open_changes:
        change = open_changes.pop()
        if change in reached:
            continue
        reached.add(change)
        for further in _caused(change, children):
            found[further[0]].add(change[0])
            open_changes.append(further)
    return found


def _caused(change: _Change, children: _Children) -> Iterator[_Change]:
    """Yield the changes that foreign keys make to other rows where rows are removed, or columns of theirs change."""
    parent, columns = change
    for child, key in children.get(parent, ()):
        if columns == REMOVED and key.on_delete is Action.CASCADE:
            yield child, REMOVED
        elif (columns == REMOVED and key.on_delete is Action.SET_NULL) or (
            key.on_update in UNSEEN and columns & set(key.parent_columns)
        ):
            yield child, frozenset(key.columns)


def _ancestors(table: TableId, parents: Mapping[TableId, set[TableId]]) -> set[TableId]:
    found: set[TableId] = set()
    open_tables = list(parents.get(table, ()))
    while open_tables:
        current = open_tables.pop()
        if current not in found:
            found.add(current)
            open_tables.extend(parents.get(current, ()))
    return found


def _level(table: TableId, between: Mapping[TableId, set[TableId]]) -> int:
    """Return the table's level, 0 where nothing has to come first. Tables that must be of the same moment share a level."""
    together = _together(table, between)
    first = {t for one in together for t in between.get(one, ())} - together
    return max((1 + _level(t, between) for t in first), default=0)


def _together(table: TableId, between: Mapping[TableId, set[TableId]]) -> frozenset[TableId]:
    """Return the tables that have to come both before this one and behind it, with itself."""
    first = _ancestors(table, between)
    return frozenset({table} | {t for t in first if table in _ancestors(t, between)})
