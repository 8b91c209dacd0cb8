"""A net change as pieces of rows, each of which stands in a staging table and is merged in one step.

What does not live here: making and filling staging tables, and the statements that merge, which are each database's own
(`target/staging.py`, `target/merge.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.lines import texts
from anabranch.rows.net import TableNet, TargetTable, Updates

Texts = dict[str, str | None]
TEXT, NUMBER = LogicalType(Kind.TEXT), LogicalType(Kind.INT64)


class MergeAction(StrEnum):
    DELETE = "delete"
    UPDATE = "update"
    INSERT = "insert"
    MULTISET = "multiset"


@dataclass(frozen=True, slots=True)
class StageColumn:
    """A column of a staging table: of the type of target column `like`, or text or bigint of our own."""

    name: str
    type: LogicalType
    like: str = ""


@dataclass(frozen=True, slots=True)
class MergePiece:
    """A part of a net change, merged in one step.

    `k<i>` are the key columns as they are now, `v<i>` values of `values[i]`, `t<i>` the key under which an unchecked
    update's row is to be read again, in text form, `age` how new the change is by the target's column `newest_by`.
    Parts of a net change that contend go together (`target/exchange.py`).
    """

    table: TargetTable
    action: MergeAction
    columns: tuple[StageColumn, ...]
    values: tuple[str, ...] = ()
    checked: bool = True
    moves: bool = False
    contends: bool = False
    newest_by: str = ""


def keyed_pieces(net: TableNet) -> Iterator[tuple[MergePiece, list[Any]]]:
    """Yield the deletes, updates and inserts of a net change in the order in which they are merged, each with its columns'
    arrays. Left out is its multiset (`counted_rows`)."""
    if net.deletes is not None and net.deletes.num_rows:
        columns, ages = _ages(net, net.ages)
        piece = MergePiece(
            net.table, MergeAction.DELETE, (*keys(net.table), *columns), checked=net.checked, newest_by=net.newest_by
        )
        yield piece, [*_arrays(net.deletes, net.table.key), *ages]
    for updates in sorted(net.updates, key=lambda one: (not one.contends, not one.moves_keys)):
        if updates.values.num_rows:
            yield _update(net, updates)
    if net.inserts is not None and net.inserts.num_rows:
        names = tuple(net.inserts.column_names)
        piece = MergePiece(net.table, MergeAction.INSERT, values(net.table, names), names, net.checked)
        yield piece, _arrays(net.inserts, names)


def counted_rows(net: TableNet) -> tuple[tuple[str, ...], list[Any]] | None:
    """Return the columns of rows without a key, and their arrays with the count behind; None where none come or go."""
    if net.multiset is None or not net.multiset.num_rows:
        return None
    return tuple(net.multiset.column_names[:-1]), list(net.multiset.columns)


def whole_rows(table: TargetTable, names: Sequence[str], *extra: StageColumn) -> MergePiece:
    """Return the piece that says how many of some rows come or go."""
    columns = (*values(table, names), StageColumn("delta", NUMBER), *extra)
    return MergePiece(table, MergeAction.MULTISET, columns, tuple(names))


def keys(table: TargetTable) -> tuple[StageColumn, ...]:
    return tuple(StageColumn(f"k{i}", table.type_of(name), name) for i, name in enumerate(table.key))


def values(table: TargetTable, names: Sequence[str]) -> tuple[StageColumn, ...]:
    return tuple(StageColumn(f"v{i}", table.type_of(name), name) for i, name in enumerate(names))


def _update(net: TableNet, updates: Updates) -> tuple[MergePiece, list[Any]]:
    """Build an update's piece. Key columns that keep their value are left out: an identity column could not be set at all."""
    table, source = net.table, updates.values
    sets = tuple(name for name in source.column_names if updates.moves_keys or name not in table.key)
    if not sets:
        sets, source = table.key[:1], updates.old_keys
    columns = (*keys(table), *values(table, sets))
    arrays = _arrays(updates.old_keys, table.key) + _arrays(source, sets)
    if not net.checked:
        columns += tuple(StageColumn(f"t{i}", TEXT) for i in range(len(table.key)))
        arrays += _reread_keys(table, updates)
    age, ages = _ages(net, updates.ages)
    moves, contends = updates.moves_keys, updates.contends
    piece = MergePiece(table, MergeAction.UPDATE, (*columns, *age), sets, net.checked, moves, contends, net.newest_by)
    return piece, [*arrays, *ages]


def _ages(net: TableNet, ages: pa.ChunkedArray | None) -> tuple[tuple[StageColumn, ...], list[Any]]:
    """Return the column of a staging table that says how new a change is, and its values."""
    if ages is None:
        return (), []
    return (StageColumn("age", net.table.type_of(net.newest_by), net.newest_by),), [ages]


def _reread_keys(table: TargetTable, updates: Updates) -> list[Any]:
    """Return the keys that the rows have after the update, in text form."""
    moved = set(updates.values.column_names) if updates.moves_keys else set()
    places = [(updates.values if name in moved else updates.old_keys).column(name) for name in table.key]
    return [texts(table.type_of(name), place) for name, place in zip(table.key, places, strict=True)]


def _arrays(rows: pa.Table, names: Sequence[str]) -> list[Any]:
    return [rows.column(name) for name in names]
