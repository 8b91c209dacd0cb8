"""Reads the twin's target tables for verification; a piece is a range of row numbers."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.memory.database import Database
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import TargetTable


class MemoryReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        count = len(self._database.table(table.target).rows)
        return [f"{first}:{first + rows_per_piece}" for first in range(0, max(count, 1), rows_per_piece)]

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]:
        first, last = map(int, piece.split(":"))
        relation = self._database.table(table.target)
        for row in list(relation.rows.values())[first:last]:
            values = relation.texts(row)
            yield escaped_line(values[name] for name in table.columns)

    def close(self) -> None:
        pass
