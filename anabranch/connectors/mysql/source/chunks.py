"""Cutting a table into pieces by its primary key, in the database's own order.

A single integer key is cut evenly (`mysql/cutting.py`), every other key is walked: each bound is the key that stands n rows
after the one before. Values are compared by the database only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.connectors.mysql.cutting import Ask, beyond, evenly
from anabranch.connectors.mysql.source.expressions import key_text, literal, name
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.contracts import Bounds
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

_INTEGERS = frozenset(kind for pair in INTEGERS.values() for kind in pair)


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
    pairs = [(name(key.name), literal(key, value)) for key, value in zip(keys, values, strict=True)]
    return beyond(pairs, strict, last)


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
    return ((str(end),) for end in evenly(ask, qualified(table.id), name(keys[0].name), rows))
