"""Tables that the source drops or renames while its log is read, and that are followed up to there: from the statement on there
is no definition of them under their names, and each target decides what becomes of its table.

What does not live here: which statement drops tables (the source's dialect), tables that park instead (`definitions.py`), what
a target does (apply).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.model.column_changes import ColumnChange, Follows, Untold
from anabranch.rows.chunk import Barrier, BarrierKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.trail.writer import TrailWriter

GONE, COMES = Untold(dropped=True), Untold(created=True)


def leave(trail: TrailWriter, tables: Collection[TableId], shown: str, follows: Follows) -> list[Barrier] | str:
    """Note that these tables, which are in force, are gone, and return the barriers that say so; [] where the job
    file parks one of them, and why where it is not certain that they may go. `shown`: the statement as people may see it."""
    if any(ColumnChange.DROP_TABLE not in follows(table) for table in tables):
        return []
    if why := _why_not(trail, tables):
        return why
    barriers = []
    for place, table in enumerate(sorted(tables)):
        then = trail.history.in_force()[table]
        schema = then.with_version(then.version + 1)
        trail.alter(schema, shown, untold=GONE)
        barriers.append(Barrier(0, place, BarrierKind.ALTER, table, shown, schema=schema, untold=GONE))
        log.get().info("table_dropped", table=str(table), statement=shown)
    return barriers


def move(trail: TrailWriter, renames: Mapping[TableId, TableId], shown: str) -> list[Barrier] | str:
    """Note that tables, which are in force, have other names, none of which is one that the history knows; return the barriers
    that say so, or why it is not certain that they may go on. `shown`: the statement as people may see it."""
    in_force = trail.history.in_force()
    if connected := sorted(map(str, (t for t in renames if in_force[t].foreign_keys or _refers(in_force, t)))):
        return f"foreign keys connect {connected[0]} with other tables"
    if why := _why_not(trail, renames):
        return why
    barriers: list[Barrier] = []
    for table, to in renames.items():
        then, known = in_force[table], trail.history.latest(to)
        untold = Untold(dropped=True, moved=str(to))
        gone = then.with_version(then.version + 1)
        schema = replace(then, id=to).with_version(known.version + 1 if known else 1)
        trail.alter(gone, shown, untold=untold)
        trail.alter(schema, shown, untold=COMES)
        barriers.append(Barrier(0, len(barriers), BarrierKind.ALTER, table, shown, schema=gone, untold=untold))
        barriers.append(Barrier(0, len(barriers), BarrierKind.ALTER, to, shown, schema=schema, untold=COMES))
        log.get().info("table_renamed", table=str(table), to=str(to), statement=shown)
    return barriers


def _refers(in_force: Mapping[TableId, TableSchema], table: TableId) -> bool:
    return any(key.parent == table for schema in in_force.values() for key in schema.foreign_keys)


def _why_not(trail: TrailWriter, tables: Collection[TableId]) -> str:
    in_force = trail.history.in_force()
    others = (schema for table, schema in in_force.items() if table not in tables)
    if refers := sorted(str(s.id) for s in others if any(key.parent in tables for key in s.foreign_keys)):
        return f"foreign keys of {', '.join(refers)} refer to it"
    if copies := sorted(str(c) for c, e in trail.history.copies().items() if e.schema and e.schema.id in tables):
        return f"{copies[0]} is a copy of it that a tool may bring in"
    return "a prepared transaction with rows of the job is open" if trail.staging.waits else ""
