"""Where the cascades of an epoch cut it into stages (K1): what may not be merged over.

Cascades come at the end of a stage. That is the same as doing each at its ordinal as long as no later image of the stage
puts a child row under a parent value that a pending cascade is about to clear; such an image starts a new stage, and so does
a parent that goes or moves where rows still have to follow one. Where that test is not enough (a load window, foreign keys
that reference something else than the primary key, rows put with foreign keys off) any later put into an affected table
does. What does not live here: the cascades (cascade.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.cascade import ParentChange, closure, followers, tuples
from anabranch.apply.context import ApplyContext, Values
from anabranch.apply.images import Images, Ints, order_of
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Op
from anabranch.rows.net import CascadeRule


def cuts(
    images: Mapping[TableId, Images], changes: Sequence[ParentChange], context: ApplyContext, base: int
) -> list[int]:
    """Orders at which a new stage has to begin because of `changes`."""
    coarse = [_is_coarse(change, context, base) for change in changes]
    events: list[tuple[int, int, int | _Put]] = [(change.order, 1, place) for place, change in enumerate(changes)]
    events += [(order, 0, put) for order, put in _puts(images, changes, coarse, context)]
    found: list[int] = []
    reach = {rule: _Reach.of(rule, context) for rule in {change.rule for change in changes}}
    pending = _Promised(reach)
    for order, _, event in sorted(events, key=lambda e: e[:2]):
        if isinstance(event, int):
            together = range(event, event)
            if pending.collides(changes[event]):
                found.append(order - (changes[event].new is not None))  # an update's two images stay together
                pending = _Promised(reach)
                together = range(bisect_left(changes, order, key=lambda c: c.order), event)  # of the same row
            for place in (*together, event):
                pending.add(changes[place], coarse[place])
        elif pending.meets(event):
            found.append(order)
            pending = _Promised(reach)
    return found


@dataclass(frozen=True)
class _Reach:
    """Of a foreign key: the tables in which anything may change with a parent, and those in which rows follow one."""

    all: set[TableId]
    following: set[TableId]

    @classmethod
    def of(cls, rule: CascadeRule, context: ApplyContext) -> _Reach:
        return cls(closure(rule.child.source, context), followers(rule, context))


@dataclass
class _Promised:
    """What the cascades of a stage, so far, will do at its end: values that children lose, tables in which rows go, lose a
    parent or follow one, and those that are hit in an unknown way."""

    reach: Mapping[CascadeRule, _Reach]
    values: set[tuple[CascadeRule, Values]] = field(default_factory=set)
    came_to: set[tuple[CascadeRule, Values]] = field(default_factory=set)
    reached: set[TableId] = field(default_factory=set)
    removed: set[TableId] = field(default_factory=set)
    moved: dict[TableId, TableId] = field(default_factory=dict)  # with rows of which table
    tables: set[TableId] = field(default_factory=set)

    def add(self, change: ParentChange, is_coarse: bool) -> None:
        rule, reach = change.rule, self.reach[change.rule]
        self.values.add((rule, change.old))
        self.reached |= reach.all
        if is_coarse:
            self.tables |= reach.all
        if change.new is None:
            self.removed |= reach.all
        else:
            self.came_to.add((rule, change.new))
            self.moved |= dict.fromkeys(reach.following, rule.parent.source)

    def meets(self, put: _Put) -> bool:
        is_under = put.rule is not None and (put.rule, put.value) in self.values
        return is_under or put.table in (self.reached if put.is_off else self.tables)

    def collides(self, change: ParentChange) -> bool:
        """Where rows follow a parent, a stage does nothing else to them: removals take what hangs on a row by the value that
        it has, and of a row that follows twice the value between is nowhere. Parents of one table may move together."""
        rule, reach = change.rule, self.reach[change.rule]
        if change.new is None:
            return not reach.all.isdisjoint(self.moved)
        parents = {self.moved[table] for table in reach.following & self.moved.keys()}
        is_again = (rule, change.old) in self.came_to
        return is_again or bool(parents - {rule.parent.source}) or not reach.following.isdisjoint(self.removed)


@dataclass(frozen=True)
class _Put:
    """An image that a cascade may meet: under a value of a rule; or `is_off`, made while the source's foreign keys were, and
    so perhaps under a value that is nobody's."""

    table: TableId
    rule: CascadeRule | None = None
    value: Values = ()
    is_off: bool = False


def _puts(
    images: Mapping[TableId, Images],
    changes: Sequence[ParentChange],
    coarse: Sequence[bool],
    context: ApplyContext,
) -> Iterator[tuple[int, _Put]]:
    """Images that may meet a pending cascade: puts under one of its old values; in coarse tables any put, and where
    parents move (children change their values, perhaps their keys, with them) any image; puts with foreign keys off."""
    rough = [change for change, is_coarse in zip(changes, coarse, strict=True) if is_coarse]
    tables = {t for change in rough for t in closure(change.rule.child.source, context)}
    moving = {t for change in rough if change.new is not None for t in closure(change.rule.child.source, context)}
    for table in tables & images.keys():
        met = np.flatnonzero(~images[table].is_removal | (table in moving))
        yield from ((order, _Put(table)) for order in _begins(images[table], met))
    reached = {t for child in {change.rule.child.source for change in changes} for t in closure(child, context)}
    for table in reached & images.keys():
        off = np.flatnonzero(~images[table].is_removal & ~images[table].is_followed_by_keys)
        yield from ((order, _Put(table, is_off=True)) for order in _begins(images[table], off))
    olds: dict[CascadeRule, list[Values]] = {}
    for change in changes:
        olds.setdefault(change.rule, []).append(change.old)
    for rule, some in olds.items():
        child = images.get(rule.child.source)
        if child is not None:
            for order, value in _puts_under(child, rule, some):
                yield order, _Put(rule.child.source, rule, value)


def _puts_under(child: Images, rule: CascadeRule, olds: Sequence[Values]) -> Iterator[tuple[int, Values]]:
    first = child.rows.column(rule.columns[0])
    wanted = pa.array([old[0] for old in olds], first.type)
    near = pc.is_in(first, value_set=wanted).to_numpy() & ~child.is_removal
    at = np.flatnonzero(near)
    rows = tuples(child.rows.select(list(rule.columns)).take(pa.array(at)))
    known = set(olds)
    yield from ((order, value) for order, value in zip(_begins(child, at), rows, strict=True) if value in known)


def _begins(images: Images, at: Ints) -> list[int]:
    """Orders at which the changes begin that the images belong to: an update's two images stay together."""
    begins: list[int] = images.order[at - (images.op[at] == Op.AFTER)].tolist()
    return begins


def _is_coarse(change: ParentChange, context: ApplyContext, base: int) -> bool:
    """Where keys of the target act, a child that follows its parent may be met under its new value at once, and go with it
    before what hangs on the child has followed."""
    if context.keys is not None and change.new is not None:
        return True
    tables = [change.rule.parent.source, *closure(change.rule.child.source, context)]
    if any(change.order < order_of(context.tables[t].high + 1, base) for t in tables):
        return True
    rules = [change.rule, *(r for t in tables[1:] for r in context.references.get(t, ()))]
    return any(tuple(r.parent_columns) != r.parent.key for r in rules) or not change.rule.child.key
