"""A job's state and one open epoch at a real MySQL or MariaDB, for tests of what a Writer does inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.options import USUAL
from anabranch.connectors.mysql.target.staging import NOT_YET
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.contracts import Conflict, ValueRules
from anabranch.errors import TargetBusy
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from rigs.endpoints import endpoint_of

RULES = ValueRules()


@dataclass
class Epoch:
    """`writer` has an open epoch of `job`, which is named after the database."""

    database: Database
    endpoint: Endpoint
    writer: MysqlWriter
    now: Checkpoint  # as it was committed last

    @property
    def job(self) -> str:
        return self.database.name

    def table(self, table: TargetTable) -> TargetTable:
        """The same table in the database of this test."""
        return in_database(table, self.database.name)

    def run(self, change: Callable[[MysqlWriter], Any]) -> Any:
        """Carry out something in the epoch, commit it, and begin the next one. Where a server makes staging tables between
        transactions alone, it is tried again with them."""
        for _ in range(10):
            try:
                found = change(self.writer)
            except (Conflict, TargetBusy) as error:
                if NOT_YET not in str(error):
                    raise
                self.again()
            else:
                self.commit()
                return found
        raise AssertionError("staging tables are asked for again and again")

    def commit(self) -> None:
        self.writer.commit()
        self.now = self.then
        self.begin()

    def begin(self) -> None:
        assert self.writer.begin(self.now, self.then) == "open"

    def again(self) -> None:
        """Take back what the epoch has done, and begin it once more."""
        self.writer.rollback()
        self.begin()

    @property
    def then(self) -> Checkpoint:
        return Checkpoint("me", self.now.epoch + 1, Position(self.now.position.sequence + 1))


def in_database(table: TargetTable, database: str) -> TargetTable:
    names = table.columns
    return TargetTable(table.source, TableId(database, table.target.name), names, table.types, table.key, names)


@contextmanager
def state_at(endpoint: Endpoint, job: str) -> Iterator[MysqlStore]:
    """The state of a job that has begun, removed at the end."""
    with closing(MysqlStore(endpoint)) as store:
        store.prepare()
        store.jobs.save_job(job, {"uuid": job, "source_identity": "", "definition": "{}"})
        store.jobs.create_checkpoint(job, Position(0), 0)
        yield store
        store.jobs.drop(job)


@contextmanager
def epoch_at(database: Database, bypasses: bool = True) -> Iterator[Epoch]:
    """An epoch with foreign keys off, or, without `bypasses`, acting."""
    endpoint = endpoint_of(database)
    with state_at(endpoint, database.name), closing(MysqlWriter(endpoint, RULES, bypasses, USUAL)) as writer:
        found = Epoch(database, endpoint, writer, writer.claim(database.name, "me"))
        found.begin()
        yield found
        writer.rollback()
