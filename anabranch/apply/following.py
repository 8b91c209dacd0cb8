"""The context that apply follows, made from what the target says: tables, windows, filters, cascades.

It is made at the start, and again whenever it is in doubt what the target has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.cascades.computed import AskedSource, computed_of
from anabranch.apply.cascades.takeovers import with_takeovers
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.order import KeyOrder, key_order
from anabranch.apply.settings import ApplySettings
from anabranch.apply.tables import Tables
from anabranch.apply.window import WindowResolver
from anabranch.apply.work import key_of
from anabranch.contracts import RowTarget, ValueRules
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import TargetTable


@dataclass(frozen=True)
class Following:
    """The job's facts that do not change while apply runs."""

    target: RowTarget
    rules: ValueRules
    rule_set: Tables
    settings: ApplySettings
    resolver: WindowResolver
    enforces_keys: bool = False  # whether the target enforces its keys on what we write (K7)
    asked: AskedSource | None = None  # who is asked for computed columns that the log does not have

    def context(self, states: Mapping[TableId, TableState]) -> ApplyContext:
        """Return the context of all tables that stream or were loaded with the others."""
        return self.of(self.tables([state for state in states.values() if state.is_followed]))

    def of(self, tables: Mapping[TableId, Followed]) -> ApplyContext:
        rules = () if self.settings.logs_cascades else rules_of(tables)
        keys = self._key_order(tables) if self.enforces_keys else None
        computed = computed_of(tables, rules, self.asked)
        return with_takeovers(ApplyContext(tables, rules, self.settings.truncate, keys, computed), self.resolver.trail)

    def _key_order(self, tables: Mapping[TableId, Followed]) -> KeyOrder:
        targets = {source: followed.table for source, followed in tables.items()}
        with closing(self.target.catalog()) as catalog:
            enforced = catalog.foreign_keys(list(targets.values()))
        return key_order({source: followed.schema for source, followed in tables.items()}, targets, enforced)

    def tables(self, states: Sequence[TableState]) -> dict[TableId, Followed]:
        """Return the tables as they are followed. Raises StateError for a loaded table without its definition."""
        for state in states:
            if state.schema is None:
                raise StateError("a loaded table without its definition", table=str(state.source), hint="load it again")
        targets = {state.source: self.rule_set.target_table(state.schema) for state in states if state.schema}
        theirs = self._unique_keys(list(targets.values()))
        found = {state.source: self._table(state, targets[state.source]) for state in states}
        return {t: replace(f, unique_keys=f.unique_keys | theirs.get(t, frozenset())) for t, f in found.items()}

    def _table(self, state: TableState, table: TargetTable) -> Followed:
        assert state.schema is not None
        low, high = self.resolver.window(state) if state.is_loading else (0, 0)
        loaded = self.resolver.loaded(state, low, high) if low < high else None
        if state.facts.resumes is not None:  # everything after that place is strict
            low, high, loaded = state.facts.resumes, state.facts.resumes, None
        waiting = frozenset(key_of(table, key) for key in state.facts.reread)
        unique = unique_keys(state.schema, table)
        where, policy = self.rule_set.where(state.schema), self.rule_set.on_conflict(state.schema)
        return Followed(
            state.schema,
            table,
            low,
            high,
            where,
            waiting=waiting,
            unique_keys=unique,
            on_conflict=policy,
            loaded=loaded,
        )

    def joined(
        self, context: ApplyContext, states: Sequence[TableState], sequence: int
    ) -> tuple[ApplyContext, ApplyContext]:
        """Return two contexts for tables that join at `sequence`: one to replay their part of the trail, in which the
        other tables have nothing to do, and the one that holds afterwards."""
        joining = self.tables(states)
        others = {t: f for t, f in context.tables.items() if t not in joining}
        still = {t: replace(f, low=sequence, high=sequence) for t, f in others.items()}
        return self.of({**still, **joining}), self.of({**others, **joining})

    def _unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        with closing(self.target.catalog()) as catalog:
            return catalog.unique_keys(tables)


def unique_keys(schema: TableSchema, table: TargetTable) -> frozenset[UniqueKey]:
    """Return the source's unique keys beside the primary key, by target names; of columns that the target computes what they
    are computed from. The target has such keys, or gets them once it is consistent."""
    names = dict(zip(table.source_columns, table.columns, strict=True))
    computed = {source: schema.inputs_of(source) for source, _ in table.computed}
    found = set[UniqueKey]()
    for index in schema.indexes:
        if not index.unique:
            continue
        inputs = frozenset[str]().union(*(computed.get(column, ()) for column in index.columns))
        columns = frozenset(names[column] for column in inputs.union(index.columns) if column in names)
        is_special = bool(index.definition or index.parts) or any(index.prefixes)
        if columns:
            found.add(UniqueKey(columns, not is_special and all(column in names for column in index.columns)))
    return frozenset(found)
