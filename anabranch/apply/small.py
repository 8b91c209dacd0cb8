"""Plan of source transactions with few row changes, many at once: which transactions these are, and their changes in
the source's order.

Their images are split by columns. No net change is made, because each transaction is carried out alone. Whatever needs
more than its rows' own statements goes in an epoch of its own: tables without a key, in a load window or with rows that
wait, cascades, TRUNCATE, tables that park, foreign keys that act. What does not live here: carrying out
(`pipelines.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply import unconverted
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.images import ORDINAL_BITS, Bools, Images, Ints, sequence_of
from anabranch.apply.stage import Group
from anabranch.rows.chunk import Op
from anabranch.rows.lines import has_nul, texts
from anabranch.rows.net import DELETE, INSERT, UPDATE, ChangeShape, TargetTable
from anabranch.rows.small import SmallChanges

MOST_CHANGES = (
    100  # of one transaction: more are quicker as a net change (connectors/postgresql/target/apply.py, FEW_ROWS)
)


@dataclass
class Planned:
    """The changes of small transactions, by their shapes, and the transactions that go another way (`apart`). In
    `changes`, `transactions` are sequences for now. A transaction of neither kind has nothing for us."""

    changes: list[SmallChanges] = field(default_factory=list)
    apart: set[int] = field(default_factory=set)
    sequences: set[int] = field(default_factory=set)  # with changes

    def of(self, some: Sequence[int]) -> list[SmallChanges]:
        """Return the changes of the transactions with these sequences, which rise. Others between them are left out."""
        numbers = np.array(some, dtype=np.int64)
        found: list[SmallChanges] = []
        for one in self.changes:
            low, high = (int(place) for place in np.searchsorted(one.transactions, (some[0], some[-1] + 1)))
            if low < high:
                columns = tuple(column.slice(low, high - low) for column in one.columns)
                found += _only(
                    SmallChanges(one.shape, one.transactions[low:high], one.orders[low:high], columns), numbers
                )
        return found


def _only(one: SmallChanges, numbers: Ints) -> Iterator[SmallChanges]:
    """Yield the changes of the transactions with these sequences, which become places among them."""
    places = np.searchsorted(numbers, one.transactions)
    is_wanted = numbers[np.minimum(places, len(numbers) - 1)] == one.transactions
    if is_wanted.all():
        yield SmallChanges(one.shape, places, one.orders, one.columns)
    elif is_wanted.any():
        mask = pa.array(is_wanted)
        columns = tuple(column.filter(mask) for column in one.columns)
        yield SmallChanges(one.shape, places[is_wanted], one.orders[is_wanted], columns)


def plan(part: Group, context: ApplyContext) -> Planned:
    """Sort the transactions of the group: small ones with their changes, and those that go alone."""
    found = Planned()
    orders = [order for order, _ in part.truncates] + [change.order for change in part.changes]
    found.apart.update(sequence_of(order, part.base) for order in orders)
    found.apart.update(one.sequence for one in part.parked)
    found.apart.update(one.sequence for one in part.ignored)
    for table, images in part.images.items():
        if _fits(context.tables[table], context, part.base):
            reader = _Reader(images, context.tables[table].table, part.base)
            found.changes += reader.changes()
            left = images.order[reader.unfit]
        else:
            left = images.order
        found.apart.update(((left >> ORDINAL_BITS) + part.base).tolist())
        found.apart.update(sequence_of(int(images.order[at]), part.base) for at in unconverted.places(images))
    found.sequences.update(*(np.unique(one.transactions).tolist() for one in found.changes))
    found.apart.update(_better_merged(found.changes))
    return found


def _better_merged(changes: Sequence[SmallChanges]) -> set[int]:
    """Return transactions that go alone: those with many changes, and those in which a row may be deleted and inserted
    again, since a merge keeps the columns that are the target's own."""
    if not changes:
        return set()
    numbers, counts = np.unique(np.concatenate([one.transactions for one in changes]), return_counts=True)
    found = set(numbers[counts > MOST_CHANGES].tolist())
    gone = {one.shape.table.source: one for one in changes if one.shape.operation == DELETE}
    for one in changes:
        if one.shape.operation == INSERT and (left := gone.get(one.shape.table.source)) is not None:
            found.update(np.intersect1d(one.transactions, left.transactions).tolist())
    return found


def _fits(followed: Followed, context: ApplyContext, base: int) -> bool:
    """Return whether the table's changes are nothing but what the images say, and each is found as they say."""
    is_plain = bool(followed.table.key) and not followed.waiting and followed.high < base and not context.watches
    keys, source = context.keys, followed.table.source
    keys_act = keys is not None and (source in keys.ranks or source in keys.acting)
    return is_plain and not followed.on_conflict.newest_by and not keys_act


class _Reader:
    """The changes of one table. `unfit` marks images that one statement of their own does not carry out."""

    def __init__(self, images: Images, table: TargetTable, base: int) -> None:
        self.images, self.table, self.base = images, table, base
        self.unfit: Bools = np.zeros(len(images), dtype=bool)
        self.carried = images.presence[:, : len(table.columns)]
        self.key_places = [table.columns.index(name) for name in table.key]

    def changes(self) -> Iterator[SmallChanges]:
        op = self.images.op
        yield from self._same(ChangeShape(self.table, DELETE), self._with_key(np.flatnonzero(op == Op.DELETE), 0))
        inserts = np.flatnonzero(op == Op.INSERT)
        whole = self._carry(range(len(self.table.columns)))[self.images.shape[inserts]]
        self.unfit[inserts[~whole]] = True
        yield from self._same(ChangeShape(self.table, INSERT, self.table.columns), inserts[whole])
        updates = self._with_key(np.flatnonzero(op == Op.AFTER), 1)
        for shape in np.unique(self.images.shape[updates]):
            yield from self._updates(updates[self.images.shape[updates] == shape], self.carried[shape])

    def _with_key(self, places: Ints, back: int) -> Ints:
        """Return the places whose old row, `back` images before, has the whole key."""
        known = self._carry(self.key_places)[self.images.shape[places - back]]
        self.unfit[places[~known]] = True
        found: Ints = places[known]
        return found

    def _carry(self, columns: Sequence[int]) -> Bools:
        """Return for each shape whether it has all of these columns."""
        found: Bools = np.all(self.carried[:, list(columns)], axis=1)
        return found

    def _updates(self, places: Ints, carried: Bools) -> Iterator[SmallChanges]:
        names = [name for name, is_there in zip(self.table.columns, carried, strict=True) if is_there]
        keys = [name for name in self.table.key if name in names]
        moves = np.zeros(len(places), dtype=bool)
        for name in keys:
            moves |= _differ(self._column(name, places - 1), self._column(name, places))
        stays = tuple(name for name in names if name not in self.table.key)
        yield from self._same(ChangeShape(self.table, UPDATE, tuple(names)), places[moves])
        if stays:  # else it sets no column of ours
            yield from self._same(ChangeShape(self.table, UPDATE, stays), places[~moves])
        else:
            self.unfit[places[~moves]] = True

    def _same(self, shape: ChangeShape, places: Ints) -> Iterator[SmallChanges]:
        """Yield changes of one shape, by the places of their last images."""
        if not len(places):
            return
        columns = [self._column(name, places) for name in shape.sets]
        if shape.operation != INSERT:
            back = int(shape.operation == UPDATE)
            columns += [self._column(name, places - back) for name in self.table.key]
        orders = self.images.order[places]
        yield SmallChanges(shape, (orders >> ORDINAL_BITS) + self.base, orders, tuple(columns))

    def _column(self, name: str, places: Ints) -> pa.Array:
        text = texts(self.table.type_of(name), self.images.rows.column(name).take(pa.array(places)))
        text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
        if has_nul(text):  # a parameter in text form would end there
            cut = pc.fill_null(pc.match_substring(text, "\0"), False)
            self.unfit[places[cut.to_numpy(zero_copy_only=False)]] = True
        return text


def _differ(old: pa.Array, new: pa.Array) -> Bools:
    """Compare row by row; NULL equals NULL."""
    both = pc.fill_null(pc.not_equal(old, new), False)
    found: Bools = pc.or_(both, pc.xor(pc.is_null(old), pc.is_null(new))).to_numpy(zero_copy_only=False)
    return found
