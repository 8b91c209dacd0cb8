"""Effect of a parent row's change at the source, by tables (K1): in which tables rows change, and in which they move.

A row moves if it gets another value in a column that other rows refer to, or that another foreign key also has: then it
matters what happens before and what after. What does not live here: what is done about it (cuts.py, cascade.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.apply.closure import closure
from anabranch.apply.context import ApplyContext
from anabranch.model.ids import TableId
from anabranch.rows.net import CascadeAction, CascadeRule


@dataclass(frozen=True)
class _Edge:
    """A foreign key as it acts here. `is_move`: the parent got another value."""

    rule: CascadeRule
    action: CascadeAction
    is_move: bool

    @property
    def child(self) -> TableId:
        return self.rule.child.source

    def below(self, context: ApplyContext) -> Iterator[_Edge]:
        for rule in context.references.get(self.child, ()):
            if self.action is CascadeAction.DELETE:
                action = rule.on_delete
            else:
                action = rule.on_update if not set(rule.parent_columns).isdisjoint(self.rule.columns) else None
            if action is not None:
                yield _Edge(rule, action, self.action is not CascadeAction.DELETE)

    def moves(self, context: ApplyContext) -> bool:
        """Return whether it matters when the key acts. Not if it takes rows along, nor if it clears a column that
        nothing else depends on.
        """
        if self.is_move or self.action is not CascadeAction.SET_NULL:
            return self.is_move
        ours = set(self.rule.columns)
        beside = (r for r in context.cascades if r.child.source == self.child and r != self.rule)
        return any(self.below(context)) or any(not ours.isdisjoint(rule.columns) for rule in beside)


@dataclass(frozen=True)
class Effect:
    """The effect of a parent's change.

    - `rules`: the foreign keys that act.
    - `reached`: tables in which rows change. `moved`: those of them in which rows move.
    - `is_plain`: there is one way to each of them, and none back.
    - `direct`: foreign keys by which rows of a moved table depend on the parent, if that is the only way and nothing
      follows from it.
    - `twice`: tables in which rows follow by two keys at once, and other rows follow these.
    """

    rules: frozenset[CascadeRule]
    reached: frozenset[TableId]
    moved: frozenset[TableId]
    is_plain: bool
    direct: frozenset[CascadeRule]
    twice: frozenset[TableId]


def effect_of(rules: Sequence[CascadeRule], is_gone: bool, context: ApplyContext) -> Effect:
    """Return the effect of a parent row that goes, or that gets other values for all of these keys."""
    first = [(rule, rule.on_delete if is_gone else rule.on_update) for rule in rules]
    start = {_Edge(rule, action, not is_gone) for rule, action in first if action is not None}
    edges = {edge for one in start for edge in closure(one, lambda edge: edge.below(context))}
    children = [edge.child for edge in edges]
    is_plain = len(set(children)) == len(children) and all(rule.parent.source not in children for rule in rules)
    moving = {edge for edge in edges if edge.moves(context)}
    upper = [edge.child for edge in moving if any(edge.below(context))]
    return Effect(
        frozenset(edge.rule for edge in edges),
        frozenset(children),
        frozenset(edge.child for edge in moving),
        is_plain,
        frozenset(edge.rule for edge in moving & start if is_plain and edge.child not in upper),
        frozenset(table for table in upper if children.count(table) > 1),
    )
