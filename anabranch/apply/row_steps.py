"""The slow way: every row change alone, in the source's own order, with its cascades at once.

MySQL and MariaDB check unique and foreign keys row by row, so an order that was possible there is possible at the
target. What still fails here is a row that cannot be applied, and is named. Where the target enforces foreign keys
(K7), children are deleted, or lose their parent, just before the parent goes, so that a key that only checks finds
nothing. Rows of a table without a key cannot be named. Consecutive changes of such a table go together, since finding
one row reads the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from anabranch.apply.cascades import cascade
from anabranch.apply.compact import multiset
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.images import Images, order_of, sequence_of
from anabranch.apply.stage import Disputable, Group, RemovedByKeys
from anabranch.apply.unconverted import Unconvertible, lacking_of, words
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Op
from anabranch.rows.conflict import STRICT
from anabranch.rows.lines import texts
from anabranch.rows.net import DELETE, INSERT, UPDATE, Cascade, CascadeAction, RowChange, TableNet, TargetTable

Texts = dict[str, str | None]
Made = TypeVar("Made", RowChange, RowChange | TableNet)
Emptied = tuple[TargetTable, ...]
Step = Emptied | RowChange | TableNet | Cascade | Disputable


def steps(
    part: Group, context: ApplyContext, removed: RemovedByKeys, waits: Callable[[int], bool] = lambda order: False
) -> Iterator[Step]:
    """Yield the steps to carry out, one by one: tables to truncate together, a row change, several changes of a table
    without a key, a cascade. `waits`: whether the change with this order waits behind another one of its row; it then
    comes as one change, also in a window."""
    cascades: dict[int, list[cascade.ParentChange]] = {}
    for change in part.changes:
        cascades.setdefault(change.order, []).append(change)
    truncates: dict[int, Emptied] = {}
    for order, emptied in part.truncates:
        truncates[order] = (*truncates.get(order, ()), emptied)
    readers = {table: _Reader(context.tables[table], images, part.base) for table, images in part.images.items()}
    alone = context.keys.inner if context.keys else frozenset()
    disputable = {table for table, reader in readers.items() if reader.is_disputable}
    alone |= disputable
    for order, table, places in _runs(_in_order(part), readers, cascades.keys(), alone):
        removed.begin(sequence_of(order, part.base))
        changes = cascades.pop(order, [])
        follow = cascade.cascades(changes, context, part.base)
        first = [found.ahead(context) if context.keys else None for found in follow]
        before = tuple(ahead for ahead in first if ahead is not None)
        after = tuple(one.cascade for one, ahead in zip(follow, first, strict=True) if ahead is not one.cascade)
        lacks = readers[table].lacking(places) if table is not None else {}
        made: Sequence[RowChange | TableNet] = []
        if table is not None:
            is_one = lacks or waits(order)
            made = [readers[table].one(places[0], lacks)] if is_one else list(readers[table].changes(places))
        policy = context.tables[table].on_conflict if table is not None else STRICT
        gone = table in removed.tables
        if isinstance(only := made[0] if made else None, RowChange) and only.checked and table in disputable:
            only = _may_be_gone(only) if gone and not policy.decides else only
            yield Disputable(sequence_of(order, part.base), order, policy, before, only, after, gone, lacks)
        else:
            made = [_may_be_gone(one) for one in made] if gone else made
            yield from (*before, *made, *((truncates[order],) if table is None and order in truncates else ()), *after)
        for one in follow:
            if one.cascade.action is CascadeAction.DELETE:
                removed.tables |= cascade.removed_with(one.rule.child.source, context)


def _may_be_gone(change: Made) -> Made:
    """Return the change without its check if it is a delete. MySQL logs the removal of a row by a DELETE of several
    tables even where a key has removed that row before."""
    is_removal = isinstance(change, RowChange) and change.operation == DELETE
    return replace(change, checked=False) if is_removal else change


def _runs(
    found: Iterable[tuple[int, TableId | None, int]],
    readers: Mapping[TableId, _Reader],
    ends: Collection[int],
    alone: Collection[TableId],
) -> Iterator[tuple[int, TableId | None, list[int]]]:
    """Group consecutive changes of one table without a key, up to one with an order in `ends`: (order of the last,
    table, places in its images).

    All others are alone, also those of tables in `alone`: rows that children refer to are changed in their places, and
    rows that a policy decides about are looked at one by one.
    """
    last: tuple[int, TableId | None, list[int]] | None = None
    for order, table, at in found:
        follows = last and table is not None and table == last[1] and table not in alone
        if last and table and follows and readers[table].is_keyless and last[0] not in ends:
            last[2].append(at)
            last = (order, table, last[2])
            continue
        if last:
            yield last
        last = (order, table, [at])
    if last:
        yield last


def _in_order(part: Group) -> list[tuple[int, TableId | None, int]]:
    """Return truncates, changed rows, and cascades of parents whose own change was loaded already, by order."""
    found: list[tuple[int, TableId | None, int]] = [(order, None, 0) for order in dict(part.truncates)]
    changed = {change.order: change.rule.parent.source for change in part.changes}
    found.extend((o, None, 0) for o, t in changed.items() if t not in part.images or o not in part.images[t].order)
    for table, images in part.images.items():
        found.extend((int(images.order[at]), table, int(at)) for at in np.flatnonzero(images.op != Op.BEFORE))
    return sorted(found, key=lambda step: step[0])


class _Reader:
    """The row changes of one table, made from its images when they are asked for."""

    def __init__(self, followed: Followed, images: Images, base: int) -> None:
        self.table, self.images = followed.table, images
        self.is_disputable = followed.on_conflict.decides or followed.aside is not None
        self.strict_from = -1 if followed.is_strict_from(base) else order_of(followed.high + 1, base)
        self.values: dict[str, list[str | None]] = {}

    @property
    def is_keyless(self) -> bool:
        return not self.table.key

    def changes(self, places: Sequence[int]) -> Iterator[RowChange | TableNet]:
        """Yield the change of one image, or the net change of the images of a run."""
        if len(places) > 1:
            first = places[0] - int(self.images.op[places[0]] == Op.AFTER)
            start, stop = int(self.images.order[first]), int(self.images.order[places[-1]]) + 1
            yield multiset(self.images.between(start, stop), self.table)
        else:
            yield from self._change(places[0])

    def lacking(self, places: Sequence[int]) -> dict[str, str]:
        return lacking_of(self.images, places, self.table)

    def one(self, at: int, lacks: Mapping[str, str]) -> RowChange:
        """Return a change in the form in which it is set aside, without values that could not be converted. Raises
        Unconvertible where rows of the table may not be set aside so."""
        if lacks and (not (self.is_disputable and self.table.key) or not lacks.keys().isdisjoint(self.table.key)):
            key = {} if not self.table.key else self._key_of(at)
            row = f" (row {', '.join(f'{name} = {value}' for name, value in key.items())})" if key else ""
            raise Unconvertible(self.table, words(lacks) + row)
        off = bool(self.images.keys_off[self.images.shape[at]])
        if self.images.op[at] == Op.INSERT:
            return RowChange(self.table, INSERT, values=self._row(at))
        if self.images.op[at] == Op.DELETE:
            return RowChange(self.table, DELETE, self._old(at)[0], keys_off=off, before=self._row(at))
        old, before = self._old(at - 1)[0], self._row(at - 1)
        return RowChange(self.table, UPDATE, old, self._row(at), keys_off=off, before=before)

    def _key_of(self, at: int) -> Texts:
        row = self._row(at - 1 if self.images.op[at] == Op.AFTER else at)
        return {name: row[name] for name in self.table.key if name in row}

    def _change(self, at: int) -> Iterator[RowChange]:
        op, checked = self.images.op[at], bool(self.images.order[at] >= self.strict_from)
        off = bool(self.images.keys_off[self.images.shape[at]])
        if op == Op.DELETE:
            key, whole = self._old(at)
            before = self._before(at)
            yield RowChange(self.table, DELETE, key, {}, whole, checked=checked, keys_off=off, before=before)
        elif op == Op.INSERT:
            yield RowChange(self.table, INSERT, values=self._row(at), checked=checked)
        elif checked:
            key, whole = self._old(at - 1)
            before = self._before(at - 1)
            yield RowChange(self.table, UPDATE, key, self._new(at), whole, keys_off=off, before=before)
        else:
            yield from self._in_window(at)

    def _in_window(self, at: int) -> Iterator[RowChange]:
        key, _ = self._old(at - 1)
        new = self._row(at)
        if len(new) == len(self.table.columns):
            if any(
                new[name] != value for name, value in key.items()
            ):  # else it stays, with what the target's own columns have
                yield RowChange(self.table, DELETE, key, checked=False)
            yield RowChange(self.table, INSERT, values=new, checked=False)
        else:
            yield RowChange(self.table, UPDATE, key, new, checked=False)

    def _old(self, at: int) -> tuple[Texts, Texts]:
        row = self._row(at)
        if not self.table.key:
            return {}, row
        if not row.keys() >= set(self.table.key):
            raise RowRefused(
                "the log's image of a changed row lacks key columns",
                table=str(self.table.source),
                hint="let the source log full row images and load the table again",
            )
        return {name: row[name] for name in self.table.key}, {}

    def _before(self, at: int) -> Texts:
        """Return everything that the log has of the old row, where it may be needed."""
        return self._row(at) if self.is_disputable else {}

    def _new(self, at: int) -> Texts:
        """Return what an AFTER image sets. For a keyless table this is the whole row, completed from the BEFORE image."""
        return self._row(at) if self.table.key else {**self._row(at - 1), **self._row(at)}

    def _row(self, at: int) -> Texts:
        shape = self.images.presence[self.images.shape[at]]
        names = [name for name, carried in zip(self.table.columns, shape, strict=True) if carried]
        return {name: self._text(name)[at] for name in names}

    def _text(self, name: str) -> list[str | None]:
        if name not in self.values:
            column = self.images.rows.column(name).combine_chunks()
            column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
            self.values[name] = texts(self.table.type_of(name), column).to_pylist()
        return self.values[name]
