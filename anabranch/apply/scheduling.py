"""Order in which several appliers may commit source transactions where they do not keep the source's (`[apply] commit_order`):
what has to be committed before one begins.

Unlike in `dependencies.py` something hangs on how complete it is, since a later transaction may be committed first. Rows are
told apart by their keys as the log has them; every change of a row names it. Who takes a key or a unique value comes behind all
that took it before, or one that may be equal to it at the target (`equal_values.py`); who takes one that somebody leaves and
does not name is refused by the target as long as that is there, and is done again alone. Foreign keys are followed so that
readers of the target find no child without its parent, also where the target's own keys do not act: a child comes behind its
parent, a parent goes behind its children. The values that a child leaves are in no change, so of those the tables decide.

What does not live here: who carries out what is ready (`relaxed.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.apply.context import Followed
from anabranch.apply.equal_values import Comparable, compared, may_be_unclear
from anabranch.model.ids import TableId
from anabranch.model.schema import ForeignKey
from anabranch.rows.net import DELETE, INSERT, TargetTable
from anabranch.rows.small import SmallChanges, SmallTransactions

ALONE = "alone"  # of a mark: no other transaction that has it may be under way
CLEAR, REFERS, PARENT, CHILD = "clear", "refers", "parent", "child"  # those of one kind may be under way together
Marks = Mapping[Any, str]  # by what is hashable
Marked = Iterator[tuple[int, Hashable, str]]  # a transaction's number, a mark, its kind


@dataclass
class Order:
    """Groups of transactions, by their numbers, and for each transaction the groups that have to be committed before it. All in
    them have lower numbers. In groups, because each of many may need each of many."""

    groups: list[list[int]] = field(default_factory=list)
    needs: list[set[int]] = field(default_factory=list)

    def before(self, number: int) -> set[int]:
        """Return the transactions that a transaction needs."""
        return {one for group in self.needs[number] for one in self.groups[group]}


def ordered(transactions: SmallTransactions, followed: Mapping[TableId, Followed]) -> Order:
    """Return in which order transactions may be committed."""
    marks: list[dict[Hashable, str]] = [{} for _ in transactions.sequences]
    keys = list(_keys(followed))
    for one in transactions.changes:
        for marked in (_rows(one, followed[one.shape.table.source]), *(key.marks(one) for key in keys)):
            for number, mark, kind in marked:
                marks[number][mark] = kind if marks[number].get(mark, kind) == kind else ALONE
    return order_of(marks)


def order_of(marks: Sequence[Marks]) -> Order:
    """Return the order of transactions with these marks. Those that have a mark of one kind may go together, unless it is
    ALONE; of two kinds the later ones need all the earlier ones."""
    found = Order()
    last: dict[Hashable, tuple[str, int, int | None]] = {}  # kind, its group, the group before it
    for number, each in enumerate(marks):
        needs = set[int]()
        for mark, kind in each.items():
            there, group, before = last.get(mark, (None, None, None))
            if group is not None and kind == there != ALONE:
                found.groups[group].append(number)
                if before is not None:
                    needs.add(before)
                continue
            if group is not None:
                needs.add(group)
            found.groups.append([number])
            last[mark] = kind, len(found.groups) - 1, group
        found.needs.append(needs)
    return found


# --- rows and unique values -----------------------------------------------------------------------------------------------


def _rows(one: SmallChanges, of: Followed) -> Marked:
    """Yield the rows that changes name, and what they take: keys, values of unique columns."""
    shape, sets = one.shape, one.shape.sets
    source, key = shape.table.source, shape.table.key
    if shape.operation != INSERT:
        old = [_values(one, place, name) for place, name in enumerate(key, len(sets))]
        yield from _named(one, (source, key), old, ALONE)
    if not set(key).isdisjoint(sets):
        yield from _taken(one, (source, key), key, [_new(one, name) for name in key])
    for unique in of.unique_keys:
        if unique.columns.isdisjoint(sets):
            continue
        what, names = (source, unique), sorted(unique.columns)
        if unique.is_plain and unique.columns.issubset((*sets, *key)):
            yield from _taken(one, what, names, [_new(one, name) for name in names], always=True)
        else:  # an expression, or values that the change does not have: whichever row it may meet
            yield from ((number, ("unclear", what), ALONE) for number in one.transactions.tolist())


def _named(one: SmallChanges, what: Hashable, columns: Sequence[Sequence[Comparable]], kind: str) -> Marked:
    """Yield a mark for each value, or values of several columns; none where one is NULL."""
    for number, row in zip(one.transactions.tolist(), zip(*columns, strict=True), strict=True):
        if all(value.text is not None for value in row):
            yield number, (what, tuple(value.text for value in row)), kind


def _taken(
    one: SmallChanges,
    what: Hashable,
    names: Sequence[str],
    columns: Sequence[Sequence[Comparable]],
    kind: str = ALONE,
    always: bool = False,
) -> Marked:
    """Yield marks for values that are taken; where one may be equal to others, no other is taken meanwhile. `always`: other
    changes may take values that they do not have."""
    yield from _named(one, what, columns, kind)
    if always or any(may_be_unclear(one.shape.table.type_of(name)) for name in names):
        for number, row in zip(one.transactions.tolist(), zip(*columns, strict=True), strict=True):
            yield number, ("unclear", what), CLEAR if all(value.is_clear for value in row) else ALONE


def _new(one: SmallChanges, name: str) -> Sequence[Comparable]:
    """Return the values behind the changes of a column that is set, or of the key."""
    sets = one.shape.sets
    return _values(one, sets.index(name) if name in sets else len(sets) + one.shape.table.key.index(name), name)


def _values(one: SmallChanges, place: int, name: str) -> Sequence[Comparable]:
    return compared(one.columns[place], one.shape.table.type_of(name))


# --- foreign keys ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Key:
    """A foreign key of the source between two tables that are followed, by names of columns at the target. `columns`: of the
    child, in the order of the parent's key; None where values of both tables cannot be compared here, or are not told."""

    name: tuple[TableId, str]
    child: TargetTable
    parent: TargetTable
    touched: frozenset[str]  # columns of the child
    referred: frozenset[str]  # columns of the parent
    columns: tuple[str, ...] | None

    def marks(self, one: SmallChanges) -> Marked:
        """Yield what changes have to do with the key."""
        shape, numbers = one.shape, one.transactions.tolist()
        if shape.table.source == self.child.source:
            sets = shape.operation != DELETE and not self.touched.isdisjoint(shape.sets)
            if sets:
                yield from self._referring(one)
            if shape.operation == DELETE or (sets and shape.operation != INSERT):
                yield from ((number, ("left", self.name), CHILD) for number in numbers)
        if shape.table.source == self.parent.source:
            sets = shape.operation == INSERT or not self.referred.isdisjoint(shape.sets)
            if sets and (self.columns is None or len(self.columns) > 1):  # a child's change may have some of them only
                yield from ((number, ("came", self.name), PARENT) for number in numbers)
            if shape.operation == DELETE or (sets and shape.operation != INSERT):
                yield from ((number, ("left", self.name), PARENT) for number in numbers)

    def _referring(self, one: SmallChanges) -> Marked:
        """Yield the parents' rows that changes of children refer to."""
        names = one.shape.columns
        if self.columns is None or not set(self.columns) <= set(names):
            yield from ((number, ("came", self.name), CHILD) for number in one.transactions.tolist())
            return
        values = [_values(one, names.index(name), name) for name in self.columns]
        yield from _taken(one, (self.parent.source, self.parent.key), self.columns, values, REFERS)


def _keys(followed: Mapping[TableId, Followed]) -> Iterator[_Key]:
    for one in followed.values():
        for key in one.schema.foreign_keys:
            parent = followed.get(key.parent)
            if parent is not None:
                yield _key(key, one.table, parent.table)


def _key(key: ForeignKey, child: TargetTable, parent: TargetTable) -> _Key:
    name = child.source, key.name
    touched, referred = _targets(child, key.columns), _targets(parent, key.parent_columns)
    if None in touched or None in referred:  # a column of it is not replicated: any change may be one of it
        return _Key(name, child, parent, frozenset(child.columns), frozenset(parent.columns), None)
    mine, theirs = [one for one in touched if one], [one for one in referred if one]
    of = dict(zip(theirs, mine, strict=True))
    comparable = set(theirs) == set(parent.key) and all(
        parent.type_of(there) == child.type_of(here) for there, here in of.items()
    )
    columns = tuple(of[name] for name in parent.key) if comparable else None
    return _Key(name, child, parent, frozenset(mine), frozenset(theirs), columns)


def _targets(table: TargetTable, columns: Sequence[str]) -> list[str | None]:
    names = dict(zip(table.source_columns, table.columns, strict=True))
    return [names.get(column) for column in columns]
