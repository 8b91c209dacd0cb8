"""A trail under a test's pen and an Applier that carries it out at a real MySQL or MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch.apply.epoch import Applier
from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.rows.keys import UniqueKey
from anabranch.testing.databases import Database
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import chunk_of, context
from rigs.endpoints import endpoint_of
from rigs.mysql_epoch import in_database


@dataclass
class Carried:
    """Tables of one job, which is named after the database; `options`: of ApplySettings. Its tables are made by the test."""

    database: Database
    directory: Path
    schemas: Sequence[TableSchema]
    policy: ConflictPolicy = STRICT
    unique: frozenset[str] = frozenset()  # columns of unique keys
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = self.database.name[-40:]
        self.endpoint = endpoint_of(self.database)
        self.store = MysqlStore(self.endpoint)
        self.store.prepare()
        self.store.jobs.create_checkpoint(self.job, Position(0), 0)
        for schema in self.schemas:
            target = TableId(self.database.name, schema.id.name)
            self.store.states.save_table(self.job, TableState(schema.id, target, "streaming", schema=schema), None)
        self.trail = TrailWriter.open(self.directory, job=self.job, job_uuid="u", source_identity="s", pack=False)
        for schema in self.schemas:
            self.trail.schema(schema)
        self.reader = TrailReader(self.directory)
        self.applier = self.begin("me")

    def begin(self, owner: str) -> Applier:
        """Return another apply process, which claims the job."""
        known = context(self.schemas)
        of = {
            table: replace(
                followed,
                table=in_database(followed.table, self.database.name),
                on_conflict=self.policy,
                unique_keys=frozenset(UniqueKey(frozenset({name})) for name in self.unique),
            )
            for table, followed in known.tables.items()
        }
        known = replace(known, tables=of)
        if "truncate" in self.options:
            known = replace(known, truncate=self.options["truncate"])
        writer = MysqlWriter(self.endpoint, ValueRules(), True)
        store = MysqlStore(self.endpoint)
        applier = an_applier(self.job, self.reader, writer, store, lambda states: known, owner=owner, **self.options)
        writer.claim(self.job, owner)
        return applier

    def append(
        self, transactions: Sequence[Sequence[tuple[Any, ...]]], truncates: Sequence[tuple[int, str]] = ()
    ) -> int:
        """Add source transactions as chunks.py writes them; of `truncates` (transaction, table) each is behind the rows of its
        transaction. Returns up to where the trail goes then."""
        barriers = [Barrier(tx, 1000, BarrierKind.TRUNCATE, TableId("shop", table)) for tx, table in truncates]
        self.trail.append(chunk_of(transactions, self.schemas, 0, barriers))
        self.trail.flush()
        return self.trail.end.position.sequence

    def apply(self, *transactions: Sequence[tuple[Any, ...]], truncates: Sequence[tuple[int, str]] = ()) -> None:
        self.applier.apply(self.append(transactions, truncates))

    @property
    def checkpoint(self) -> int:
        found = self.store.jobs.checkpoint(self.job)
        assert found is not None
        return found.position.sequence

    def close(self) -> None:
        for part in (self.reader, self.trail, self.applier.progress.writer, self.applier.progress.store, self.store):
            part.close()


def leave(applier: Applier) -> None:
    """End an apply process as SIGKILL does: its line breaks, and nothing is said."""
    writer = applier.progress.writer
    assert isinstance(writer, MysqlWriter)
    if writer._open is not None:
        writer._open._force_close()
    with closing(applier.progress.store):
        pass
