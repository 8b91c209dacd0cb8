"""Histories of `items` that hand keys and unique values on, for tests of several appliers."""

from __future__ import annotations

import random
from typing import Any

from rigs.one_by_one import insert, item

Transactions = list[list[tuple[Any, ...]]]


def drawn(seed: int, number: int) -> tuple[Transactions, list[tuple[int, int, str]]]:
    """Transactions that a source could have committed one after the other on few rows, and its rows behind them."""
    draw, rows, found = random.Random(seed), dict[int, dict[str, Any]](), Transactions()
    while len(found) < number:
        changes: list[tuple[Any, ...]] = []
        for _ in range(draw.randint(1, 3)):
            key, value = draw.randint(1, 30), draw.randint(1, 60)
            before = rows.get(key)
            if before and draw.random() < 0.2:
                changes.append(("items", "d", rows.pop(key)))
            elif any(row["a"] == value for row in rows.values()):
                continue
            else:
                to = draw.randint(1, 30) if before and draw.random() < 0.2 else key
                if to != key and to in rows:
                    continue
                rows[to] = item(to, value, f"v{len(found)}")
                changes.append(
                    ("items", "u", rows.pop(key) if to != key else before, rows[to]) if before else insert(rows[to])
                )
        if changes:
            found.append(changes)
    return found, sorted((row["id"], row["a"], row["b"]) for row in rows.values())
