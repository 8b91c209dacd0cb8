"""Source transactions of few row changes, planned many at once: which they are, and their changes in the source's order.

Their images are taken apart by columns; no net change is made, for each transaction is carried out alone. Whatever needs
more than its rows' own statements goes the way of an epoch of its own: tables without a key, in a load window or with rows
that wait, cascades, TRUNCATE, tables that park, foreign keys that act. What does not live here: carrying out (`epoch.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.images import ORDINAL_BITS, Bools, Images, Ints, sequence_of
from anabranch.apply.plan import Group
from anabranch.rows.chunk import Op
from anabranch.rows.lines import has_nul, texts
from anabranch.rows.net import ChangeShape, TargetTable

MOST_CHANGES = 100  # of one transaction: more are quicker as a net change (connectors/postgresql/apply.py, FEW_ROWS)

Change = tuple[ChangeShape, Sequence[bytes | None]]
Placed = tuple[int, ChangeShape, Sequence[bytes | None]]  # order, shape, values


@dataclass
class Planned:
    """By sequence: the changes of small transactions, and those that go another way. One of neither has nothing for us."""

    changes: dict[int, list[Change]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)


def plan(part: Group, context: ApplyContext) -> Planned:
    """Sorts the transactions of the group: small ones with their changes, and those that go alone."""
    found = Planned()
    orders = [order for order, _ in part.truncates] + [change.order for change in part.changes]
    found.apart.update(sequence_of(order, part.base) for order in orders)
    found.apart.update(one.sequence for one in part.parked)
    placed: list[Placed] = []
    for table, images in part.images.items():
        if _fits(context.tables[table], context, part.base):
            reader = _Reader(images, context.tables[table].table)
            placed += reader.changes()
            left = images.order[reader.unfit]
        else:
            left = images.order
        found.apart.update(((left >> ORDINAL_BITS) + part.base).tolist())
    for order, shape, values in sorted(placed, key=lambda one: one[0]):
        found.changes.setdefault(sequence_of(order, part.base), []).append((shape, values))
    found.apart.update(sequence for sequence, changes in found.changes.items() if _is_better_merged(changes))
    return found


def _is_better_merged(changes: Sequence[Change]) -> bool:
    """Many changes; or a row may go and come again, which leaves columns of the target's own as they are."""
    gone = {shape.table.source for shape, _ in changes if shape.operation == "delete"} if len(changes) > 1 else ()
    comes_again = any(shape.operation == "insert" and shape.table.source in gone for shape, _ in changes)
    return len(changes) > MOST_CHANGES or comes_again


def _fits(followed: Followed, context: ApplyContext, base: int) -> bool:
    """Are changes of the table nothing but what the images say, each to be found as they say?"""
    is_plain = bool(followed.table.key) and not followed.dirty and followed.high < base and not context.watches
    keys, source = context.keys, followed.table.source
    keys_act = keys is not None and (source in keys.ranks or source in keys.acting)
    return is_plain and not followed.on_conflict.newest_by and not keys_act


class _Reader:
    """The changes of one table. `unfit` marks images that one statement of their own does not carry out."""

    def __init__(self, images: Images, table: TargetTable) -> None:
        self.images, self.table = images, table
        self.unfit: Bools = np.zeros(len(images), dtype=bool)
        self.carried = images.presence[:, : len(table.columns)]
        self.key_places = [table.columns.index(name) for name in table.key]

    def changes(self) -> Iterator[Placed]:
        op = self.images.op
        yield from self._same(ChangeShape(self.table, "delete"), self._with_key(np.flatnonzero(op == Op.DELETE), 0))
        inserts = np.flatnonzero(op == Op.INSERT)
        whole = self._carry(range(len(self.table.columns)))[self.images.shape[inserts]]
        self.unfit[inserts[~whole]] = True
        yield from self._same(ChangeShape(self.table, "insert", self.table.columns), inserts[whole])
        updates = self._with_key(np.flatnonzero(op == Op.AFTER), 1)
        for shape in np.unique(self.images.shape[updates]):
            yield from self._updates(updates[self.images.shape[updates] == shape], self.carried[shape])

    def _with_key(self, places: Ints, back: int) -> Ints:
        """Images of which the row as it was, so many images before, has the whole key."""
        known = self._carry(self.key_places)[self.images.shape[places - back]]
        self.unfit[places[~known]] = True
        found: Ints = places[known]
        return found

    def _carry(self, columns: Sequence[int]) -> Bools:
        """Tells for each shape whether it has all of these columns."""
        found: Bools = np.all(self.carried[:, list(columns)], axis=1)
        return found

    def _updates(self, places: Ints, carried: Bools) -> Iterator[Placed]:
        names = [name for name, is_there in zip(self.table.columns, carried, strict=True) if is_there]
        keys = [name for name in self.table.key if name in names]
        moves = np.zeros(len(places), dtype=bool)
        if keys and len(places):
            pairs = zip(self._rows(keys, places - 1), self._rows(keys, places), strict=True)
            moves = np.array([old != new for old, new in pairs], dtype=bool)
        stays = tuple(name for name in names if name not in self.table.key)
        yield from self._same(ChangeShape(self.table, "update", tuple(names)), places[moves])
        if stays:  # else it sets nothing of ours
            yield from self._same(ChangeShape(self.table, "update", stays), places[~moves])
        else:
            self.unfit[places[~moves]] = True

    def _same(self, shape: ChangeShape, places: Ints) -> Iterator[Placed]:
        """Changes of one shape, by the places of their last images."""
        if not len(places):
            return
        sets = self._rows(shape.sets, places)
        if shape.operation != "insert":
            keys = self._rows(self.table.key, places - int(shape.operation == "update"))
            sets = [(*row, *key) for row, key in zip(sets, keys, strict=True)]
        for order, row in zip(self.images.order[places].tolist(), sets, strict=True):
            yield order, shape, row

    def _rows(self, names: Sequence[str], places: Ints) -> list[tuple[bytes | None, ...]]:
        if not names:
            return [()] * len(places)
        return list(zip(*(self._column(name, places) for name in names), strict=True))

    def _column(self, name: str, places: Ints) -> list[bytes | None]:
        text = texts(self.table.type_of(name), self.images.rows.column(name).take(pa.array(places)))
        text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
        binary = pa.large_binary() if pa.types.is_large_string(text.type) else pa.binary()
        found: list[bytes | None] = text.cast(binary).to_pylist()
        if has_nul(text):  # a parameter in text form ends there
            self.unfit[places[[value is not None and b"\0" in value for value in found]]] = True
        return found
