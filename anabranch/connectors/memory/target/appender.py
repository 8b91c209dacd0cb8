"""Appender of the twin: the changes of committed epochs, one after the other."""

from __future__ import annotations

from anabranch.connectors.memory.database import Database
from anabranch.connectors.memory.target.apply import MemoryWriter
from anabranch.contracts import Begun, Enforced, ValueRules
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.rows.appended import Appended, ChangeBatch, each_change
from anabranch.rows.net import TargetTable


class MemoryAppender:
    """Epochs and the checkpoint are the Writer's.

    Delivery: what an epoch appends and its checkpoint are there together or not at all; a fenced owner commits nothing."""

    takes_emptied = True

    def __init__(self, database: Database, rules: ValueRules) -> None:
        self._database = database
        self._epochs = MemoryWriter(database, rules)
        self._open: list[Appended] | None = None
        self._ends: dict[TableId, int] = {}

    def claim(self, job: str, owner: str) -> Checkpoint:
        self.rollback()
        return self._epochs.claim(job, owner)

    def enforced(self) -> Enforced:
        return self._epochs.enforced()

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        self.rollback()
        found = self._epochs.begin(now, then, origin)
        self._open, self._ends = [] if found is Begun.OPEN else None, {}
        return found

    def append(self, batch: ChangeBatch) -> None:
        if self._open is None:
            raise StateError("no epoch is open")
        self._open += each_change(batch)

    def end(self, table: TargetTable, at: int) -> None:
        if self._open is None:
            raise StateError("no epoch is open")
        self._ends.setdefault(table.source, at)

    def commit(self) -> None:
        with self._database.lock:
            self._epochs.commit()
            self._database.appended += self._open or []
            self._database.ended |= self._ends
            self._open = None

    def rollback(self) -> None:
        self._epochs.rollback()
        self._open = None

    def close(self) -> None:
        self.rollback()
