"""SnapshotReader of the folder: the tables behind one transaction, so low and high are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from anabranch.connectors.folder.files import Folder, Row
from anabranch.connectors.folder.source.positions import mark

from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import SourceError
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.lines import escaped_line
from anabranch.rows.raw import parse_text

BLOCK = 1000  # rows


class FolderSnapshot:
    """Delivery: every row inside the bounds as of `open`, exactly once."""

    def __init__(self, folder: Folder, expected: str) -> None:
        self._folder, self._expected = folder, expected
        self._number: int | None = None  # of the transaction behind which it stands

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        if not table.primary_key:
            return [Bounds()]
        rows = self._rows(table)
        cuts = range(rows_per_chunk - 1, len(rows) - 1, rows_per_chunk)
        ends = [tuple(rows[cut][name] or "" for name in table.primary_key) for cut in cuts]
        return [Bounds(lower, upper) for lower, upper in pairwise([None, *ends, None])]

    def estimate(self, table: TableSchema) -> int:
        return len(self._rows(table))

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        identity = self._folder.identity()
        if self._expected not in ("", identity):
            raise SourceError(f"the folder is {identity}, capture follows {self._expected}")
        self._number = self._folder.end()
        here = mark(identity, self._number)
        return here, here

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        ends = [end and dict(zip(table.primary_key, end, strict=True)) for end in (bounds.lower, bounds.upper)]
        lower, upper = (end and _key(table, end) for end in ends)
        rows = [
            row
            for row in self._rows(table)
            if (lower is None or _key(table, row) > lower) and (upper is None or _key(table, row) <= upper)
        ]
        for first in range(0, len(rows), BLOCK):
            some = rows[first : first + BLOCK]
            yield b"".join(escaped_line([row[name] for name in columns]) for row in some)

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        for row in self._rows(table):
            if {name: row[name] for name in table.primary_key} in keys:
                yield escaped_line([row[name] for name in columns])

    def close(self) -> None:
        self._number = None

    def _rows(self, table: TableSchema) -> list[Row]:
        rows = self._folder.rows(table, self._folder.end() if self._number is None else self._number)
        return sorted(rows, key=lambda row: _key(table, row)) if table.primary_key else rows


def _key(table: TableSchema, row: Mapping[str, str | None]) -> tuple[Any, ...]:
    """Values of the key in this database's own order."""
    types = {column.name: column.type for column in table.columns}
    return tuple(parse_text(types[name], row[name] or "") for name in table.primary_key)  # type: ignore[arg-type]  # keys have types
