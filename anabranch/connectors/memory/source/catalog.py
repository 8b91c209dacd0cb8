"""Definitions of the twin's tables, and what its statements mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from anabranch.connectors.memory.database import Database
from anabranch.connectors.memory.source.capture import mark
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import PairNotes, StandingRow
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.rows.log_items import StatementFacts, StatementKind

_TRUNCATE = re.compile(r"\s*TRUNCATE\s+TABLE\s+(\w+)\s*$", re.IGNORECASE)


class MemoryCatalog:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def log(self) -> MemoryCatalog:
        return self

    @property
    def transactions(self) -> MemoryCatalog:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        with self._database.lock:
            found = [relation.schema for relation in self._database.tables.values()]
        return {schema.id: schema for schema in found if schema is not None and wanted(schema.id)}

    def names(self) -> dict[TableId, str]:
        return dict.fromkeys(self.tables(lambda table: True), "")

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        return dict.fromkeys(set(tables) - self.names().keys(), "")

    def writers(self) -> list[SourceWriter]:
        return []

    def sees_writers(self) -> bool:
        return True

    def pair_notes(self, job: str, limit: int = 0, after: str = "") -> PairNotes:
        return self._database.pair_notes(job, limit, after)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        return self._database.standing(job, limit, after)

    def mark(self) -> LogMark:
        with self._database.lock:
            return mark(self._database.identity, len(self._database.log))

    def logs_whole_rows(self) -> bool:
        return True

    def log_sizes(self) -> dict[str, int]:
        return {}

    def logs_cascades(self) -> bool:
        """Return True: the twin has no foreign-key actions, so every change is in the log."""
        return True

    def prepared(self) -> frozenset[str]:
        """Return none: the twin has one phase."""
        return frozenset()

    def held(self, name: str) -> None:
        return None

    def in_progress(self) -> frozenset[str]:
        return frozenset()

    def who_has(self, transactions: Collection[str]) -> list[str]:
        return []

    def unseen(self, before: LogMark) -> frozenset[str]:
        """Return none: what is in the twin's log is in its tables."""
        return frozenset()

    def close(self) -> None:
        pass


class MemoryDialect:
    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        found = _TRUNCATE.match(sql)
        if found:
            return StatementFacts(StatementKind.TRUNCATE, (TableId(default_schema, found[1]),))
        return StatementFacts(StatementKind.UNKNOWN)

    def shown(self, sql: str) -> str:
        return sql  # the twin's statements hold no values
