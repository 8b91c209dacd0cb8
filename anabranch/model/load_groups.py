"""Tables that only a load of all of them brings back: foreign keys change rows of one with another's, unseen by the log (K1).

What does not live here: whether the source's log shows these changes (`LogFacts.logs_cascades`), and loading (lifecycle/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema


def closure(above: Mapping[TableId, set[TableId]], table: TableId) -> set[TableId]:
    """Return all tables that can be reached from a table; itself only where a way leads back."""
    found: set[TableId] = set()
    open_tables = list(above.get(table, ()))
    while open_tables:
        current = open_tables.pop()
        if current not in found:
            found.add(current)
            open_tables.extend(above.get(current, ()))
    return found


def cascading_parents(tables: Mapping[TableId, TableSchema], table: TableId) -> set[TableId]:
    """Return the tables whose changes change rows of this one."""
    return {key.parent for key in tables[table].foreign_keys if key.changes_rows} if table in tables else set()


def ancestors(tables: Mapping[TableId, TableSchema], table: TableId) -> set[TableId]:
    """Return the tables whose changes change rows of this one, over all levels."""
    return closure({each: cascading_parents(tables, each) for each in tables}, table)


def parents_first(tables: Iterable[TableId], schemas: Mapping[TableId, TableSchema]) -> list[TableId]:
    """Return the tables in the order in which they are loaded, each once."""
    above = {table: ancestors(schemas, table) - {table} for table in tables}
    return sorted(above, key=lambda table: (len(above[table]), table))


def group_of(table: TableId, schemas: Mapping[TableId, TableSchema], away: Collection[TableId]) -> list[TableId]:
    """Return the tables that have to be loaded with this one, itself included, parents first. `away`: tables that do not come
    into the stream by themselves.

    It cannot be loaded before the tables whose changes change its rows; and one that streams, and has rows that one of these
    changes, would miss what is done to them meanwhile.
    """
    first = {one for one in ancestors(schemas, table) if one in away} | {table}
    beside = {one for one in schemas if one not in away and ancestors(schemas, one) & first}
    return parents_first(first | beside, schemas)


def load_command(tables: Sequence[TableId], recreate: bool = False, with_children: bool = False) -> str:
    """Return the command that loads the tables, as people enter it."""
    named = "".join(f" --table {table.typed}" for table in tables)
    return f"anabranch load JOB{named}{' --recreate' * recreate}{' --with-children' * with_children}"


def linked(table: TableId, schemas: Mapping[TableId, TableSchema]) -> list[TableId]:
    """Return the table and all that such keys connect it with, in either direction, parents first.

    A load of all of them is never refused for one that is missing, whichever of them have been loaded meanwhile.
    """
    beside: dict[TableId, set[TableId]] = {one: cascading_parents(schemas, one) & schemas.keys() for one in schemas}
    for child, parents in [*beside.items()]:
        for parent in [*parents]:
            beside[parent].add(child)
    return parents_first({table, *closure(beside, table)}, schemas)


def with_linked(table: TableId, schemas: Mapping[TableId, TableSchema], logs_cascades: bool) -> str:
    """Return what a command names to load a parked table, for `{table}` in a remedy that stays as it was written."""
    tables = [table] if logs_cascades else linked(table, schemas)
    return " --table ".join(one.typed for one in tables)
