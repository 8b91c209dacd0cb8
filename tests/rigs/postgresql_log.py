"""A PostgreSQL's log, followed through a decoder by a reader of the product: what it gives, up to the log's end."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

from anabranch.connectors.postgresql.source import PostgresSource
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import LogOptions, LogReader, ValueRules
from anabranch.model.endpoint import USUAL, EndLimits
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Chunk
from anabranch.rows.log_items import LogStatement
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

PATIENCE = 240.0


class LogFollower:
    """Set up for all tables that are there, and opened at the log's end; `close` takes away what set-up made."""

    def __init__(self, database: Database, decoder: str, rules: ValueRules = RULES, limits: EndLimits = USUAL) -> None:
        self.connector: PostgresSource = source(  # type: ignore[assignment]  # it is this one
            replace(endpoint_of(database), limits=limits), PostgresSourceOptions(decoder=decoder)
        )
        self.options = LogOptions(1, 0.05, rules, f"anabranch_{database.name[-10:]}")
        with closing(self.connector.catalog()) as catalog:
            self.tables: dict[TableId, TableSchema] = dict(catalog.tables(lambda table: True))
        self.connector.run(self.connector.steps(self.options, self.tables, begins=True), PATIENCE)
        assert self.connector.steps(self.options, self.tables, begins=True) == []
        self.reader: LogReader = self.connector.log(self.options)
        self.reader.start(self.reader.end(), self.tables.get)

    def take(self) -> list[Chunk | LogStatement]:
        """What there is up to the log's end as it is now."""
        end, found = self.reader.end(), list[Chunk | LogStatement]()
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            item = self.reader.read(0.2)
            if isinstance(item, Chunk):
                found.append(item)
            if item is not None and self._is_at(item.resume if isinstance(item, Chunk) else item.mark.resume, end):
                return found
        raise NotInTime("the reader did not come to the log's end")

    def _is_at(self, resume: str, end: LogMark) -> bool:
        return self.connector.order.includes(self.connector.order.mark(resume), end.native, None)

    def close(self) -> None:
        self.reader.close()
        self.connector.remains(self.options.name, remove=True)
        assert self.connector.remains(self.options.name, remove=False) == []
