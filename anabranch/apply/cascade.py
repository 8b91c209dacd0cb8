"""Foreign-key actions that the source's log does not show (K1), and where they cut an epoch into stages.

A stage's net changes come first, its cascades last. That is the same as doing each cascade at its ordinal as long as no
later image of the stage puts a child row under a parent value that a pending cascade is about to clear; such an image
starts a new stage. Where that test is not enough (a load window, foreign keys that reference something else than the
primary key) any later put into an affected table does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed, Values
from anabranch.apply.images import Bools, Images, Ints, order_of, sequence_of
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule

ACTIONS = {Action.CASCADE: CascadeAction.DELETE, Action.SET_NULL: CascadeAction.SET_NULL}  # on delete
UPDATE_ACTIONS = {Action.CASCADE: CascadeAction.UPDATE, Action.SET_NULL: CascadeAction.SET_NULL}


@dataclass
class Pending:
    """What one foreign key still has to do: parent value before -> value after, None = the parent is gone."""

    rule: CascadeRule
    moves: dict[Values, Values | None] = field(default_factory=dict)

    def add(self, old: Values, new: Values | None) -> None:
        """A later change of the same parent continues an earlier one, where children follow it."""
        is_followed = self.rule.on_update is CascadeAction.UPDATE
        follows = [start for start, now in self.moves.items() if is_followed and now == old]
        for start in follows:
            self.moves[start] = new
        if old not in self.moves:
            self.moves[old] = new


@dataclass(frozen=True)
class ParentChange:
    order: int
    rule: CascadeRule
    old: Values
    new: Values | None


def parent_changes(images: Mapping[TableId, Images], context: ApplyContext, base: int) -> list[ParentChange]:
    """Every change of a referenced value, in log order, for children that are being replayed at that place."""
    found: list[ParentChange] = []
    for table, rules in context.references.items():
        if table in images:
            for rule in rules:
                start = order_of(context.tables[rule.child.source].low + 1, base)
                found.extend(c for c in _changes_of(images[table], rule) if c.order >= start)
    return sorted(found, key=lambda change: change.order)


def _changes_of(images: Images, rule: CascadeRule) -> Iterator[ParentChange]:
    if rule.on_delete:
        deleted = np.flatnonzero((images.op == Op.DELETE) & images.is_followed_by_keys)
        for order, old in zip(images.order[deleted], _values(images, rule, deleted), strict=True):
            if None not in old:
                yield ParentChange(int(order), rule, old, None)
    if rule.on_update:
        after = np.flatnonzero((images.op == Op.AFTER) & images.is_followed_by_keys)
        after = after[_carries_any(images, rule, after)]
        pairs = zip(_values(images, rule, after - 1), _new_values(images, rule, after), strict=True)
        for order, (old, new) in zip(images.order[after], pairs, strict=True):
            if old != new and None not in old:
                yield ParentChange(int(order), rule, old, new)


def _places(rule: CascadeRule) -> list[int]:
    return [rule.parent.columns.index(name) for name in rule.parent_columns]


def _carries_any(images: Images, rule: CascadeRule, at: Ints) -> Bools:
    found = np.zeros(len(at), dtype=bool)
    for place in _places(rule):
        found |= images.present(place)[at]
    return found


def _values(images: Images, rule: CascadeRule, at: Ints) -> list[Values]:
    for place in _places(rule):
        if not images.present(place)[at].all():
            raise NeedsReferencedColumns(rule)
    return _tuples(images.rows.select(list(rule.parent_columns)).take(pa.array(at)))


def _new_values(images: Images, rule: CascadeRule, after: Ints) -> list[Values]:
    columns = []
    for name, place in zip(rule.parent_columns, _places(rule), strict=True):
        absent = ~images.present(place)[after]
        columns.append(images.rows.column(name).take(pa.array(after - absent)))
    return _tuples(pa.Table.from_arrays(columns, names=list(rule.parent_columns)))


def _tuples(rows: pa.Table) -> list[Values]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


class NeedsReferencedColumns(NeedsSlowWay):
    """A partial image leaves out the columns that children reference."""

    def __init__(self, rule: CascadeRule) -> None:
        super().__init__(rule.parent, f"the image lacks what {rule.child.source} references")
        self.rule = rule


def cuts(
    images: Mapping[TableId, Images], changes: Sequence[ParentChange], context: ApplyContext, base: int
) -> list[int]:
    """Orders at which a new stage has to begin because of `changes`."""
    coarse = [_is_coarse(change, context, base) for change in changes]
    events: list[tuple[int, int, int | tuple[TableId, CascadeRule | None, Values]]] = [
        (change.order, 1, place) for place, change in enumerate(changes)
    ]
    events += [(order, 0, put) for order, put in _puts(images, changes, coarse, context)]
    found: list[int] = []
    tables: set[TableId] = set()
    values: set[tuple[CascadeRule, Values]] = set()
    for order, _, event in sorted(events, key=lambda e: e[:2]):
        if isinstance(event, int):
            change = changes[event]
            values.add((change.rule, change.old))
            if coarse[event]:
                tables |= closure(change.rule.child.source, context)
        elif event[0] in tables or (event[1] is not None and (event[1], event[2]) in values):
            found.append(order)
            tables, values = set(), set()
    return found


def _puts(
    images: Mapping[TableId, Images],
    changes: Sequence[ParentChange],
    coarse: Sequence[bool],
    context: ApplyContext,
) -> Iterator[tuple[int, tuple[TableId, CascadeRule | None, Values]]]:
    """Images that may meet a pending cascade: puts under one of its old values; in coarse tables any put, and where
    parents move (children change their values, perhaps their keys, with them) any image."""
    rough = [change for change, is_coarse in zip(changes, coarse, strict=True) if is_coarse]
    tables = {t for change in rough for t in closure(change.rule.child.source, context)}
    moving = {t for change in rough if change.new is not None for t in closure(change.rule.child.source, context)}
    for table in tables & images.keys():
        met = np.flatnonzero(~images[table].is_removal | (table in moving))
        yield from ((order, (table, None, ())) for order in _begins(images[table], met))
    olds: dict[CascadeRule, list[Values]] = {}
    for change in changes:
        olds.setdefault(change.rule, []).append(change.old)
    for rule, some in olds.items():
        child = images.get(rule.child.source)
        if child is not None:
            for order, value in _puts_under(child, rule, some):
                yield order, (rule.child.source, rule, value)


def _puts_under(child: Images, rule: CascadeRule, olds: Sequence[Values]) -> Iterator[tuple[int, Values]]:
    first = child.rows.column(rule.columns[0])
    wanted = pa.array([old[0] for old in olds], first.type)
    near = pc.is_in(first, value_set=wanted).to_numpy() & ~child.is_removal
    at = np.flatnonzero(near)
    rows = _tuples(child.rows.select(list(rule.columns)).take(pa.array(at)))
    known = set(olds)
    yield from ((order, value) for order, value in zip(_begins(child, at), rows, strict=True) if value in known)


def _begins(images: Images, at: Ints) -> list[int]:
    """Orders at which the changes begin that the images belong to: an update's two images stay together."""
    begins: list[int] = images.order[at - (images.op[at] == Op.AFTER)].tolist()
    return begins


def _is_coarse(change: ParentChange, context: ApplyContext, base: int) -> bool:
    tables = [change.rule.parent.source, *closure(change.rule.child.source, context)]
    if any(change.order < order_of(context.tables[t].high + 1, base) for t in tables):
        return True
    rules = [change.rule, *(r for t in tables[1:] for r in context.references.get(t, ()))]
    return any(tuple(r.parent_columns) != r.parent.key for r in rules) or not change.rule.child.key


def closure(table: TableId, context: ApplyContext) -> set[TableId]:
    """The table and all that its own changes may cascade to."""
    found: set[TableId] = set()
    open_tables = [table]
    while open_tables:
        current = open_tables.pop()
        if current not in found:
            found.add(current)
            open_tables.extend(r.child.source for r in context.references.get(current, ()))
    return found


def hangs_on_hidden_rows(context: ApplyContext, table: TableId) -> bool:
    """Do cascades reach the table over rows of a table between, which other cascades change unseen?"""
    between = {rule.parent.source for rule in context.cascades if rule.child.source == table}
    return any(rule.child.source in between for rule in context.cascades)


def cascades(changes: Sequence[ParentChange], context: ApplyContext, base: int) -> list[Cascade]:
    """The stage's cascades, composed per foreign key, as sets for the Writer."""
    pending: dict[CascadeRule, Pending] = {}
    for change in changes:
        pending.setdefault(change.rule, Pending(change.rule)).add(change.old, change.new)
    at = sequence_of(changes[0].order, base) if changes else 0
    further = tuple(rule for rule in context.cascades if context.tables[rule.child.source].low < at)
    return [c for p in pending.values() for c in _as_sets(p, context.tables[p.rule.child.source], further)]


def _as_sets(pending: Pending, child: Followed, further: tuple[CascadeRule, ...]) -> Iterator[Cascade]:
    rule = pending.rule
    tells = not child.taken.get(rule, frozenset()).isdisjoint(pending.moves)
    cascade = partial(Cascade, rule.child, rule.columns, rules=further, tells_keys=tells)
    gone = [old for old, new in pending.moves.items() if new is None]
    moved = [(old, new) for old, new in pending.moves.items() if new is not None and new != old]
    if gone and rule.on_delete:
        yield cascade(action=rule.on_delete, parents=_table(gone, rule))
    if moved and rule.on_update:
        olds, news = _table([old for old, _ in moved], rule), _table([new for _, new in moved], rule)
        yield cascade(
            action=rule.on_update,
            parents=olds,
            replacements=news if rule.on_update is CascadeAction.UPDATE else None,
        )


def _table(rows: Sequence[Values], rule: CascadeRule) -> pa.Table:
    """Parent values under the names of the child's columns, in the parent's Arrow types."""
    types = [arrow_type(rule.parent.type_of(name)) for name in rule.parent_columns]
    arrays = [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]
    return pa.Table.from_arrays(arrays, names=list(rule.columns))


def rules_of(tables: Mapping[TableId, Followed]) -> tuple[CascadeRule, ...]:
    """The foreign keys between followed tables that change rows without logging it, in target names.

    Raises StateError when the job leaves out a column, or by a filter rows, that are needed to follow such a key."""
    return tuple(
        _rule(child, tables[key.parent], key)
        for child in tables.values()
        for key in child.schema.foreign_keys
        if key.parent in tables and {key.on_delete, key.on_update} & ACTIONS.keys()
    )


def _rule(child: Followed, parent: Followed, key: ForeignKey) -> CascadeRule:
    if child.filter or parent.filter:
        raise StateError(
            f"foreign key {key.name} changes rows that the source's log does not show, and one of its tables is filtered",
            table=str(child.schema.id),
            hint="leave out the `where` of both tables, or exclude the child table",
        )
    try:
        columns = [child.table.columns[child.table.source_columns.index(name)] for name in key.columns]
        referenced = [parent.table.columns[parent.table.source_columns.index(name)] for name in key.parent_columns]
    except ValueError:
        raise StateError(
            f"foreign key {key.name} changes rows that the source's log does not show, and the job drops its columns",
            table=str(child.schema.id),
            hint=f"replicate the columns {', '.join(key.columns)} and what they reference, or exclude the table",
        ) from None
    return CascadeRule(
        child.table,
        tuple(columns),
        parent.table,
        tuple(referenced),
        ACTIONS.get(key.on_delete),
        UPDATE_ACTIONS.get(key.on_update),
    )
