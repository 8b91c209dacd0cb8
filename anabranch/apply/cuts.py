"""Where the cascades of an epoch cut it into stages (K1): what may not be merged over.

Cascades come at the end of a stage. That is the same as doing each at its ordinal as long as no later image of the stage
puts a child row under a parent value that a pending cascade is about to clear, or is of a row that one is about to move;
and as long as no cascade reaches rows that another one moves (effect.py). Where that test is not enough (a load window,
foreign keys that reference something else than the primary key, keys of the target that act, rows put with foreign keys
off) any later put into an affected table begins a stage. What does not live here: the cascades (cascade.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from anabranch.apply.cascade import ParentChange, closure
from anabranch.apply.context import ApplyContext, Values
from anabranch.apply.effect import Effect, effect_of
from anabranch.apply.images import END, Images, order_of
from anabranch.apply.met import Met
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.net import CascadeRule


def cuts(
    images: Mapping[TableId, Images], changes: Sequence[ParentChange], context: ApplyContext, base: int
) -> list[int]:
    """Orders at which a new stage has to begin because of `changes`."""
    keys_act, met = context.keys is not None, Met(images, changes)
    found: list[int] = []
    pending, until = _Pending(), END

    def cut(order: int) -> None:
        nonlocal pending, until
        found.append(order)
        pending, until = _Pending(), END

    for parent in _parents(changes, context, base):
        if keys_act and not parent.is_gone and parent.effect.twice:
            raise _two_ways(parent)
        if until <= parent.begin:
            cut(until)
        is_late = keys_act and _moves_what_changed(parent, met, found[-1] if found else -END)
        if is_late or pending.collides(parent):
            cut(parent.begin)
        pending.add(parent)
        until = min(until, *_ends(parent, met, keys_act), END)
    if until < END:
        cut(until)
    return found


@dataclass(frozen=True)
class _Parent:
    """A row that goes or gets another value, and what follows from it. `is_coarse`: that is known by tables only."""

    order: int
    changes: tuple[ParentChange, ...]
    effect: Effect
    is_coarse: bool

    @property
    def is_gone(self) -> bool:
        return self.changes[0].new is None

    @property
    def begin(self) -> int:
        """Of its images: an update's two stay together."""
        return self.order - (not self.is_gone)

    @property
    def kind(self) -> tuple[bool, tuple[CascadeRule, ...]]:
        return self.is_gone, tuple(change.rule for change in self.changes)


def _parents(changes: Sequence[ParentChange], context: ApplyContext, base: int) -> Iterator[_Parent]:
    effects: dict[tuple[bool, tuple[CascadeRule, ...]], Effect] = {}
    for order, same in groupby(changes, key=lambda change: change.order):
        some = tuple(same)
        rules, is_gone = tuple(change.rule for change in some), some[0].new is None
        if (is_gone, rules) not in effects:
            effects[is_gone, rules] = effect_of(rules, is_gone, context)
        yield _Parent(order, some, effects[is_gone, rules], any(_is_coarse(one, context, base) for one in some))


@dataclass
class _Pending:
    """The parents of a stage so far, by what happens to them."""

    effects: dict[tuple[bool, tuple[CascadeRule, ...]], Effect] = field(default_factory=dict)
    met: set[tuple[CascadeRule, Values | None]] = field(default_factory=set)  # values that moves leave or come to

    def add(self, parent: _Parent) -> None:
        self.effects[parent.kind] = parent.effect
        if parent.effect.moved:
            self.met |= {(change.rule, change.new) for change in parent.changes}

    def collides(self, parent: _Parent) -> bool:
        """Does its cascade reach rows that those of the stage move, or move rows that they reach? Parents of one kind may go
        together where there is one way to each table: what each does concerns other rows. Not so twice the same row: the
        value between is nowhere."""
        ours = parent.effect
        for kind, effect in self.effects.items():
            if effect.moved.isdisjoint(ours.reached) and ours.moved.isdisjoint(effect.reached):
                continue
            if kind != parent.kind or not ours.is_plain:
                return True
        return any((change.rule, change.old) in self.met for change in parent.changes)


def _moves_what_changed(parent: _Parent, met: Met, start: int) -> bool:
    """Where keys of the target act, children follow when their parent's own change is carried out, and that is before theirs:
    do some change in the stage before their parent moves?"""
    return not parent.is_gone and any(met.any_of(table, start - 1) < parent.begin for table in parent.effect.reached)


def _two_ways(parent: _Parent) -> RowRefused:
    """A row that a key of the target has moved already is looked for by what another key's columns held before."""
    return RowRefused(
        f"a value that others refer to changes, {', '.join(sorted(map(str, parent.effect.twice)))} follows it by two foreign"
        " keys, and rows of a further table follow that; where the target's keys act these cannot be told",
        table=str(parent.changes[0].rule.parent.source),
        hint="let the job's user switch foreign keys off at the target: preflight lists the statements",
    )


def _ends(parent: _Parent, met: Met, keys_act: bool) -> Iterator[int]:
    """Orders from which on the stage of a parent may not go on: each of the first image that its cascade may meet. Where keys
    of the target act, nor may what another key than the primary one refers to come again under the same primary key: the
    target would see one change where the source made two."""
    effect, order = parent.effect, parent.order
    for change in parent.changes:
        rule = change.rule
        if keys_act and rule.parent_columns != rule.parent.key:
            if change.new is None:
                yield met.put_into(rule.parent.source, order)
            elif None in change.new:
                yield met.any_of(rule.parent.source, order)
        yield met.under(rule, change.old, order, puts_only=rule not in effect.direct)
        if rule in effect.direct and change.new is not None and met.has_key_in(rule):
            yield met.under(rule, change.new, order, puts_only=False)
    yield from (met.unclear(rule, order) for rule in effect.rules if len(rule.columns) > 1)
    direct = {rule.child.source for rule in effect.direct}
    for table in effect.reached:
        yield met.made_with_keys_off(table, order)
        if table in effect.moved - direct or (parent.is_coarse and not parent.is_gone):
            yield met.any_of(table, order)
        elif parent.is_coarse:
            yield met.put_into(table, order)


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
