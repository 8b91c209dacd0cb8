"""Snapshots of the twin. A snapshot is exact: low and high are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from anabranch.connectors.memory.database import Database, Relation, Row, database
from anabranch.connectors.memory.source.capture import mark
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import SourceError, ValueRefused
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.lines import escaped_line
from anabranch.rows.raw import parse_text

BLOCK_ROWS = 1000


class MemorySnapshot:
    """Delivery: every row inside the bounds as of `open`, exactly once."""

    def __init__(self, name: str, expected: str) -> None:
        self._name, self._expected = name, expected
        self._tables: Mapping[TableId, Relation] | None = None

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        if not table.primary_key:
            return [Bounds()]
        rows = _in_order(self._now()[table.id])
        ends = [
            _key(table, row) for row in rows[rows_per_chunk - 1 :: rows_per_chunk][: (len(rows) - 1) // rows_per_chunk]
        ]
        edges: list[tuple[str, ...] | None] = [None, *ends, None]
        return [Bounds(lower, upper) for lower, upper in pairwise(edges)]

    def estimate(self, table: TableSchema) -> int:
        return len(self._now()[table.id].rows)

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        found = self._database()
        with found.lock:
            self._tables = {id_: relation.copy() for id_, relation in found.tables.items()}
            here = mark(found.identity, len(found.log))
        return here, here

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        relation = self._now()[table.id]
        lower, upper = (None if end is None else _typed(relation, end) for end in (bounds.lower, bounds.upper))
        rows = _in_order(relation) if bounds != Bounds() else list(relation.rows.values())
        inside = [
            row
            for row in rows
            if (lower is None or _sort_key(relation, row) > lower)
            and (upper is None or _sort_key(relation, row) <= upper)
        ]
        return _blocks(relation, inside, columns, rules)

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        relation = self._now()[table.id]
        places = (relation.find(key) for key in keys)
        return _blocks(relation, [relation.rows[place] for place in places if place is not None], columns, rules)

    def close(self) -> None:
        self._tables = None

    def _database(self) -> Database:
        found = database(self._name)
        if self._expected and found.identity != self._expected:
            raise SourceError(f"the database is {found.identity}, capture follows {self._expected}")
        return found

    def _now(self) -> Mapping[TableId, Relation]:
        """Return the opened snapshot; without one, the tables as they are."""
        return self._database().tables if self._tables is None else self._tables


def _key(table: TableSchema, row: Row) -> tuple[str, ...]:
    return tuple(row[place] or "" for place in table.key_indexes)


def _typed(relation: Relation, key: Sequence[str | None]) -> tuple[Any, ...]:
    types = [relation.types[relation.columns.index(name)] for name in relation.key]
    return tuple(parse_text(type, text or "") for type, text in zip(types, key, strict=True))


def _sort_key(relation: Relation, row: Row) -> tuple[Any, ...]:
    return _typed(relation, relation.place(relation.texts(row)))


def _in_order(relation: Relation) -> list[Row]:
    return sorted(relation.rows.values(), key=lambda row: _sort_key(relation, row))


def _blocks(relation: Relation, rows: Sequence[Row], columns: Sequence[str], rules: ValueRules) -> Iterator[bytes]:
    places = [relation.columns.index(name) for name in columns]
    for first in range(0, len(rows), BLOCK_ROWS):
        some = rows[first : first + BLOCK_ROWS]
        yield b"".join([escaped_line([_stripped(row[place], rules) for place in places]) for row in some])


def _stripped(text: str | None, rules: ValueRules) -> str | None:
    if text is None or "\0" not in text:
        return text
    if rules.nul != "strip" and rules.keeps_nul:
        return text
    if rules.nul != "strip":
        raise ValueRefused("a text holds a zero character", hint='set [types] nul = "strip"')
    return text.replace("\0", "")
