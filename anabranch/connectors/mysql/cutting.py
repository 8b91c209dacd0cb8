"""Cutting a table into pieces by a key, in the database's own order.

A single integer is cut evenly and refined by the optimizer's row estimates, without reading the table; every other key is
walked. Values are compared by the database only. What does not live here: key values as SQL (each role), walking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

Ask = Callable[[str], Sequence[dict[str, Any]]]
_MOST_PARTS = 256  # into which a range is cut at once; estimates are asked for each
_FEW = 1.5  # a range is small enough below this many times the wanted rows


def beyond(key: Sequence[tuple[str, str]], strict: str, last: str) -> str:
    """Spell out a row comparison of columns with literals: MySQL uses no index for `(a, b) > (x, y)`.

    https://dev.mysql.com/doc/refman/8.0/en/range-optimization.html#row-constructor-range-optimization
    """
    column, value = key[0]
    if len(key) == 1:
        return f"{column} {last} {value}"
    rest = beyond(key[1:], strict, last)
    return f"({column} {strict}= {value} AND ({column} {strict} {value} OR {column} = {value} AND {rest}))"


def evenly(ask: Ask, table: str, key: str, rows: int) -> Iterator[int]:
    """Yield the ends between pieces of some `rows` rows each; the last piece has no end. Names are in backticks."""
    found = ask(f"SELECT MIN({key}) AS low, MAX({key}) AS high FROM {table}")[0]
    if found["low"] is None:
        return

    def estimate(low: int, high: int) -> int:
        """Estimate the rows between two keys. The index is offered, not forced: MySQL 9 does not look into ranges of a
        forced one (seen in 9.7).

        https://dev.mysql.com/doc/refman/8.0/en/range-optimization.html#equality-range-optimization
        """
        where = f"{key} > {low} AND {key} <= {high}"
        plan = ask(f"EXPLAIN SELECT {key} FROM {table} USE INDEX (PRIMARY) WHERE {where}")
        return min(int(plan[0]["rows"] or 0), high - low)

    yield from merged(refined(estimate, int(found["low"]) - 1, int(found["high"]), rows), rows)


def refined(estimate: Callable[[int, int], int], low: int, high: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield (end, rows) of ranges that hold few enough rows, in order; the ranges are low < key <= high."""
    found = estimate(low, high)
    if found <= _FEW * rows or high - low <= rows:
        yield high, found
        return
    parts = max(2, min(_MOST_PARTS, math.ceil(found / rows), high - low))
    ends = [low + (high - low) * part // parts for part in range(parts + 1)]
    for start, end in pairwise(ends):
        yield from refined(estimate, start, end, rows)


def merged(ranges: Iterator[tuple[int, int]], rows: int) -> Iterator[int]:
    """Yield the ends between pieces: neighbours that are small together become one; the last piece has no end."""
    held, last_end = 0, None
    for end, found in ranges:
        if last_end is not None and held + found > _FEW * rows:
            yield last_end
            held = 0
        held, last_end = held + found, end
