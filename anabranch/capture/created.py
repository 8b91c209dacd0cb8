"""Tables that the source makes while its log is read: their definition is in force from the statement on, so that their first
row comes as any other.

The catalogue says what a table is, the statement whether it was that from its first row on. What does not live here: what a
statement says (the source's dialect), tables that nobody has told of (`newcomers.py`), what the target does (apply).
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.capture.begin import read_definitions
from anabranch.capture.kept_catalog import BEHIND_SECONDS, PAUSE, YOUNG_SECONDS
from anabranch.contracts import CreatingDialect
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.column_changes import Untold
from anabranch.model.key_changes import acts
from anabranch.model.writers import own_targets
from anabranch.rows.chunk import Barrier, BarrierKind

if TYPE_CHECKING:
    from anabranch.capture.begin import SourceDefinitions
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.rows.log_items import LogStatement
    from anabranch.trail.writer import TrailWriter


def take_in(
    source: SourceConnector, trail: TrailWriter, table: TableId, statement: LogStatement, shown: str
) -> tuple[Barrier, LogMark] | None:
    """Put the definition of a new table in force, and return the barrier that says so, with the place of the log behind which
    the definition was read; None where it is not certain. `shown`: the statement as people may see it. Raises
    SourceUnavailable."""
    try:
        found = _read(source, trail, table, statement.mark.commit_time)
    except SourceUnavailable:
        raise
    except SourceError as refused:
        log.get().warning("definition_not_read", table=str(table), reason=refused.message)
        return None
    now = found.tables.get(table) if found else None
    if found is None or now is None or not _is_followed(source, trail, now, statement):
        return None
    former = trail.history.latest(table)  # of one that was dropped
    untold, schema = Untold(created=True), now.with_version(former.version + 1 if former else 1)
    trail.alter(schema, shown, untold=untold)
    log.get().info("table_taken_in", table=str(table), statement=shown)
    return Barrier(0, 0, BarrierKind.ALTER, table, shown, schema=schema, untold=untold), found.after


def _read(source: SourceConnector, trail: TrailWriter, table: TableId, commit_time: int) -> SourceDefinitions | None:
    """Ask the catalogue, which may show it a moment later than the log: it is waited for if the statement is young, by its
    `commit_time` in microseconds, 0 if unknown. A table that was made longer ago, and is in no catalogue, is gone. None for a
    table that the job writes itself."""
    is_young = not commit_time or time.time() - commit_time / 1e6 < YOUNG_SECONDS
    until = time.monotonic() + (BEHIND_SECONDS if is_young else 0.0)
    with closing(source.catalog()) as catalog:
        if table in own_targets(catalog.writers(), trail.job_uuid):
            return None
        while True:
            found = read_definitions(catalog, table.__eq__)
            if found.tables or time.monotonic() >= until:
                return found
            time.sleep(PAUSE)


def _is_followed(source: SourceConnector, trail: TrailWriter, now: TableSchema, statement: LogStatement) -> bool:
    """Return whether the table is just what the statement made, and nothing changes its rows that no log has."""
    dialect, known = source.dialect, trail.history.in_force()
    if not isinstance(dialect, CreatingDialect) or now.row_end or any(map(acts, now.foreign_keys)):
        return False
    return dialect.creates(statement.sql, statement.schema, now, known)
