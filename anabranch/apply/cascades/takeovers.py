"""Values that a parent takes over inside the load window of its children (K1).

ON UPDATE CASCADE moves children without logging them. Suppose one parent leaves a value inside the window and another
parent takes it over. The replay of the window then finds children that were loaded under the second parent, and would
move them after the first. The values that this may happen to are known before the replay begins, because the trail has
the whole window by then. The children that a cascade from such a value reaches are read again from the source
(life/reread.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.apply.cascades.cascade import parent_changes
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed, Values
from anabranch.apply.images import gather
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import CascadeAction, CascadeRule
from anabranch.trail.reader import TrailReader

ByRule = dict[CascadeRule, set[Values]]


def with_takeovers(context: ApplyContext, trail: TrailReader) -> ApplyContext:
    """Return the context with `takeovers` for every table whose window is known and whose parents may take over values
    in it."""
    rules = _open_rules(context)
    if not rules:
        return context
    children = [context.tables[rule.child.source] for rule in rules]
    low, high = min(child.low for child in children), max(child.high for child in children)
    parents = {str(rule.parent.source) for rule in rules}
    refs = trail.descriptors(max(low, trail.first() - 1), high)
    return takeovers_in((trail.load(r) for r in refs if not parents.isdisjoint(name for name, _ in r.tables)), context)


def takeovers_in(chunks: Iterable[Chunk], context: ApplyContext) -> ApplyContext:
    """Return the context with `takeovers`, as `with_takeovers` does, from the chunks of the windows."""
    taken: ByRule = {rule: set() for rule in _open_rules(context)}
    left: ByRule = {rule: set() for rule in taken}
    for chunk in chunks:
        _note(chunk, context, left, taken)
    changed: list[Followed] = []
    for table in {rule.child.source for rule in taken}:
        mine = {rule: frozenset(values) for rule, values in taken.items() if rule.child.source == table}
        changed.append(replace(context.tables[table], takeovers=mine))
    return context.with_followed(*changed)


def _open_rules(context: ApplyContext) -> list[CascadeRule]:
    windows = {rule: context.tables[rule.child.source] for rule in context.cascades}
    follows = [rule for rule in windows if rule.on_update is CascadeAction.UPDATE]
    return [rule for rule in follows if windows[rule].low < windows[rule].high]


def _note(chunk: Chunk, context: ApplyContext, left: ByRule, taken: ByRule) -> None:
    base = chunk.first_sequence
    parents = [context.tables[table] for table in {rule.parent.source for rule in taken}]
    images = {f.schema.id: gather([chunk], f.table, f.schema, base, f.low) for f in parents}
    try:
        changes = parent_changes({t: some for t, some in images.items() if some is not None}, context, base)
    except NeedsSlowWay:  # the epoch comes to the same image, and refuses it with its key
        return
    for change in changes:
        if change.rule in taken:
            if change.new is not None and change.new in left[change.rule]:
                taken[change.rule].add(change.new)
            left[change.rule].add(change.old)
