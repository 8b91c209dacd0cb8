"""Tables for which a job of ours, whose target is this source, builds keys or defaults, or takes them off: they go on.

Rows stay as they are, and come as before; a foreign key acts from the statement's place on. What does not live here: statements
of others (`altered.py`, `definitions.py`), which of ours say so (`mysql/target`), what becomes of the target's table: nothing.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.capture.altered import noted
from anabranch.capture.kept_catalog import BEHIND_SECONDS, OLD_SECONDS, PAUSE, waits_behind
from anabranch.contracts import BuiltDialect
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.column_changes import ColumnChange, with_those
from anabranch.model.key_changes import acts, may_become
from anabranch.model.markers import is_job
from anabranch.model.schema import TableSchema

if TYPE_CHECKING:
    from anabranch.capture.kept_catalog import KeptCatalog
    from anabranch.model.column_changes import Altered
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.rows.chunk import Barrier
    from anabranch.rows.log_items import LogStatement
    from anabranch.trail.writer import TrailWriter

DEFAULTS = frozenset({ColumnChange.DEFAULT})
Ahead = tuple["LogMark", TableSchema]
"""A definition that is ahead of the log, and the place that the log had when it was read."""


def go_on(
    source: KeptCatalog, trail: TrailWriter, table: TableId, statement: LogStatement, shown: str
) -> list[Barrier] | None:
    """Put the definition behind a job's statement in force, and return the barrier that says so; [] where it is the same; None
    for any other statement, and where it is not certain: a key that acts refers to a table that is not followed, or a
    transaction that was prepared before the statement may be decided behind it."""
    dialect = source.source.dialect
    if (
        not (isinstance(dialect, BuiltDialect) and is_job(statement.origin))
        or statement.is_inside
        or trail.staging.waits
    ):
        return None
    in_force = trail.history.in_force()
    then = in_force[table]
    try:
        after = _behind(source, dialect, then, statement)
    except SourceUnavailable:
        raise
    except SourceError as refused:  # the user may not see all of the table any more
        log.get().warning("definition_not_read", table=str(table), reason=refused.message)
        return None
    if after is None or any(acts(key) and key.parent not in in_force for key in after.schema.foreign_keys):
        return None
    return [] if after.schema == then else [noted(trail, then, after, statement=shown)]


def _behind(source: KeptCatalog, dialect: BuiltDialect, then: TableSchema, statement: LogStatement) -> Altered | None:
    """Return the table behind the statement, which the catalogue may show a moment later than the log."""
    begun = time.monotonic()
    source.begin()
    while True:
        now = source.table(then.id)
        found = dialect.built(statement.sql, statement.schema, then, now) if now else None
        if found is not None and found.schema != then:
            return found
        if source.renew():
            continue
        waits = waits_behind(statement.mark.commit_time) if now is None else min(OLD_SECONDS, BEHIND_SECONDS)
        if time.monotonic() - begun > waits:
            return found
        time.sleep(PAUSE)


def is_of_building(then: TableSchema, now: TableSchema, kinds: frozenset[ColumnChange]) -> bool:
    """Return whether all that keeps a table from being followed on by the definition `then` is what a job may build, or take
    off: foreign keys that act, and defaults."""
    former = {column.name: column for column in then.columns}
    columns = (with_those(c, former[c.name], DEFAULTS) if c.name in former else c for c in now.columns)
    return may_become(then, replace(now, columns=tuple(columns), foreign_keys=then.foreign_keys), kinds)


def acts_otherwise(then: TableSchema, now: TableSchema) -> bool:
    """Return whether foreign keys that act have come or gone between two definitions of a table."""
    before, behind = ([key for key in table.foreign_keys if acts(key)] for table in (then, now))
    return sorted(before, key=repr) != sorted(behind, key=repr)
