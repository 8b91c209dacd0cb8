"""Tables that are others than the trail thinks, though no statement of the log says so: altered in a session that logs
nothing (`sql_log_bin = 0`), or by a replica's own hand. A log that names no columns would then be read wrongly where the
types happen to fit (K19, K33).

Looked for at every start, before the first row is read. What does not live here: statements that are in the log
(`definitions.py`), table maps that contradict (the reader's affair).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from anabranch.capture.begin import CHANGES_ROWS, SourceDefinitions, mark_of, read_definitions
from anabranch.contracts import LogReader, SourceConnector
from anabranch.errors import LogLost
from anabranch.model.column_changes import FOLLOWS_NOTHING, Follows, as_rows_tell
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.log_items import LogStatement

REASON = "its definition changed at the source, and no statement of the log says so"


@dataclass(frozen=True)
class Unlogged:
    """`tables`: those that were altered. `found`: what the source has of all of them, where none differs."""

    tables: list[TableId]
    found: SourceDefinitions | None = None


def altered_unlogged(
    source: SourceConnector,
    reader: LogReader,
    after: LogMark,
    in_force: Mapping[TableId, TableSchema],
    stop: Callable[[], bool],
    told: Follows = FOLLOWS_NOTHING,
) -> Unlogged:
    """Return tables of `in_force` that were altered without a statement in the log behind `after`. None if `stop` says
    so. `told`: returns the kinds of changes that a table's rows tell of.

    The log is read only where a definition differs, until each difference is explained; it has to be opened again
    afterwards.
    """
    with closing(source.catalog()) as catalog:
        found = read_definitions(catalog, in_force.__contains__, whole=False)
    now = dict(found.tables)
    for table, schema in found.tables.items():
        if kinds := told(table):
            now[table] = as_rows_tell(in_force[table], schema, kinds)
    changed = [table for table, schema in in_force.items() if table not in now or not schema.reads_like(now[table])]
    if not changed:
        return Unlogged([], found)
    left = set(changed)
    for table in _named(source, reader, after, found.after, changed, stop):
        left.discard(table)
        if not left:
            break
    return Unlogged([] if stop() else [table for table in changed if table in left])


def _reaches(source: SourceConnector, mark: LogMark, end: LogMark) -> bool:
    """Return whether the mark contains the end. False where the server was switched: its log does not know the mark."""
    try:
        return source.order.includes(mark, end.native, None)
    except LogLost:
        return False


def _named(
    source: SourceConnector,
    reader: LogReader,
    after: LogMark,
    end: LogMark,
    tables: Iterable[TableId],
    stop: Callable[[], bool],
) -> Iterable[TableId]:
    """Yield the tables that a statement between the two marks may have altered."""
    mark = after
    reader.start(after, lambda table: None)
    while not _reaches(source, mark, end) and not stop():
        item = reader.read(1.0)
        if isinstance(item, LogStatement):
            facts = source.dialect.facts(item.sql, item.schema)
            if facts.kind in CHANGES_ROWS:
                yield from facts.tables or (t for t in tables if facts.schema in ("", t.schema))
        mark = mark_of(item) or mark
