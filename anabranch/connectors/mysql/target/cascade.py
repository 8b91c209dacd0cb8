"""Foreign-key actions of the source, done at the target, level after level (K1).

The values that children refer to are known here, not in a table there, which one statement could name only once: what a
level's own children will need is read before the level changes, and goes into the conditions of the next one. Rows go from
the lowest level up, so that a key of the target that only checks is content (K7); in a circle of tables they go from the top,
which ends when a level finds none. An update never enters a table twice on one path: such an update is refused by the source
itself. Where keys of the target act, a child may have followed its parent already while its own children have not: then it is
known by its new value, too.
https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-referential-actions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from anabranch.connectors.mysql.target import cascade_step as rows
from anabranch.connectors.mysql.target.cascade_computed import Computing
from anabranch.connectors.mysql.target.cascade_step import Step
from anabranch.connectors.mysql.target.conditions import Values
from anabranch.connectors.mysql.target.handed_on import hand_on
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.model.ids import TableId
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule, Computed, TargetTable

Texts = dict[str, str | None]
Change = tuple[Values, Values]  # what rows refer to: before, after


def carry_out(
    stages: StagingTables,
    cascade: Cascade,
    rules: Sequence[CascadeRule],
    nul: str,
    keys_act: bool = False,
) -> list[Texts]:
    """Do a cascade and everything that follows from it. Returns keys of the child, if the cascade tells them. `keys_act`:
    those of the target, by themselves. Raises Conflict; the driver's errors pass."""
    keys: list[Texts] = []
    connection = stages.connection
    step = rows.first_step(cascade, nul)
    if step.olds:
        if cascade.tells_keys:
            names = cascade.child.key
            keys = [dict(zip(names, values, strict=True)) for _, values in rows.found(connection, step, names)]
        levels = _Levels(stages, rules, keys_act, cascade.computed)
        if cascade.spares_children:
            levels.spare(step)
        else:
            levels.do(step, frozenset(), frozenset())
    return keys


class _Levels:
    """Walks the rules from a step down to where nothing is found any more."""

    def __init__(
        self,
        stages: StagingTables,
        rules: Sequence[CascadeRule],
        keys_act: bool,
        computed: Mapping[TableId, Computed],
    ) -> None:
        self.stages, self.connection, self.rules = stages, stages.connection, rules
        self.keys_act, self.computed = keys_act, computed

    def do(self, step: Step, updated: frozenset[TableId], deleted: frozenset[TableId]) -> None:
        """Carry out a step and those that follow from it. `updated`, `deleted`: tables above, by what happens to their rows."""
        child, action = step.child, step.action
        if self.keys_act and action is CascadeAction.DELETE and child.target not in deleted and self._own(child):
            self.spare(step)
        gone = deleted | {child.target} if action is CascadeAction.DELETE else deleted
        path = updated if action is CascadeAction.DELETE else updated | {child.target}
        ahead = (self._look_ahead(step, rule, then) for rule, then in self._followers(step, path))
        following = [one for one in ahead if one.olds]
        is_below = [action is CascadeAction.DELETE and one.child.target not in gone for one in following]
        for one, first in zip(following, is_below, strict=True):
            if first:
                self.do(one, path, gone)
        self._change(step)
        for one, first in zip(following, is_below, strict=True):
            if not first:
                self.do(one, path, gone)

    def spare(self, step: Step) -> None:
        """Find and change the children of the step's rows, and of the rows that keys of the table to itself take along."""
        child = step.child
        own = self._own(child)
        mine = [rule for rule in self.rules if rule.parent.target == child.target]
        others = [rule for rule in mine if rule not in own and rule.on_delete is not None]
        if not (others and child.key):
            return
        gone = self._gather(step, own, others)
        for rule in others:
            assert rule.on_delete is not None
            below = _distinct(tuple(row[name] for name in rule.parent_columns) for row in gone)
            if below:
                next_step = Step(rule.child, rule.columns, rule.on_delete, below)
                self.do(next_step, frozenset(), frozenset([child.target]))

    def _gather(self, step: Step, own: Sequence[CascadeRule], others: Sequence[CascadeRule]) -> list[Texts]:
        """Return the rows that a step removes and those that go with them, with what is referred to in them."""
        child = step.child
        names = tuple(dict.fromkeys([*child.key, *(n for rule in (*own, *others) for n in rule.parent_columns)]))
        gone: dict[Values, Texts] = {}
        new = [values for _, values in rows.found(self.connection, step, names)]
        while new:
            came: list[Texts] = []
            for values in new:
                row = dict(zip(names, values, strict=True))
                key = tuple(row[name] for name in child.key)
                if key not in gone:
                    gone[key] = row
                    came.append(row)
            new = [values for rule in own for values in self._below(rule, came, names)] if came else []
        return list(gone.values())

    def _below(self, rule: CascadeRule, came: Sequence[Texts], names: Sequence[str]) -> Iterator[Values]:
        some = _distinct(tuple(row[name] for name in rule.parent_columns) for row in came)
        return rows.held(self.connection, rule.child, rule.columns, some, names)

    def _own(self, table: TargetTable) -> list[CascadeRule]:
        """Return keys of the table to itself, by which a row that goes takes others of the same table along."""
        deletes = (rule for rule in self.rules if rule.on_delete is CascadeAction.DELETE)
        return [rule for rule in deletes if rule.parent.target == rule.child.target == table.target]

    def _followers(self, step: Step, updated: frozenset[TableId]) -> Iterator[tuple[CascadeRule, CascadeAction]]:
        for rule in self.rules:
            if rule.parent.target != step.child.target:
                continue
            if step.action is CascadeAction.DELETE:
                then = rule.on_delete
            else:
                touched = set(rule.parent_columns) & set(step.columns)
                then = rule.on_update if touched and rule.child.target not in updated else None
            if then is not None:
                yield rule, then

    def _look_ahead(self, step: Step, rule: CascadeRule, then: CascadeAction) -> Step:
        """Return the next level's step: what its rows refer to, as it is and, where they follow that, as it will be. What does
        not change clears nobody. Values are compared as they are written: a source follows also from "a" to "A"."""
        by_old = {
            old: new
            for old, new in self._changes(step, rule)
            if None not in old and (step.action is CascadeAction.DELETE or old != new)
        }
        if then is CascadeAction.UPDATE:
            return Step(rule.child, rule.columns, then, list(by_old), list(by_old.values()))
        return Step(rule.child, rule.columns, then, list(by_old))

    def _changes(self, step: Step, rule: CascadeRule) -> Iterator[Change]:
        """Yield what the rows of a step hold in the columns that a rule refers to, before and after it."""
        names = rule.parent_columns
        for number, values in rows.found(self.connection, step, names):
            yield values, _after(step, number, names, values)
        if self.keys_act and step.news:
            for number, values in rows.found(self.connection, step, names, has_followed=True):
                before = tuple(step.before(number, n, value) for n, value in zip(names, values, strict=True))
                yield before, _after(step, number, names, before)

    def _change(self, step: Step) -> None:
        if step.action is CascadeAction.DELETE:
            rows.remove(self.connection, step)
            return
        known, computing = self.stages.known.of(step.child.target), self._computing(step)
        if step.action is CascadeAction.SET_NULL:
            rows.clear(self.connection, known, step)
        elif rows.hands_on(self.connection, step):
            hand_on(self.stages, step, self.keys_act)
        else:
            rows.replace_each(self.connection, known, step)
        if computing is not None:
            computing.store(known)

    def _computing(self, step: Step) -> Computing | None:
        """Ask the source for the computed columns of the step's children; None where the step changes none."""
        computed = self.computed.get(step.child.source)
        if computed is None or set(step.columns).isdisjoint(computed.inputs):
            return None
        return Computing(self.connection, step, computed, self.keys_act)


def _after(step: Step, number: int, names: Sequence[str], values: Values) -> Values:
    return tuple(step.after(number, name, value) for name, value in zip(names, values, strict=True))


def _distinct(some: Iterable[Values]) -> list[Values]:
    return [one for one in dict.fromkeys(some) if None not in one]
