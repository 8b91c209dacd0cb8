"""Begins a new trail: a position, and definitions that are valid at it (K19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anabranch.capture.older import PATIENCE, OlderPatience, wait_for_engine, wait_for_older
from anabranch.contracts import LogReader, SourceCatalog, SourceConnector
from anabranch.errors import SchemaError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Chunk
from anabranch.rows.log_items import LogDecided, LogItem, LogPrepared, LogStatement, StatementKind
from anabranch.trail.writer import TrailWriter

TRIES = 5
CHANGES_ROWS = frozenset(StatementKind) - {StatementKind.TRUNCATE, StatementKind.DATA, StatementKind.HARMLESS}

Wanted = Callable[[TableId], bool]


@dataclass(frozen=True)
class SourceDefinitions:
    """Definitions read between two marks of the log: they hold at `before` if no statement in between touches them."""

    tables: dict[TableId, TableSchema]
    before: LogMark
    after: LogMark


def read_definitions(catalog: SourceCatalog, wanted: Wanted, whole: bool = True) -> SourceDefinitions:
    before = catalog.mark()
    tables = catalog.tables(wanted, whole)
    return SourceDefinitions(tables, before, catalog.mark())


def begin(
    source: SourceConnector,
    reader: LogReader,
    trail: TrailWriter,
    wanted: Wanted,
    patience: OlderPatience | None = None,
) -> None:
    """Give an empty trail its first position and the definitions in force there; one that has them stays as it is, and so
    does one whose waiting for older transactions is ended (K2, K6)."""
    if trail.end.resume:
        return
    catalog = source.catalog()
    patience = patience or OlderPatience(PATIENCE)
    try:
        begun = _undisturbed(source, reader, catalog, wanted, patience)
        if begun is None:
            return
        found, older = begun
        trail.note_cascades(catalog.log.logs_cascades())
        start = found.before
        if not (wait_for_engine(catalog, start, patience) and wait_for_older(catalog, trail, start, older, patience)):
            return
    finally:
        catalog.close()
    reach("capture.begin.read")
    for schema in found.tables.values():
        trail.schema(_as_noted(schema, trail.history.latest(schema.id)))
    trail.heartbeat(found.before)
    reach("capture.begin.noted")
    trail.flush()


def _as_noted(schema: TableSchema, former: TableSchema | None) -> TableSchema:
    """Return the definition with its version: a former start that failed may have noted another definition."""
    if former is None:
        return schema
    is_same = replace(schema, version=former.version) == former
    return former if is_same else replace(schema, version=former.version + 1)


def _undisturbed(
    source: SourceConnector, reader: LogReader, catalog: SourceCatalog, wanted: Wanted, patience: OlderPatience
) -> tuple[SourceDefinitions, frozenset[str]] | None:
    """Return definitions that no statement changed meanwhile, and the prepared transactions that may still be decided.
    None: stopped.

    Prepared transactions are listed before the definitions are read, and those that the log prepares meanwhile are
    added. Asked for only afterwards, one that ended meanwhile would be missed.
    """
    for _ in range(TRIES):
        earlier = catalog.mark()
        if not wait_for_engine(catalog, earlier, patience):
            return None
        older = set(catalog.transactions.prepared() or ())
        found = read_definitions(catalog, wanted)
        if not _touched(source, reader, earlier, found, wanted, older):
            return found, frozenset(older)
    raise SchemaError(
        f"tables were altered each of the {TRIES} times their definitions were read",
        hint="start again when the schema changes at the source are done",
    )


def _touched(
    source: SourceConnector,
    reader: LogReader,
    earlier: LogMark,
    found: SourceDefinitions,
    wanted: Wanted,
    older: set[str],
) -> bool:
    """Return whether a statement between the two marks of `found` changes a replicated table.

    Updates `older` to the transactions that are prepared at the first of the marks.
    """
    if source.order.includes(earlier, found.after.native, None):
        return False
    reader.start(earlier, lambda table: None)
    while True:
        item = reader.read(1.0)
        mark = mark_of(item)
        if mark is None:
            continue
        is_before = source.order.includes(found.before, mark.native, None)
        if isinstance(item, LogPrepared) and is_before and item.xid:
            older.add(item.xid)
        elif isinstance(item, LogDecided) and is_before:
            older.discard(item.xid)
        elif isinstance(item, LogStatement) and not is_before:
            facts = source.dialect.facts(item.sql, item.schema)
            if facts.kind in CHANGES_ROWS and (not facts.tables or any(wanted(t) for t in facts.tables)):
                return True
        if source.order.includes(mark, found.after.native, None):
            return False


def mark_of(item: LogItem | None) -> LogMark | None:
    return None if item is None or isinstance(item, Chunk) else item.mark
