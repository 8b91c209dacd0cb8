"""Foreign-key actions of the source, done set-wise at the target, level after level (K1).

The parents' old values are in a staging table; before the children change, the values that their own children need go
into the next one. Rows go from the lowest level up, so that a key of the target that only checks is content (K7); in a
circle of tables they go from the top, which ends when a level finds none. An update never enters a table twice on one
path: such an update is refused by the source itself. Where keys of the target act, a child may have followed its parent
already while its own children have not: then it is known by its new value, too.
https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-referential-actions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target.computed import ask_source
from anabranch.connectors.postgresql.target.exchange import hand_on
from anabranch.connectors.postgresql.target.merge import Stage
from anabranch.connectors.postgresql.target.staging import StagingTables
from anabranch.connectors.postgresql.target.swallowed_rows import refuse_left
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, StageColumn, Texts
from anabranch.model.ids import TableId
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule, Computed, TargetTable

Step = tuple[TargetTable, tuple[str, ...], CascadeAction]  # a child, its foreign-key columns, what happens to them


def carry_out(
    connection: Connection,
    stages: StagingTables,
    cascade: Cascade,
    rules: Sequence[CascadeRule],
    nul: str,
    keys_act: bool = False,
) -> list[Texts]:
    """Do a cascade and everything that follows from it. Returns keys of the child, if the cascade tells them. `keys_act`:
    those of the target, by themselves."""
    keys: list[Texts] = []
    step = (cascade.child, cascade.columns, cascade.action)
    arrays = [cascade.parents.column(name) for name in cascade.columns]
    if cascade.action is CascadeAction.UPDATE and cascade.replacements is not None:
        arrays += [cascade.replacements.column(name) for name in cascade.columns]
    if arrays[0].length():
        with stages.filled(_piece(step), arrays, nul) as stage:
            if cascade.tells_keys:
                names = cascade.child.key
                keys = [dict(zip(names, row, strict=True)) for row in connection.execute(_keys(step, stage))]
            levels = _Levels(connection, stages, rules, keys_act, cascade.computed)
            if cascade.spares_children:
                levels.spare(step, stage)
            else:
                levels.do(step, stage, frozenset(), frozenset())
    return keys


class _Levels:
    """Walks the rules from a step down to where nothing is found any more."""

    def __init__(
        self,
        connection: Connection,
        stages: StagingTables,
        rules: Sequence[CascadeRule],
        keys_act: bool,
        computed: Mapping[TableId, Computed],
    ) -> None:
        self.connection, self.stages, self.rules, self.keys_act = connection, stages, rules, keys_act
        self.computed = computed

    def do(self, step: Step, stage: Stage, updated: frozenset[TableId], deleted: frozenset[TableId]) -> None:
        """Carry out a step and those that follow from it. `updated`, `deleted`: tables above, by what happens to their rows."""
        child, _, action = step
        if self.keys_act and action is CascadeAction.DELETE and child.target not in deleted and self._own(child):
            self.spare(step, stage)
        gone = deleted | {child.target} if action is CascadeAction.DELETE else deleted
        path = updated if action is CascadeAction.DELETE else updated | {child.target}
        with ExitStack() as held:
            following = []
            for rule, next_step in self._followers(step, path):
                below = held.enter_context(self.stages.empty(_piece(next_step)))
                look = _look_ahead(step, stage, rule, next_step, below, self.keys_act)
                if self.connection.execute(look).rowcount:
                    following.append((next_step, below))
            is_below = [action is CascadeAction.DELETE and one.target not in gone for (one, *_), _ in following]
            for (next_step, below), first in zip(following, is_below, strict=True):
                if first:
                    self.do(next_step, below, path, gone)
            self._change(step, stage)
            for (next_step, below), first in zip(following, is_below, strict=True):
                if not first:
                    self.do(next_step, below, path, gone)

    def spare(self, step: Step, stage: Stage) -> None:
        """Find and change the children of the step's rows, and of the rows that keys of the table to itself take along."""
        child = step[0]
        own = self._own(child)
        mine = [rule for rule in self.rules if rule.parent.target == child.target]
        others = [rule for rule in mine if rule not in own and rule.on_delete is not None]
        if not (others and child.key):
            return
        with self.stages.empty(_keys_piece(child)) as gone:
            found = self.connection.execute(_gather(child, gone, _refers(step, stage))).rowcount
            while found:
                found = sum(self.connection.execute(_gather_below(rule, gone)).rowcount for rule in own)
            for rule in others:
                assert rule.on_delete is not None
                below = (rule.child, rule.columns, rule.on_delete)
                with self.stages.empty(_piece(below)) as next_stage:
                    if self.connection.execute(_referred_to(rule, gone, next_stage)).rowcount:
                        self.do(below, next_stage, frozenset(), frozenset([child.target]))

    def _own(self, table: TargetTable) -> list[CascadeRule]:
        """Return keys of the table to itself, by which a row that goes takes others of the same table along."""
        deletes = (rule for rule in self.rules if rule.on_delete is CascadeAction.DELETE)
        return [rule for rule in deletes if rule.parent.target == rule.child.target == table.target]

    def _change(self, step: Step, stage: Stage) -> None:
        """Take all children out first, where some take values that others leave: the values may be unique (K8)."""
        child, columns, action = step
        if action is CascadeAction.DELETE:
            self.connection.execute(_delete(step, stage))
            self._refuse_left(step, stage)
            return
        sets = {name: _replacement(step, name) for name in columns}
        after = {name: _value_after(step, name) for name in columns}
        sets |= self._computed(step, stage, _refers(step, stage), after)
        handed_on = action is CascadeAction.UPDATE and self.connection.execute(_is_handed_on(step, stage)).rowcount
        done = 0
        if not (handed_on and hand_on(self.connection, child, stage, sets, _refers(step, stage))):
            done = self.connection.execute(_update(step, stage, sets, _refers(step, stage))).rowcount
            if not handed_on:
                self._refuse_left(step, stage)
        if self.keys_act and (action is CascadeAction.UPDATE or not done):
            followed = _has_followed_here(step)
            computed = self._computed(step, stage, followed, {})
            if computed:
                self.connection.execute(_update(step, stage, computed, followed))

    def _refuse_left(self, step: Step, stage: Stage) -> None:
        """Refuse children that still refer to what was deleted or moved: a trigger, which fires where keys act, left
        them out.
        """
        if self.keys_act:
            refuse_left(
                self.connection, step[0], "delete" if step[2] is CascadeAction.DELETE else "update", _left(step, stage)
            )

    def _computed(
        self, step: Step, stage: Stage, which: sql.Composable, after: Mapping[str, sql.Composable]
    ) -> Mapping[str, sql.Composable]:
        """Compute the children's computed columns; gives nothing where the step changes none."""
        child, columns, _ = step
        computed = self.computed.get(child.source)
        if computed is None or set(columns).isdisjoint(computed.inputs):
            return {}
        rows = sql.SQL("{} WHERE {}").format(_beside(step, stage, "CROSS JOIN"), which)
        return ask_source(self.connection, computed, rows, after)

    def _followers(self, step: Step, updated: frozenset[TableId]) -> Iterator[tuple[CascadeRule, Step]]:
        child, columns, action = step
        for rule in self.rules:
            if rule.parent.target != child.target:
                continue
            if action is CascadeAction.DELETE:
                then = rule.on_delete
            else:
                touched = set(rule.parent_columns) & set(columns)
                then = rule.on_update if touched and rule.child.target not in updated else None
            if then is not None:
                yield rule, (rule.child, rule.columns, then)


def _piece(step: Step) -> MergePiece:
    """Describe the staging table of a step: `p<i>` the values that the children refer to, `r<i>` what replaces them."""
    child, columns, action = step
    prefixes = "pr" if action is CascadeAction.UPDATE else "p"
    places = [StageColumn(f"{p}{i}", child.type_of(n), n) for p in prefixes for i, n in enumerate(columns)]
    return MergePiece(child, MergeAction.UPDATE, tuple(places))


def _keys_piece(table: TargetTable) -> MergePiece:
    return MergePiece(
        table, MergeAction.DELETE, tuple(StageColumn(f"k{i}", table.type_of(n), n) for i, n in enumerate(table.key))
    )


def _gather(table: TargetTable, gone: Stage, which: sql.Composable) -> sql.Composed:
    """Put the keys of rows `t` into `gone`, unless they are there already."""
    return sql.SQL(
        "INSERT INTO {} SELECT {} FROM {} AS t WHERE {} AND NOT EXISTS (SELECT FROM {} AS g WHERE {})"
    ).format(
        table_name(gone),
        _columns("t", table.key),
        table_name(table.target),
        which,
        table_name(gone),
        _is_gone(table, "t"),
    )


def _gather_below(rule: CascadeRule, gone: Stage) -> sql.Composed:
    table = rule.parent
    inner = sql.SQL("SELECT {} FROM {} AS p JOIN {} AS g ON {}").format(
        _columns("p", rule.parent_columns), table_name(table.target), table_name(gone), _is_gone(table, "p")
    )
    return _gather(table, gone, sql.SQL("({}) IN ({})").format(_columns("t", rule.columns), inner))


def _referred_to(rule: CascadeRule, gone: Stage, below: Stage) -> sql.Composed:
    return sql.SQL("INSERT INTO {} SELECT DISTINCT {} FROM {} AS t JOIN {} AS g ON {}").format(
        table_name(below),
        _columns("t", rule.parent_columns),
        table_name(rule.parent.target),
        table_name(gone),
        _is_gone(rule.parent, "t"),
    )


def _is_gone(table: TargetTable, alias: str) -> sql.Composed:
    pairs = (
        sql.SQL("g.{} = {}").format(sql.Identifier(f"k{i}"), sql.Identifier(alias, n)) for i, n in enumerate(table.key)
    )
    return sql.SQL(" AND ").join(pairs)


def _columns(alias: str, names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in names)


def _delete(step: Step, stage: Stage) -> sql.Composed:
    return sql.SQL("DELETE FROM {} AS t WHERE {}").format(table_name(step[0].target), _refers(step, stage))


def _update(step: Step, stage: Stage, sets: Mapping[str, sql.Composable], which: sql.Composable) -> sql.Composed:
    pairs = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in sets.items())
    query = sql.SQL("UPDATE {} AS t SET {} {} WHERE {}")
    return query.format(table_name(step[0].target), pairs, _beside(step, stage, "FROM"), which)


def _left(step: Step, stage: Stage) -> sql.Composed:
    """Return a query for children that did not follow. One that has its new value may still be equal to the old one (a
    collation).
    """
    found: sql.Composable = _refers(step, stage)
    if step[2] is CascadeAction.UPDATE:
        pairs = ((sql.Identifier("t", name), _replacement(step, name)) for name in step[1])
        found = sql.SQL("{} AND ({})").format(found, sql.SQL(" OR ").join(_differ(one, other) for one, other in pairs))
    query = sql.SQL("SELECT FROM {} AS t {} WHERE {} LIMIT 1")
    return query.format(table_name(step[0].target), _beside(step, stage, "CROSS JOIN"), found)


def _is_handed_on(step: Step, stage: Stage) -> sql.Composed:
    """Return a query for a row where one of the new values is also an old one."""
    same = sql.SQL(" AND ").join(
        sql.SQL("s.{} = o.{}").format(sql.Identifier(f"r{i}"), sql.Identifier(f"p{i}")) for i in range(len(step[1]))
    )
    query = sql.SQL("SELECT FROM {} AS s JOIN {} AS o ON {} LIMIT 1")
    return query.format(table_name(stage), table_name(stage), same)


def _keys(step: Step, stage: Stage) -> sql.Composed:
    """Return the keys of the children, in text form."""
    names = (sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in step[0].key)
    return sql.SQL("SELECT {} FROM {} AS t {} WHERE {}").format(
        sql.SQL(", ").join(names),
        table_name(step[0].target),
        _beside(step, stage, "CROSS JOIN"),
        _refers(step, stage),
    )


def _look_ahead(
    step: Step, stage: Stage, rule: CascadeRule, next_step: Step, below: Stage, keys_act: bool
) -> sql.Composed:
    """Put into `below` what the next level's children refer to, as it is and, where they follow that, as it will be. What
    does not change clears nobody."""
    may_have_followed = keys_act and step[2] is CascadeAction.UPDATE
    places = [_value_before(step, n) if may_have_followed else sql.Identifier("t", n) for n in rule.parent_columns]
    found: sql.Composable = _refers(step, stage)
    if may_have_followed:
        found = sql.SQL("({} OR {})").format(found, _has_followed(step))
    if next_step[2] is CascadeAction.UPDATE:
        places += [_value_after(step, name) for name in rule.parent_columns]
    elif step[2] is not CascadeAction.DELETE:
        pairs = [(place, _value_after(step, n)) for place, n in zip(places, rule.parent_columns, strict=True)]
        found = sql.SQL("{} AND ({})").format(found, sql.SQL(" OR ").join(_differ(one, other) for one, other in pairs))
    return sql.SQL("INSERT INTO {} ({}) SELECT DISTINCT {} FROM {} AS t {} WHERE {}").format(
        table_name(below),
        column_list(tuple(column.name for column in _piece(next_step).columns)),
        sql.SQL(", ").join(places),
        table_name(step[0].target),
        _beside(step, stage, "CROSS JOIN"),
        found,
    )


def _differ(one: sql.Composable, other: sql.Composable) -> sql.Composed:
    """Compare values as they are written: a source follows also from "a" to "A"."""
    return sql.SQL('{}::text COLLATE "C" IS DISTINCT FROM {}::text COLLATE "C"').format(one, other)


def _value_before(step: Step, name: str) -> sql.Composable:
    """Return the value of a child's column before it followed its parent, which it may have done already."""
    return sql.Identifier("s", f"p{step[1].index(name)}") if name in step[1] else sql.Identifier("t", name)


def _has_followed(step: Step) -> sql.Composed:
    pairs = (sql.SQL("t.{} = s.{}").format(sql.Identifier(n), sql.Identifier(f"r{i}")) for i, n in enumerate(step[1]))
    return sql.SQL("(") + sql.SQL(" AND ").join(pairs) + sql.SQL(")")


def _has_followed_here(step: Step) -> sql.Composed:
    """Return the condition for children that a key of the target may have changed already in this transaction.

    They are known by the values that they have now, also NULL. Any other such row is computed to what it is already.
    """
    _, columns, action = step
    after = [
        sql.Identifier("s", f"r{i}") if action is CascadeAction.UPDATE else sql.SQL("NULL") for i in range(len(columns))
    ]
    pairs = zip(columns, after, strict=True)
    same = [sql.SQL("t.{} IS NOT DISTINCT FROM {}").format(sql.Identifier(name), value) for name, value in pairs]
    return sql.SQL("{} AND age(t.xmin) <= 0").format(sql.SQL(" AND ").join(same))


def _replacement(step: Step, name: str) -> sql.Composable:
    _, columns, action = step
    return sql.Identifier("s", f"r{columns.index(name)}") if action is CascadeAction.UPDATE else sql.SQL("NULL")


def _value_after(step: Step, name: str) -> sql.Composable:
    """Return the value that a column of the child gets, with its type also where that is NULL."""
    if name not in step[1]:
        return sql.Identifier("t", name)
    if step[2] is CascadeAction.UPDATE:
        return _replacement(step, name)
    return sql.SQL("CASE WHEN false THEN {} END").format(sql.Identifier("t", name))


def _beside(step: Step, stage: Stage, word: str) -> sql.Composable:
    """Return the staging table for FROM, where values of its rows are needed."""
    if step[2] is not CascadeAction.UPDATE:
        return sql.SQL("")
    return sql.SQL(word) + sql.SQL(" {} AS s").format(table_name(stage))


def _refers(step: Step, stage: Stage) -> sql.Composed:
    """Return the condition for children that refer to a staged row.

    One column is compared with an array: the planner takes it for a handful of values and uses the child's index, where
    it would take the staging table for a thousand rows and read the whole child.
    """
    _, columns, action = step
    ours, places = column_list(columns), column_list([f"p{i}" for i in range(len(columns))])
    if action is CascadeAction.UPDATE:
        pairs = (
            sql.SQL("t.{} = s.{}").format(sql.Identifier(n), sql.Identifier(f"p{i}")) for i, n in enumerate(columns)
        )
        return sql.SQL(" AND ").join(pairs)
    if len(columns) == 1:
        return sql.SQL("t.{} = ANY (ARRAY(SELECT {} FROM {}))").format(ours, places, table_name(stage))
    return sql.SQL("({}) IN (SELECT {} FROM {})").format(ours, places, table_name(stage))
