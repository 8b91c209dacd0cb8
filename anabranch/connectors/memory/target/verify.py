"""Reads the twin's target tables for verification; a piece is a range of row numbers, or of whole numbers of a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from anabranch.connectors.memory.database import Database, Relation
from anabranch.contracts import Bounds
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import TargetTable

RANGE = "range "
Values = Mapping[str, str | None]


def _between(rows: Sequence[Values], piece: str) -> Sequence[Values]:
    first, last = map(int, piece.split(":"))
    return rows[first:last]


def _inside(rows: Sequence[Values], piece: str) -> Iterator[Values]:
    columns, lower, upper = json.loads(piece.removeprefix(RANGE))
    low, high = (None if end is None else [int(value) for value in end] for end in (lower, upper))
    for values in rows:
        key = [int(values[name] or 0) for name in columns]
        if (low is None or key > low) and (high is None or key <= high):
            yield values


class MemoryReader:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._then: dict[TableId, Relation] | None = None  # in the snapshot

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        count = len(self._database.table(table.target).rows)
        return [f"{first}:{first + rows_per_piece}" for first in range(0, max(count, 1), rows_per_piece)]

    def ranges(self, table: TargetTable, columns: Sequence[str], bounds: Sequence[Bounds]) -> list[str]:
        if tuple(columns) != table.key[: len(columns)]:
            return []
        return [f"{RANGE}{json.dumps([columns, one.lower, one.upper])}" for one in bounds]

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]:
        relation = self._database.table(table.target)
        rows = [relation.texts(row) for row in list(relation.rows.values())]
        for values in _inside(rows, piece) if piece.startswith(RANGE) else _between(rows, piece):
            yield escaped_line(values[name] for name in table.columns)

    def place(self, job: str, table: TableId) -> tuple[Checkpoint, TableState] | None:
        with self._database.lock:
            self._then = {name: relation.copy() for name, relation in self._database.tables.items()}
            state = self._database.job(job)
            at, found = state.checkpoint, state.tables.get(table)
        return None if at is None or found is None else (at, replace(found, schema=None))

    def finds(self, table: TargetTable) -> bool:
        return bool(table.key)

    def lines_of(self, table: TargetTable, keys: Sequence[Sequence[str | None]]) -> Iterator[bytes]:
        relation = self._database.table(table.target) if self._then is None else self._then[table.target]
        rows = [relation.texts(row) for row in relation.rows.values()]
        for key in keys:
            for values in rows:
                if [values[name] for name in table.key] == list(key):
                    yield escaped_line(values[name] for name in table.columns)

    def leave(self) -> None:
        self._then = None

    def close(self) -> None:
        self.leave()
