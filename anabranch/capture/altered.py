"""Tables that go on behind a statement which alters them: their next definition is in force from the statement's place on.

Where a log has no statements it shows by a table's rows that they come by other columns. The next definition is then in force
from just before the transaction with the first of them: its rows of before come by what that leaves of their columns.

What does not live here: what a statement means (the source's dialect), what a table is behind one that no log has (the
source's catalogue), tables that park instead (`definitions.py`), what becomes of the target's table (apply).
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.capture.begin import read_definitions
from anabranch.contracts import AlteringDialect, RedefinedCatalog
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.column_changes import (
    PARK,
    TOLD_BY_ROWS,
    Altered,
    ColumnChange,
    changed_names,
    with_those,
)
from anabranch.rows.chunk import Barrier, BarrierKind

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.rows.log_items import LogRedefined, LogStatement
    from anabranch.trail.writer import TrailWriter


UNTOLD_BY_ROWS = (
    frozenset(ColumnChange) - TOLD_BY_ROWS
)  # rows come whole: who does not follow these need not park for them
BEHIND_SECONDS = 5.0  # for so long a catalogue that still shows the former definition is asked again
PAUSE = 0.05
MOST = 100  # each is read anew, from the transaction's beginning
BY_ROWS, BY_NOTE = "relation message", "event trigger"  # in place of a statement, where the log has none


def go_on(
    source: SourceConnector,
    trail: TrailWriter,
    table: TableId,
    statement: LogStatement,
    shown: str,
    follows: frozenset[ColumnChange],
) -> list[Barrier]:
    """Put the definition behind the statement in force, and return the barrier that says so; [] where it is not certain, or the
    change is of a kind that is not one of `follows`.

    `shown`: the statement as people may see it. A prepared transaction with rows of the job may have some of the former
    definition, and is decided behind the statement: then nothing goes on.
    """
    then = trail.history.in_force()[table]
    try:
        after = None if trail.staging.waits else _behind(source, then, statement)
    except SourceUnavailable:
        raise
    except SourceError as refused:  # the user may not see all of the table any more
        log.get().warning("definition_not_read", table=str(table), reason=refused.message)
        after = None
    if after is None or not after.kinds <= follows or _is_referred_to(trail, then, after):
        return []
    return [noted(trail, then, after, statement=shown)]


def follow(
    source: SourceConnector, trail: TrailWriter, item: LogRedefined, follows: frozenset[ColumnChange]
) -> Barrier | str:
    """Put the definition that the table's rows come by in force, and return the barrier that says so; or why it is not certain,
    or not followed: the change is of a kind that is not one of `follows`.

    The barrier has no statement: it is put where the log has nothing."""
    then = trail.history.in_force()[item.table]
    if len(trail.history.altered_at(item.native).get(item.table, ())) >= MOST:
        return f"one transaction alters it more than {MOST} times"
    try:
        after = _by_rows(source, then, item)
    except SourceUnavailable:
        raise
    except SourceError as refused:
        return refused.message
    if isinstance(after, str):
        return after
    after = _without(then, after, UNTOLD_BY_ROWS - follows)
    if others := sorted(after.kinds - follows):
        return f'[ddl] {others[0]} is "{PARK}"'
    if not after.kinds:
        return "it is not told what was altered"
    if _is_referred_to(trail, then, after):
        return "a foreign key of another table refers to what was altered"
    return noted(trail, then, after, at=item.native, by=BY_NOTE if item.note else BY_ROWS)


def noted(
    trail: TrailWriter, then: TableSchema, after: Altered, statement: str = "", at: str = "", by: str = BY_ROWS
) -> Barrier:
    """Put the next definition of a table in force, and return the barrier that says so."""
    schema, table, shown = after.schema.with_version(then.version + 1), then.id, statement or by
    trail.alter(schema, shown, at, after.untold)
    told = changed_names(then, after)
    log.get().info("table_altered", table=str(table), version=schema.version, statement=shown, **told)
    return Barrier(0, 0, BarrierKind.ALTER, table, statement, schema=schema, untold=after.untold)


def _without(then: TableSchema, after: Altered, kinds: frozenset[ColumnChange]) -> Altered:
    """Return the change without what it changes of these kinds in columns that stay."""
    former = {column.number: column for column in then.columns if column.number}
    columns = (with_those(c, former[c.number], kinds) if c.number in former else c for c in after.schema.columns)
    return replace(after, schema=replace(after.schema, columns=tuple(columns)), kinds=after.kinds - kinds)


def _by_rows(source: SourceConnector, then: TableSchema, item: LogRedefined) -> Altered | str:
    """Ask the catalogue, which may show it a moment later than the log."""
    until = time.monotonic() + BEHIND_SECONDS
    with closing(source.catalog()) as catalog:
        if not isinstance(catalog, RedefinedCatalog):
            return "this source does not tell what was altered"
        while (found := catalog.behind(then, item)) is None and time.monotonic() < until:
            time.sleep(PAUSE)
    return "the source's catalogue does not show that" if found is None else found


def _is_referred_to(trail: TrailWriter, then: TableSchema, after: Altered) -> bool:
    """Return whether a foreign key of a table that is followed has a column that goes, or gets another name, for its parent."""
    gone = {column.name for column in then.columns} - {column.name for column in after.schema.columns}
    keys = (key for schema in trail.history.in_force().values() for key in schema.foreign_keys)
    return any(key.parent == then.id and not gone.isdisjoint(key.parent_columns) for key in keys)


def _behind(source: SourceConnector, then: TableSchema, statement: LogStatement) -> Altered | None:
    """Return the table behind the statement. A catalogue may show it a moment later than the log, for as long as a replica
    is waited for that has to answer first, and no table at all while the server alters it again: MariaDB leaves out of
    information_schema what it cannot lock in time."""
    dialect, until = source.dialect, time.monotonic() + BEHIND_SECONDS
    if not isinstance(dialect, AlteringDialect):
        return None
    with closing(source.catalog()) as catalog:
        while True:
            now = read_definitions(catalog, then.id.__eq__).tables.get(then.id)
            found = dialect.altered(statement.sql, statement.schema, then, now) if now else None
            is_late = now is None or (len(now.columns) == len(then.columns) and now.same_definition(then))
            if found is not None or not is_late or time.monotonic() > until:
                return found
            time.sleep(PAUSE)
