"""Parents of one kind (K1): rows of one table that are deleted, or that get other values, and that the same foreign
keys act on. What follows from their changes, and which later image their pending cascades may affect, is looked up once
for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.apply.cascades.arriving_children import ArrivingChildren
from anabranch.apply.cascades.cascade import ParentChange, changed_with
from anabranch.apply.cascades.effect import effect_of
from anabranch.apply.context import ApplyContext
from anabranch.apply.images import END, order_of
from anabranch.rows.net import CascadeRule


class Kind:
    """A kind of parents. `rules`: the foreign keys that act, in the order of each parent's changes."""

    def __init__(
        self, rules: Sequence[CascadeRule], is_move: bool, children: ArrivingChildren, context: ApplyContext, base: int
    ) -> None:
        self.is_move = is_move
        self.effect = effect_of(rules, not is_move, context)
        self._keys_act = context.keys is not None
        self._coarse_before = max(_coarse_before(rule, is_move, context, base) for rule in rules)
        direct = self.effect.direct
        self._tables = [children.of(table) for table in self.effect.reached]
        self._moved = [children.of(table) for table in self.effect.moved - {rule.child.source for rule in direct}]
        self._parents = children.of(rules[0].parent.source)
        self._under = [(children.under(rule), rule in direct, rule in direct and _moves_key(rule)) for rule in rules]
        self._in_part = [children.under(rule) for rule in self.effect.rules if len(rule.columns) > 1]
        self._by_another_key = [self._keys_act and rule.parent_columns != rule.parent.key for rule in rules]

    def meets(self, other: Kind) -> bool:
        """Return whether one of the two moves rows that the other one reaches."""
        ours, theirs = self.effect, other.effect
        return not (ours.moved.isdisjoint(theirs.reached) and theirs.moved.isdisjoint(ours.reached))

    def has_image(self, start: int, stop: int) -> bool:
        """Return whether there is an image with start <= order < stop of a row that may follow.

        Where keys of the target act, children follow when their parent's own change is carried out, which is before
        their images.
        """
        return any(table.next_of("all", start - 1) < stop for table in self._tables)

    def end(self, changes: Sequence[ParentChange]) -> int:
        """Return the order at which the parent's stage has to end: that of the first image that its cascades may affect."""
        return min(self._ends(changes), default=END)

    def _ends(self, changes: Sequence[ParentChange]) -> Iterator[int]:
        order = changes[0].order
        is_coarse = order < self._coarse_before
        for change, (under, is_direct, moves_key) in zip(changes, self._under, strict=True):
            yield under.next_of(change.old, order, puts_only=not is_direct)
            if moves_key and change.new is not None:
                yield under.next_of(change.new, order, puts_only=False)
        yield from (under.next_unclear(order) for under in self._in_part)
        yield from (table.next_of("off", order) for table in self._tables)
        yield from (table.next_of("all", order) for table in self._moved)
        if is_coarse:
            yield from (table.next_of("all" if self.is_move else "puts", order) for table in self._tables)
        if self._keys_act:
            yield from self._again(changes)

    def _again(self, changes: Sequence[ParentChange]) -> Iterator[int]:
        """Yield orders before which a stage has to end because a referenced value may come again under the same primary
        key.

        Where keys of the target act, and another key than the primary one is referred to, the target would see one
        change where the source made two.
        """
        for change, is_other in zip(changes, self._by_another_key, strict=True):
            if is_other and (change.new is None or None in change.new):
                yield self._parents.next_of("puts" if change.new is None else "all", change.order)


def _moves_key(rule: CascadeRule) -> bool:
    """Return whether a child row that follows its parent gets another key, or has none."""
    return not rule.child.key or not set(rule.columns).isdisjoint(rule.child.key)


def _coarse_before(rule: CascadeRule, is_move: bool, context: ApplyContext, base: int) -> int:
    """Return the order before which the effect of a change is known by tables only.

    That is so in a load window; always where foreign keys refer to something else than the primary key; and where keys
    of the target act: a child that follows its parent may be there under its new value at once, and go with it before
    its own children have followed.
    """
    tables = [rule.parent.source, *changed_with(rule.child.source, context)]
    rules = [rule, *(r for t in tables[1:] for r in context.references.get(t, ()))]
    if (context.keys is not None and is_move) or not rule.child.key:
        return END
    if any(tuple(r.parent_columns) != r.parent.key for r in rules):
        return END
    return max(order_of(context.tables[table].high + 1, base) for table in tables)
