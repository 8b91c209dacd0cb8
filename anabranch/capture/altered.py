"""Tables that go on behind a statement which alters them: their next definition is in force from the statement's place on.

Where a log has no statements it shows by a table's rows that they come by other columns. The next definition is then in force
from just before the transaction with the first of them: its rows of before come by what that leaves of their columns.

What does not live here: what a statement means (the source's dialect), what a table is behind one that no log has (the
source's catalogue), tables that park instead (`definitions.py`), what becomes of the target's table (apply).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.capture.kept_catalog import BEHIND_SECONDS, PAUSE, waits_behind
from anabranch.contracts import AlteringDialect, RedefinedCatalog
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.column_changes import (
    BESIDE_COLUMNS,
    PARK,
    TOLD_BY_ROWS,
    Altered,
    ColumnChange,
    changed_names,
    with_those,
)
from anabranch.model.foreign_key_changes import foreign_key_changes, with_former_keys, with_keys_to
from anabranch.rows.chunk import Barrier, BarrierKind

if TYPE_CHECKING:
    from anabranch.capture.kept_catalog import KeptCatalog
    from anabranch.contracts import SourceCatalog
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.rows.log_items import LogRedefined, LogStatement
    from anabranch.trail.writer import TrailWriter


UNTOLD_BY_ROWS = (
    frozenset(ColumnChange) - TOLD_BY_ROWS
)  # rows come whole: who does not follow these need not park for them
MOST = 100  # each is read anew, from the transaction's beginning
BY_ROWS, BY_NOTE = "relation message", "event trigger"  # in place of a statement, where the log has none


def go_on(
    source: KeptCatalog,
    trail: TrailWriter,
    table: TableId,
    statement: LogStatement,
    shown: str,
    follows: frozenset[ColumnChange],
) -> list[Barrier] | None:
    """Put the definition behind the statement in force, and return the barrier that says so; None where it is not certain, []
    where nothing of it is known to the job, or the change is of a kind that is not one of `follows`.

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
    if after is None:
        return None
    found, after = after, _with_keys_that_are_followed(trail, then, after, follows)
    if after.schema is then or not after.kinds - BESIDE_COLUMNS <= follows:
        return []
    if after.kinds and not after.kinds & follows:
        return []
    if _is_referred_to(trail, then, after):
        return []
    left = _left_out(found, after) if ColumnChange.FOREIGN_KEYS in follows else ""
    return [replace(noted(trail, then, after, statement=shown), reason=left)]


def follow(
    source: KeptCatalog, trail: TrailWriter, item: LogRedefined, follows: frozenset[ColumnChange]
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
    after = without(then, after, UNTOLD_BY_ROWS - follows)
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
    if ColumnChange.PARTITIONS not in after.kinds and (then.partition_key or then.partitions):
        schema = replace(schema, partitions=then.partitions)  # whoever looks for them finds what has become of each
    trail.alter(schema, shown, at, after.untold)
    told = changed_names(then, after)
    log.get().info("table_altered", table=str(table), version=schema.version, statement=shown, **told)
    return Barrier(0, 0, BarrierKind.ALTER, table, statement, schema=schema, untold=after.untold)


def without(then: TableSchema, after: Altered, kinds: frozenset[ColumnChange]) -> Altered:
    """Return the change without what it changes of these kinds in columns that stay."""
    former = {column.number: column for column in then.columns if column.number}
    has_default = ColumnChange.DEFAULT in after.kinds - kinds  # which with_those would take with NULL
    columns = []
    for column in after.schema.columns:
        undone = with_those(column, former[column.number], kinds) if column.number in former else column
        columns.append(replace(undone, has_default=column.has_default) if has_default else undone)
    return replace(after, schema=replace(after.schema, columns=tuple(columns)), kinds=after.kinds - kinds)


def _by_rows(source: KeptCatalog, then: TableSchema, item: LogRedefined) -> Altered | str:
    """Ask the catalogue, which may show it a moment later than the log."""

    def behind(catalog: SourceCatalog) -> Altered | str | None:
        if not isinstance(catalog, RedefinedCatalog):
            return "this source does not tell what was altered"
        return catalog.behind(then, item)

    until = time.monotonic() + BEHIND_SECONDS
    source.begin()
    while True:
        found = source.ask(behind)
        if isinstance(found, Altered):
            return found
        if source.renew():
            continue
        if found is not None or time.monotonic() >= until:
            return "the source's catalogue does not show that" if found is None else found
        time.sleep(PAUSE)


def _with_keys_that_are_followed(
    trail: TrailWriter, then: TableSchema, after: Altered, follows: frozenset[ColumnChange]
) -> Altered:
    """Return the change without foreign keys that the job file does not follow, or that come and refer to a table which the job
    does not follow."""
    if ColumnChange.FOREIGN_KEYS not in after.kinds:
        return after
    if ColumnChange.FOREIGN_KEYS in follows:
        schema = with_keys_to(then, after.schema, trail.history.in_force())
    else:
        schema = with_former_keys(then, after.schema)
    is_left = bool(foreign_key_changes(then, schema))
    kinds = after.kinds if is_left else after.kinds - {ColumnChange.FOREIGN_KEYS}
    return replace(after, schema=schema if kinds or schema.checks != then.checks else then, kinds=kinds)


def _left_out(found: Altered, after: Altered) -> str:
    """Return what is noted of foreign keys that come and are left out, with their names."""
    names = [key.name for key in found.schema.foreign_keys if key not in after.schema.foreign_keys]
    return f"{ColumnChange.FOREIGN_KEYS} ({', '.join(names)})" if names else ""


def _is_referred_to(trail: TrailWriter, then: TableSchema, after: Altered) -> bool:
    """Return whether a foreign key of a table that is followed has a column that goes, or gets another name, for its parent."""
    gone = {column.name for column in then.columns} - {column.name for column in after.schema.columns}
    keys = (key for schema in trail.history.in_force().values() for key in schema.foreign_keys)
    return any(key.parent == then.id and not gone.isdisjoint(key.parent_columns) for key in keys)


def _behind(source: KeptCatalog, then: TableSchema, statement: LogStatement) -> Altered | None:
    """Return the table behind the statement. A catalogue may show it a moment later than the log, and no table at all while the
    server alters it again: MariaDB leaves out of information_schema what it cannot lock in time."""
    dialect, begun = source.source.dialect, time.monotonic()
    if not isinstance(dialect, AlteringDialect):
        return None
    source.begin()
    while True:
        now = source.table(then.id)
        found = dialect.altered(statement.sql, statement.schema, then, now) if now else None
        if found is not None:
            return found
        if source.renew():
            continue
        if now is not None and not is_as_before(now, then):
            return None
        if time.monotonic() - begun > (waits_behind(statement.mark.commit_time) if now else BEHIND_SECONDS):
            return None
        time.sleep(PAUSE)


def is_as_before(now: TableSchema, then: TableSchema) -> bool:
    """Return whether a catalogue may not show yet what a statement has made of `then`."""
    return len(now.columns) == len(then.columns) and now.same_definition(then)
