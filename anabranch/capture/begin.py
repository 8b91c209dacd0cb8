"""Where a new trail begins: a position, and definitions that are valid at it (K19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.abc import LogItem, LogReader, LogStatement, SourceCatalog, SourceConnector
from anabranch.capture.older import PATIENCE, Patience, wait_for_engine, wait_for_older
from anabranch.errors import SchemaError
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Chunk
from anabranch.trail.writer import TrailWriter

TRIES = 5
CHANGES_ROWS = frozenset({"alter", "columns", "drop", "rename", "partition", "create", "unknown"})

Wanted = Callable[[TableId], bool]


@dataclass(frozen=True)
class Definitions:
    """Definitions read between two marks of the log: they hold at `before` if no statement in between touches them."""

    tables: dict[TableId, TableSchema]
    before: LogMark
    after: LogMark


def read_definitions(catalog: SourceCatalog, wanted: Wanted, whole: bool = True) -> Definitions:
    before = catalog.mark()
    tables = catalog.tables(wanted, whole)
    return Definitions(tables, before, catalog.mark())


def begin(
    source: SourceConnector, reader: LogReader, trail: TrailWriter, wanted: Wanted, patience: Patience | None = None
) -> None:
    """Give an empty trail its first position and the definitions in force there; one that has them stays as it is, and so
    does one whose waiting for older transactions is ended (K2, K6)."""
    if trail.end.resume:
        return
    catalog = source.catalog()
    try:
        found = _undisturbed(source, reader, catalog, wanted)
        trail.note_cascades(catalog.logs_cascades())
        patience = patience or Patience(PATIENCE)
        if not (
            wait_for_engine(catalog, found.before, patience) and wait_for_older(catalog, trail, found.before, patience)
        ):
            return
    finally:
        catalog.close()
    for schema in found.tables.values():
        trail.schema(schema)
    trail.heartbeat(found.before)
    trail.flush()


def _undisturbed(source: SourceConnector, reader: LogReader, catalog: SourceCatalog, wanted: Wanted) -> Definitions:
    for _ in range(TRIES):
        found = read_definitions(catalog, wanted)
        if not _touched(source, reader, found, wanted):
            return found
    raise SchemaError(
        f"tables were altered each of the {TRIES} times their definitions were read",
        hint="start again when the schema changes at the source are done",
    )


def _touched(source: SourceConnector, reader: LogReader, found: Definitions, wanted: Wanted) -> bool:
    """Does a statement between the two marks change a replicated table?"""
    if source.order.includes(found.before, found.after.native, None):
        return False
    reader.start(found.before, lambda table: None)
    while True:
        item = reader.read(1.0)
        if isinstance(item, LogStatement):
            facts = source.dialect.facts(item.sql, item.schema)
            if facts.kind in CHANGES_ROWS and (not facts.tables or any(wanted(t) for t in facts.tables)):
                return True
        mark = mark_of(item)
        if mark is not None and source.order.includes(mark, found.after.native, None):
            return False


def mark_of(item: LogItem | None) -> LogMark | None:
    return None if item is None or isinstance(item, Chunk) else item.mark
