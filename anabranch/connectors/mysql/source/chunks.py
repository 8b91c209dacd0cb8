"""Cutting a table into pieces by its primary key, in the database's own order.

A single integer key is cut evenly and refined by the optimizer's row estimates, without reading the table; every other
key is walked: each bound is the key that stands n rows after the one before. Values are compared by the database only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from anabranch.connectors.mysql.source.expressions import key_text, literal, name
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.contracts import Bounds
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

Ask = Callable[[str], Sequence[dict[str, Any]]]
_INTEGERS = frozenset(kind for pair in INTEGERS.values() for kind in pair)
_MOST_PARTS = 256  # into which a range is cut at once; estimates are asked for each
_FEW = 1.5  # a range is small enough below this many times the wanted rows


def bounds(ask: Ask, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
    """Return the pieces of `table`; [Bounds()] where it cannot or need not be cut."""
    keys = key_columns(table)
    if not keys or any(key.type is None for key in keys):
        return [Bounds()]
    is_number = len(keys) == 1 and keys[0].type is not None and keys[0].type.kind in _INTEGERS
    cut = _evenly if is_number else _by_walking
    ends = list(cut(ask, table, keys, rows_per_chunk))
    return [Bounds(low, high) for low, high in zip([None, *ends], [*ends, None], strict=True)]


def key_columns(table: TableSchema) -> list[Column]:
    return [table.column(key) for key in table.primary_key]


def condition(keys: Sequence[Column], bounds: Bounds) -> str:
    """Return `lower < key <= upper` as SQL that an index serves; "" for the whole table."""
    parts = []
    if bounds.lower is not None:
        parts.append(_beyond(keys, bounds.lower, ">", ">"))
    if bounds.upper is not None:
        parts.append(_beyond(keys, bounds.upper, "<", "<="))
    return " AND ".join(parts)


def source(table: TableSchema, is_bounded: bool) -> str:
    """Return the table for FROM; a bounded read uses the primary key, whatever the statistics say."""
    return qualified(table.id) + (" FORCE INDEX (PRIMARY)" if is_bounded else "")


def qualified(table: TableId) -> str:
    return f"{name(table.schema)}.{name(table.name)}"


def _beyond(keys: Sequence[Column], values: Sequence[str], strict: str, last: str) -> str:
    """Spell out a row comparison: MySQL uses no index for `(a, b) > (x, y)`.

    https://dev.mysql.com/doc/refman/8.0/en/range-optimization.html#row-constructor-range-optimization
    """
    column, value = name(keys[0].name), literal(keys[0], values[0])
    if len(keys) == 1:
        return f"{column} {last} {value}"
    rest = _beyond(keys[1:], values[1:], strict, last)
    return f"({column} {strict}= {value} AND ({column} {strict} {value} OR {column} = {value} AND {rest}))"


def _by_walking(ask: Ask, table: TableSchema, keys: Sequence[Column], rows: int) -> Iterator[tuple[str, ...]]:
    wanted = ", ".join(f"CONCAT({key_text(key)}) AS k{i}" for i, key in enumerate(keys))
    order = ", ".join(name(key.name) for key in keys)
    last: tuple[str, ...] | None = None
    while True:
        beyond = f" WHERE {condition(keys, Bounds(lower=last))}" if last else ""
        found = ask(f"SELECT {wanted} FROM {source(table, True)}{beyond} ORDER BY {order} LIMIT 1 OFFSET {rows - 1}")
        if not found:
            return
        last = tuple(str(found[0][f"k{i}"]) for i in range(len(keys)))
        yield last


def _evenly(ask: Ask, table: TableSchema, keys: Sequence[Column], rows: int) -> Iterator[tuple[str, ...]]:
    key = name(keys[0].name)
    found = ask(f"SELECT MIN({key}) AS low, MAX({key}) AS high FROM {qualified(table.id)}")[0]
    if found["low"] is None:
        return

    def estimate(low: int, high: int) -> int:
        """Estimate the rows between two keys. The index is offered, not forced: MySQL 9 does not look into ranges of a
        forced one (seen in 9.7).

        https://dev.mysql.com/doc/refman/8.0/en/range-optimization.html#equality-range-optimization
        """
        where = f"{key} > {low} AND {key} <= {high}"
        plan = ask(f"EXPLAIN SELECT {key} FROM {qualified(table.id)} USE INDEX (PRIMARY) WHERE {where}")
        return min(int(plan[0]["rows"] or 0), high - low)

    yield from (
        (str(end),) for end in _merged(_refined(estimate, int(found["low"]) - 1, int(found["high"]), rows), rows)
    )


def _refined(estimate: Callable[[int, int], int], low: int, high: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield (end, rows) of ranges that hold few enough rows, in order; the ranges are low < key <= high."""
    found = estimate(low, high)
    if found <= _FEW * rows or high - low <= rows:
        yield high, found
        return
    parts = max(2, min(_MOST_PARTS, math.ceil(found / rows), high - low))
    ends = [low + (high - low) * part // parts for part in range(parts + 1)]
    for start, end in pairwise(ends):
        yield from _refined(estimate, start, end, rows)


def _merged(ranges: Iterator[tuple[int, int]], rows: int) -> Iterator[int]:
    """Yield the ends between pieces: neighbours that are small together become one; the last piece has no end."""
    held, last_end = 0, None
    for end, found in ranges:
        if last_end is not None and held + found > _FEW * rows:
            yield last_end
            held = 0
        held, last_end = held + found, end
