"""A database whose log is read through each decoder of PostgreSQL, and what a chunk of it says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from anabranch.connectors.postgresql.source import PostgresSource
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.decoders import DECODERS
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import LogOptions, LogReader
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

PATIENCE = 240.0
NAMES = tuple(DECODERS)
Change = tuple[Any, ...]


class Rig:
    """A database with a slot of each decoder; `read` gives what each has since, transaction by transaction."""

    def __init__(self, database: Database, decoders: Sequence[str]) -> None:
        self.database, self.decoders, self.leave_out = database, decoders, frozenset[str]()
        self.connector: PostgresSource = source(endpoint_of(database))  # type: ignore[assignment]  # it is this one
        with closing(self.connector.catalog()) as catalog:
            self.tables = catalog.tables(lambda table: table.name != "other")
        for decoder in decoders:
            one, options = self.by(decoder), self.options(decoder)
            one.run(one.steps(options, self.tables, begins=True), PATIENCE)
            assert one.steps(options, self.tables, begins=True) == []
        with closing(self.connector.log(self.options(NAMES[0]))) as reader:
            self.begin = reader.end()

    def options(self, decoder: str) -> LogOptions:
        name = f"anabranch_{decoder}_{self.database.name[-10:]}"
        return LogOptions(1, 0.05, RULES, name, leave_out=self.leave_out)

    def by(self, decoder: str) -> PostgresSource:
        """The source of a job that has chosen this decoder."""
        return replace(self.connector, options=PostgresSourceOptions(decoder=decoder))

    def drop(self) -> None:
        for decoder in self.decoders:
            self.connector.remains(self.options(decoder).name, remove=True)
            assert self.connector.remains(self.options(decoder).name, remove=False) == []

    def read(self) -> dict[str, list[list[Change]]]:
        return {decoder: self.read_by(decoder) for decoder in self.decoders}

    def read_by(self, decoder: str) -> list[list[Change]]:
        with closing(self.by(decoder).log(self.options(decoder))) as reader:
            reader.start(self.begin, self.tables.get)
            return [change for chunk in self.chunks(reader) for change in changes(chunk, self.tables)]

    def chunks(self, reader: LogReader) -> Iterator[Chunk]:
        end, give_up = reader.end(), time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            item = reader.read(0.2)
            if isinstance(item, Chunk):
                yield item
            if item is not None:
                mark = self.connector.order.mark(item.resume if isinstance(item, Chunk) else item.mark.resume)
                if self.connector.order.includes(mark, end.native, None):
                    return
        raise NotInTime("the reader did not come to the log's end")


def changes(chunk: Chunk, tables: dict[TableId, TableSchema]) -> list[list[Change]]:
    """By transaction what happens in it, in its order: images with what is there of them."""
    found: list[list[Any]] = [[] for _ in range(chunk.transactions.num_rows)]
    for one in chunk.tables:
        names = [column.name for column in tables[one.table].columns]
        for row in one.batch.to_pylist():
            shape, values = one.shapes[row["_shape"]], [repr(value) for value in list(row.values())[META:]]
            unchanged = shape.unchanged or (False,) * len(names)
            image = {
                name: "unchanged" if u else value
                for name, value, p, u in zip(names, values, shape.present, unchanged, strict=True)
                if p or u
            }
            found[row["_tx"]].append((row["_ordinal"], one.table.name, Op(row["_op"]).name, image))
    for barrier in chunk.barriers:
        found[barrier.tx].append((barrier.ordinal, barrier.table.name, barrier.kind.value, barrier.reason))
    natives = [tuple(row.values())[:3] for row in chunk.transactions.to_pylist()]
    return [[natives[place], *sorted(some, key=lambda one: (one[0], one[1]))] for place, some in enumerate(found)]
