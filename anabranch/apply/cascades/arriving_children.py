"""Index of child images: finds the first later image that a pending cascade could affect (K1).

It looks among the rows under a value, those put into a table, and those made while the source's foreign keys were off.
Answers are orders; END is "none".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.cascades.cascade import ParentChange, tuples
from anabranch.apply.context import Values
from anabranch.apply.images import END, Bools, Images, Ints
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Op
from anabranch.rows.net import CascadeRule


class ArrivingChildren:
    """The images of a group, by child table. `changes`: all parent changes that will be asked about."""

    def __init__(self, images: Mapping[TableId, Images], changes: Sequence[ParentChange]) -> None:
        self._images = images
        self._tables: dict[TableId, Orders] = {}
        self._values: dict[CascadeRule, set[Values]] = {}
        for change in changes:
            self._values.setdefault(change.rule, set()).update(v for v in (change.old, change.new) if v is not None)
        self._under: dict[CascadeRule, Under] = {}

    def of(self, table: TableId) -> Orders:
        if table not in self._tables:
            self._tables[table] = Orders(self._images.get(table))
        return self._tables[table]

    def under(self, rule: CascadeRule) -> Under:
        """Return the images of the key's child table."""
        if rule not in self._under:
            self._under[rule] = Under(self._images.get(rule.child.source), rule, self._values.get(rule, set()))
        return self._under[rule]


class Orders:
    """Marks, in the images of one table, where changes begin: an update's two images stay together."""

    def __init__(self, images: Images | None) -> None:
        self._images = images
        self._found: dict[str, list[int]] = {}

    def next_of(self, which: str, after: int) -> int:
        """Return the next image of "all", of the "puts", or of the puts made with foreign keys "off", which may be
        under nobody's value.
        """
        if which not in self._found:
            self._found[which] = begins(self._images, self._places(which)).tolist() if self._images else []
        return _after(self._found[which], after)

    def _places(self, which: str) -> Ints:
        assert self._images is not None
        images = self._images
        chosen = np.ones(len(images), dtype=bool) if which == "all" else ~images.is_removal
        return np.flatnonzero(chosen & ~images.is_followed_by_keys if which == "off" else chosen)


class Under:
    """Orders of the images of a child table, by the value of a foreign key and for the values that matter. None is the
    key for images whose value cannot be told."""

    def __init__(self, images: Images | None, rule: CascadeRule, values: set[Values]) -> None:
        self._puts: dict[Values | None, list[int]] = {}
        self._all: dict[Values | None, list[int]] = {}
        if images is not None:
            self._images, self._rule = images, rule
            self._look(values)

    def _look(self, values: set[Values]) -> None:
        images = self._images
        rows, known = self._completed
        at = np.flatnonzero(known & _may_be_in(rows.column(0), {value[0] for value in values}))
        found = tuples(rows.take(pa.array(at)))
        removal = images.is_removal
        for place, order, value in zip(at, begins(images, at).tolist(), found, strict=True):
            if value in values:
                self._add(value, order, bool(removal[place]))
        unclear = np.flatnonzero(self._is_unclear(known))
        for place, order in zip(unclear, begins(images, unclear).tolist(), strict=True):
            self._add(None, order, bool(removal[place]))

    def next_of(self, value: Values, after: int, puts_only: bool) -> int:
        """Return the next image of a row under this value, or of a row whose value cannot be told. `puts_only`: only
        rows that come."""
        orders = self._puts if puts_only else self._all
        return min(_after(orders.get(value, ()), after), _after(orders.get(None, ()), after))

    def next_unclear(self, after: int) -> int:
        """Return the next put whose parent cannot be told."""
        return _after(self._puts.get(None, ()), after)

    def _add(self, value: Values | None, order: int, is_removal: bool) -> None:
        self._all.setdefault(value, []).append(order)
        if not is_removal:
            self._puts.setdefault(value, []).append(order)

    @cached_property
    def _carried(self) -> list[Bools]:
        places = [self._rule.child.columns.index(name) for name in self._rule.columns]
        return [self._images.present(place) for place in places]

    @cached_property
    def _completed(self) -> tuple[pa.Table, Bools]:
        """Return the foreign key's columns, and for which images they are known. An AFTER image leaves out what did not
        change; its BEFORE image may have it."""
        names, rows = self._rule.columns, self._images.rows
        if all(carried.all() for carried in self._carried):
            return rows.select(list(names)), np.ones(len(self._images), dtype=bool)
        is_after = self._images.op == Op.AFTER
        known, columns = np.ones(len(is_after), dtype=bool), []
        for name, carried in zip(names, self._carried, strict=True):
            before = ~carried & is_after
            known &= carried | (before & np.roll(carried, 1))
            columns.append(rows.column(name).take(pa.array(np.arange(len(before)) - before)))
        return pa.Table.from_arrays(columns, names=list(names)), known

    def _is_unclear(self, known: Bools) -> Bools:
        """Find images that carry only a part of the foreign key: they may be under any parent."""
        some = np.logical_or.reduce(self._carried)
        unclear: Bools = some & ~known
        return unclear


def _may_be_in(column: pa.ChunkedArray, values: set[object]) -> Bools:
    """Find images that may have one of the values: a first sieve.

    All pass where the parent's values do not fit into the child's type, and for numbers that are equal and written in
    two ways (0.0 and -0.0).
    """
    every = np.ones(len(column), dtype=bool)
    try:
        wanted = pa.array(list(values), column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return every
    return every if pa.types.is_floating(column.type) else pc.is_in(column, value_set=wanted).to_numpy()


def begins(images: Images, at: Ints) -> Ints:
    """Return the orders at which the changes begin that the images belong to."""
    orders: Ints = images.order[at - (images.op[at] == Op.AFTER)]
    return orders


def _after(orders: Sequence[int], order: int) -> int:
    at = bisect_right(orders, order)
    return orders[at] if at < len(orders) else END
