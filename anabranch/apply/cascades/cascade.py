"""Foreign-key actions that the source's log does not show (K1): the changes of parents that cause them, and what they
do to children, as sets for the Writer. The net changes of a stage come first, its cascades last; `cuts.py` decides
where a stage has to end because of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.apply.closure import closure
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed, Values
from anabranch.apply.images import Bools, Images, Ints, order_of, sequence_of
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey
from anabranch.model.table_life import TableState
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Op
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule

ACTIONS = {Action.CASCADE: CascadeAction.DELETE, Action.SET_NULL: CascadeAction.SET_NULL}  # on delete
UPDATE_ACTIONS = {Action.CASCADE: CascadeAction.UPDATE, Action.SET_NULL: CascadeAction.SET_NULL}


@dataclass(frozen=True)
class ParentChange:
    order: int
    rule: CascadeRule
    old: Values
    new: Values | None


def parent_changes(images: Mapping[TableId, Images], context: ApplyContext, base: int) -> list[ParentChange]:
    """Return every change of a referenced value, in log order, for children that are being replayed at that place."""
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
    return tuples(images.rows.select(list(rule.parent_columns)).take(pa.array(at)))


def _new_values(images: Images, rule: CascadeRule, after: Ints) -> list[Values]:
    columns = []
    for name, place in zip(rule.parent_columns, _places(rule), strict=True):
        absent = ~images.present(place)[after]
        columns.append(images.rows.column(name).take(pa.array(after - absent)))
    return tuples(pa.Table.from_arrays(columns, names=list(rule.parent_columns)))


def tuples(rows: pa.Table) -> list[Values]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


class NeedsReferencedColumns(NeedsSlowWay):
    """The error for a partial image that leaves out columns which children reference."""

    def __init__(self, rule: CascadeRule) -> None:
        super().__init__(rule.parent, f"the image lacks what {rule.child.source} references")
        self.rule = rule


def changed_with(table: TableId, context: ApplyContext) -> set[TableId]:
    """Return the table and all tables that its changes may cascade to."""
    return _reached(table, context, lambda rule: True)


def removed_with(table: TableId, context: ApplyContext) -> set[TableId]:
    """Return the table and all tables whose rows go when rows of it go."""
    return _reached(table, context, lambda rule: rule.on_delete is CascadeAction.DELETE)


def _reached(table: TableId, context: ApplyContext, over: Callable[[CascadeRule], bool]) -> set[TableId]:
    return closure(table, lambda one: (r.child.source for r in context.references.get(one, ()) if over(r)))


def hangs_on_hidden_rows(context: ApplyContext, table: TableId) -> bool:
    """Return whether cascades reach the table through rows of a table between, which other cascades change unseen."""
    between = {rule.parent.source for rule in context.cascades if rule.child.source == table}
    return any(rule.child.source in between for rule in context.cascades)


def refuse_far_cascades(
    context: ApplyContext, states: Mapping[TableId, TableState], others: Collection[TableId]
) -> None:
    """Refuse keys whose action would reach rows of other jobs, or of nobody. An action finds children by value, so a
    child table that is shared needs a parent table that is shared as well. `others`: target tables that other jobs write
    to. Raises StateError."""
    for rule in context.cascades:
        child, parent = rule.child, rule.parent
        shared = [t.target in others or states[t.source].facts.kept for t in (child, parent)]
        if shared == [True, False]:
            raise StateError(
                f"{child.target} has rows that are not this job's, {parent.target} has not: what the source's foreign key does"
                " to child rows would also change those",
                table=str(child.source),
                hint="write both to shared tables, with values that no other job has, or write the child to a table of its own",
            )


@dataclass(frozen=True)
class Follow:
    """The action of a foreign key of the source on children of parents that go (`is_removal`) or get another value."""

    rule: CascadeRule
    is_removal: bool
    cascade: Cascade

    def ahead(self, context: ApplyContext) -> Cascade | None:
        """Return the part of the cascade that may be done just before the parents change; None for no part.

        Keys of the target then find nothing to do. If they acted themselves, their actions would stop at the next key
        that is missing there. Giving children the parents' new values is left out. Of an action that removes rows of
        the parents' own table, where a parent may be among them, only the children of these rows are handled.
        """
        parent, child = self.rule.parent, self.rule.child.source
        if self.cascade.action is CascadeAction.UPDATE or (
            not parent.key and parent.source in changed_with(child, context)
        ):
            return None
        if self.cascade.action is CascadeAction.DELETE and parent.source in removed_with(child, context):
            return replace(self.cascade, spares_children=True) if child == parent.source else None
        return self.cascade


def cascades(changes: Sequence[ParentChange], context: ApplyContext, base: int) -> list[Follow]:
    """Return the stage's cascades per foreign key, as sets for the Writer. No parent moves twice in a stage (cuts.py)."""
    pending: dict[CascadeRule, dict[Values, Values | None]] = {}
    for change in changes:
        pending.setdefault(change.rule, {}).setdefault(change.old, change.new)
    at = sequence_of(changes[0].order, base) if changes else 0
    further = tuple(rule for rule in context.cascades if context.tables[rule.child.source].low < at)
    found = (_as_sets(rule, parents, context, further) for rule, parents in pending.items())
    return [follow for follows in found for follow in follows]


def _as_sets(
    rule: CascadeRule,
    parents: Mapping[Values, Values | None],
    context: ApplyContext,
    further: tuple[CascadeRule, ...],
) -> Iterator[Follow]:
    """Yield the cascades of one foreign key. `parents`: value before -> value after, None where the parent is gone."""
    taken_over = context.tables[rule.child.source].takeovers.get(rule, frozenset())
    tells = not taken_over.isdisjoint(parents)
    cascade = partial(Cascade, rule.child, rule.columns, rules=further, tells_keys=tells, computed=context.computed)
    gone = [old for old, new in parents.items() if new is None]
    moved = {old: new for old, new in parents.items() if new is not None}
    if gone and rule.on_delete:
        yield Follow(rule, True, cascade(action=rule.on_delete, parents=_table(gone, rule)))
    if moved and rule.on_update:
        olds, news = _table(list(moved), rule), _table(list(moved.values()), rule)
        replacements = news if rule.on_update is CascadeAction.UPDATE else None
        yield Follow(rule, False, cascade(action=rule.on_update, parents=olds, replacements=replacements))


def _table(rows: Sequence[Values], rule: CascadeRule) -> pa.Table:
    """Return parent values under the names of the child's columns, in the parent's Arrow types."""
    types = [arrow_type(rule.parent.type_of(name)) for name in rule.parent_columns]
    arrays = [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]
    return pa.Table.from_arrays(arrays, names=list(rule.columns))


def rules_of(tables: Mapping[TableId, Followed]) -> tuple[CascadeRule, ...]:
    """Return the foreign keys between followed tables that change rows without logging it, in target names.

    Raises StateError if the job leaves out columns, or filters rows, that are needed to follow such a key.
    """
    found = (
        _rule(child, tables[key.parent], key)
        for child in tables.values()
        for key in child.schema.foreign_keys
        if key.parent in tables and {key.on_delete, key.on_update} & ACTIONS.keys()
    )
    return tuple(dict.fromkeys(found))  # a key that was declared twice acts once


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
            f"foreign key {key.name} changes rows that the source's log does not show, and the job does not write its columns",
            table=str(child.schema.id),
            hint=f"replicate the columns {', '.join(key.columns)} and what they reference (preflight), or exclude the table",
        ) from None
    return CascadeRule(
        child.table,
        tuple(columns),
        parent.table,
        tuple(referenced),
        ACTIONS.get(key.on_delete),
        UPDATE_ACTIONS.get(key.on_update),
    )
